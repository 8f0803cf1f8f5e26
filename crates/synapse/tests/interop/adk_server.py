"""An agent of google-adk that repeats the message, without a model, served with `to_a2a`."""

from common import free_port, serve
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


class Echo(BaseAgent):
    async def _run_async_impl(self, context):
        said = ''.join(part.text or '' for part in context.user_content.parts)
        content = types.Content(role='model', parts=[types.Part(text=said)])
        yield Event(author=self.name, invocation_id=context.invocation_id, content=content)


port = free_port()
serve(to_a2a(Echo(name='echo', description='repeats'), host='127.0.0.1', port=port), port)
