"""An agent on a2a-sdk 0.2 or 0.3 that repeats the message, works without end at `long`, and asks at `ask`."""

import asyncio

from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TextPart
from a2a.utils import new_task
from common import free_port, serve


class Echo(AgentExecutor):
    async def execute(self, context, event_queue):
        text, task = context.get_user_input(), context.current_task
        goes_on = task is not None
        if not goes_on:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, getattr(task, 'context_id', None) or task.contextId)

        def says(words):
            return updater.new_agent_message([Part(root=TextPart(text=words))])

        if text == 'ask' and not goes_on:
            await updater.requires_input(says('which one?'), final=True)
        elif text == 'long':
            await updater.start_work(says('begun'))
            await asyncio.Event().wait()
        else:
            await updater.start_work(says('one'))
            await updater.add_artifact([Part(root=TextPart(text=text))], name='answer')
            await updater.complete()

    async def cancel(self, context, event_queue):
        task = context.current_task
        updater = TaskUpdater(event_queue, task.id, getattr(task, 'context_id', None) or task.contextId)
        await updater.cancel()


port = free_port()
card = AgentCard(
    name='echo',
    description='repeats',
    version='1',
    url=f'http://127.0.0.1:{port}/',
    capabilities=AgentCapabilities(streaming=True),
    defaultInputModes=['text/plain'],
    defaultOutputModes=['text/plain'],
    skills=[AgentSkill(id='echo', name='echo', description='repeats', tags=['echo'])],
)
handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore())
serve(A2AStarletteApplication(agent_card=card, http_handler=handler).build(), port)
