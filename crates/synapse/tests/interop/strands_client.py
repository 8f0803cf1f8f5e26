"""Strands' A2AAgent, which is on a2a-sdk 0.3."""

import sys

from common import check, run_cases
from strands.agent.a2a_agent import A2AAgent

base = sys.argv[1]


async def send():
    answer = await A2AAgent(endpoint=base).invoke_async('hello strands')
    check('hello strands' in str(answer), answer)


async def stream():
    events = [event async for event in A2AAgent(endpoint=base).stream_async('steps')]
    check(len(events) > 1 and 'done' in str(events[-1]), events)


async def context():
    agent = A2AAgent(endpoint=base)
    first = await agent.invoke_async('one')
    second = await agent.invoke_async('two')
    check('one' in str(first) and 'two' in str(second), (first, second))


run_cases([send, stream, context])
