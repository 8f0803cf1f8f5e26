"""a2a-sdk 0.2 as a client: it looks for the card at `/.well-known/agent.json` and speaks JSON-RPC alone."""

import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, A2AClient
from a2a.types import (
    GetTaskRequest,
    Message,
    MessageSendParams,
    Part,
    Role,
    SendMessageRequest,
    SendStreamingMessageRequest,
    TaskQueryParams,
    TextPart,
)
from common import check, run_cases

base = sys.argv[1]


def params(text, **more):
    part = Part(root=TextPart(text=text))
    return MessageSendParams(message=Message(role=Role.user, parts=[part], messageId=uuid.uuid4().hex, **more))


class Talk:
    async def __aenter__(self):
        self.http = httpx.AsyncClient()
        card = await A2ACardResolver(self.http, base).get_agent_card()
        self.client = A2AClient(self.http, agent_card=card)
        return self

    async def __aexit__(self, *_):
        await self.http.aclose()

    async def send(self, text, **more):
        request = SendMessageRequest(id=uuid.uuid4().hex, params=params(text, **more))
        return (await self.client.send_message(request)).root.result


def text_of(task):
    return task.artifacts[0].parts[0].root.text


async def send():
    async with Talk() as talk:
        task = await talk.send('hello sdk')
        check(text_of(task) == 'hello sdk', task)


async def get():
    async with Talk() as talk:
        task = await talk.send('hello')
        request = GetTaskRequest(id='1', params=TaskQueryParams(id=task.id))
        check((await talk.client.get_task(request)).root.result.id == task.id, task)


async def stream():
    async with Talk() as talk:
        request = SendStreamingMessageRequest(id='1', params=params('steps'))
        events = [event.root.result async for event in talk.client.send_message_streaming(request)]
        check(events[-1].final and len(events) > 2, events)


async def context():
    async with Talk() as talk:
        first = await talk.send('one')
        second = await talk.send('two', contextId=first.contextId)
        check(second.contextId == first.contextId and second.id != first.id, second)


async def multi_turn():
    async with Talk() as talk:
        task = await talk.send('ask')
        check(task.status.state == 'input-required', task)
        task = await talk.send('blue', taskId=task.id, contextId=task.contextId)
        check(text_of(task) == 'you said blue', task)


run_cases([send, get, stream, context, multi_turn])
