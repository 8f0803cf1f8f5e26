"""An agent of CrewAI behind a2a-sdk's server, with a model that repeats the message."""

import os

os.environ.update(CREWAI_DISABLE_TELEMETRY='true', OTEL_SDK_DISABLED='true', CREWAI_TRACING_ENABLED='false')

from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from common import free_port, serve
from crewai import Agent, BaseLLM
from crewai.a2a import A2AServerConfig
from crewai.a2a.utils import task as crew_task


class Repeat(BaseLLM):
    def call(self, messages, *args, **kwargs):
        said = messages if isinstance(messages, str) else messages[-1]['content']
        return 'Thought: I repeat it.\nFinal Answer: ' + said

    def supports_function_calling(self):
        return False


class Executor(AgentExecutor):
    async def execute(self, context, event_queue):
        await crew_task.execute(agent, context, event_queue)

    async def cancel(self, context, event_queue):
        await crew_task.cancel(context, event_queue)


port = free_port()
url = f'http://127.0.0.1:{port}'
agent = Agent(
    role='echo', goal='repeat', backstory='repeats', llm=Repeat(model='repeat'), a2a=A2AServerConfig(url=url)
)
handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore())
serve(A2AStarletteApplication(agent_card=agent.to_agent_card(url), http_handler=handler).build(), port)
