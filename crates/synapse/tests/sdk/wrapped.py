"""A CLI in a terminal as an A2A agent: the official Python SDK gives it tasks over one binding.

    wrapped.py SOCKET BINDING TAG

It is called on the Unix socket of its node, as its user, who alone may decide what it asks. The model behind it is
told in the message what to do: say something, call a tool that needs a person's word, or talk on until it is stopped.
One line for each case, as in `python_1.py`.
"""

import asyncio
import sys

import grpc
import httpx

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import get_data_parts, get_message_text, new_data_part
from a2a.types import CancelTaskRequest, TaskState

import python_1
from python_1 import Side, all_of, equal, request, state_of, within

python_1.PATIENCE_S = 90


class Here(Side):
    def __init__(self, card, binding, socket):
        self.socket = socket
        super().__init__(card, binding, '')

    def client(self, streaming, token=None):
        options = [('grpc.default_authority', 'localhost')]
        config = ClientConfig(
            streaming=streaming,
            httpx_client=here(self.socket),
            grpc_channel_factory=lambda url: grpc.aio.insecure_channel(f'unix:{self.socket}', options),
            supported_protocol_bindings=[self.binding],
        )
        return ClientFactory(config).create(self.card, [])


def here(socket):
    transport = httpx.AsyncHTTPTransport(uds=socket)
    return httpx.AsyncClient(transport=transport, timeout=90, headers={'A2A-Version': '1.0'})


def states(events):
    told = [event.status_update.status for event in events if event.HasField('status_update')]
    return [TaskState.Name(status.state) for status in told], told


async def streams(side, tag):
    asked = request(f'what is it {tag} {{{{stream 1500; say it is {tag}}}}}')
    events = await within(all_of(side.streaming.send_message(asked)), 'the stream to end')
    equal(events[0].WhichOneof('payload'), 'task')
    seen, _ = states(events)
    # The task that is told first may be at work already.
    assert 'TASK_STATE_WORKING' in [TaskState.Name(events[0].task.status.state), *seen], events
    equal(seen[-1], 'TASK_STATE_COMPLETED')
    assert any(f'it is {tag}' in str(event.artifact_update) for event in events), events


async def asks(side, tag):
    asked = request(f'make one {{{{ask mktemp {tag}-XXXXXX; say made}}}}')
    events = await within(all_of(side.streaming.send_message(asked)), 'the question')
    seen, told = states(events)
    equal(seen[-1], 'TASK_STATE_INPUT_REQUIRED')
    message, task = told[-1].message, events[0].task.id
    assert 'mktemp' in get_message_text(message), message
    prompt = get_data_parts(message.parts)[0]
    assert prompt['choices'], prompt
    words = await side.send('yes', task=task, now=True)
    equal(state_of(words), 'TASK_STATE_INPUT_REQUIRED')
    done = await side.send(None, parts=[new_data_part({'approve': prompt['prompt_hash']})], task=task)
    equal(state_of(done), 'TASK_STATE_COMPLETED')


async def canceled(side, tag):
    task = await side.begin(f'talk on {tag} {{{{stream 60000}}}}')
    await side.wait_for(task.id, TaskState.TASK_STATE_WORKING)
    await side.blocking.cancel_task(CancelTaskRequest(id=task.id))
    await side.wait_for(task.id, TaskState.TASK_STATE_CANCELED)


async def main(socket, binding, tag):
    async with here(socket) as client:
        card = await A2ACardResolver(client, 'http://localhost').get_agent_card()
    side = Here(card, binding, socket)
    for case in (streams, asks, canceled):
        await case(side, tag)
        print('ok', binding, case.__name__, flush=True)


asyncio.run(main(*sys.argv[1:]))
