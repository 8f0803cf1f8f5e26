"""CrewAI's delegation to an agent elsewhere: what an agent with `A2AClientConfig` runs, without the model around it."""

import os
import sys

os.environ.update(CREWAI_DISABLE_TELEMETRY='true', OTEL_SDK_DISABLED='true', CREWAI_TRACING_ENABLED='false')

from common import check, run_cases
from crewai.a2a.updates import PollingConfig, StreamingConfig
from crewai.a2a.utils.delegation import aexecute_a2a_delegation

card = sys.argv[1] + '/.well-known/agent-card.json'


async def delegate(text, updates, **more):
    return await aexecute_a2a_delegation(
        endpoint=card, auth=None, timeout=30, task_description=text, updates=updates, **more
    )


async def send():
    result = await delegate('hello crewai', PollingConfig(interval=0.1))
    check(result['status'] == 'completed' and 'hello crewai' in result['result'], result)


async def stream():
    result = await delegate('steps', StreamingConfig())
    check(result['status'] == 'completed' and 'done' in result['result'], result)


async def context():
    first = await delegate('one', StreamingConfig(), context_id='interop-crewai')
    second = await delegate('two', StreamingConfig(), context_id='interop-crewai')
    check(first['status'] == second['status'] == 'completed', (first, second))


async def multi_turn():
    result = await delegate('ask', StreamingConfig())
    check(result['status'] == 'input-required', result)


run_cases([send, stream, context, multi_turn])
