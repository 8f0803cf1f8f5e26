"""google-adk's RemoteA2aAgent in a runner, as an application of ADK calls an agent elsewhere."""

import sys

from common import check, run_cases
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.genai import types

base = sys.argv[1]


class Talk:
    """One session."""

    async def open(self):
        card = base + '/.well-known/agent-card.json'
        self.runner = InMemoryRunner(agent=RemoteA2aAgent(name='remote', agent_card=card), app_name='interop')
        self.session = await self.runner.session_service.create_session(app_name='interop', user_id='u')
        return self

    async def say(self, text):
        message = types.Content(role='user', parts=[types.Part(text=text)])
        events = self.runner.run_async(user_id='u', session_id=self.session.id, new_message=message)
        seen = [event async for event in events]
        errors = [event.error_message for event in seen if event.error_message]
        check(not errors, errors)
        parts = [part for event in seen if event.content for part in event.content.parts or []]
        return ' '.join(part.text for part in parts if part.text), seen


async def send():
    said, _ = await (await Talk().open()).say('hello adk')
    check('hello adk' in said, said)


async def stream():
    said, events = await (await Talk().open()).say('steps')
    check('done' in said and len(events) > 1, said)


async def context():
    talk = await Talk().open()
    first, _ = await talk.say('one')
    second, events = await talk.say('two')
    check('one' in first and 'two' in second, (first, second))


run_cases([send, stream, context])
