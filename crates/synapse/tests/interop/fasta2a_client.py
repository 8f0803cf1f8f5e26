"""fasta2a 0.6 and 2.x as a client. Both call methods of 0.3 at the URL they are given, and always add a slash to it."""

import sys
import uuid

from common import Lacks, check, run_cases
from fasta2a import client as fasta2a

url = sys.argv[1] + '/api/v1/agent'


def message(text, **more):
    # Version 2 has no `kind`, as A2A 1.0.
    part = {'text': text} if hasattr(fasta2a.A2AClient, 'stream_message') else {'kind': 'text', 'text': text}
    return {'role': 'user', 'kind': 'message', 'message_id': uuid.uuid4().hex, 'parts': [part], **more}


async def finished(client, response):
    check('result' in response, response)
    # Version 2 expects the task in an object around it, as A2A 1.0 has it.
    task = response['result'].get('task', response['result'])
    while task['status']['state'] in ('submitted', 'working'):
        task = (await client.get_task(task['id']))['result']
    return task


async def send():
    client = fasta2a.A2AClient(url)
    task = await finished(client, await client.send_message(message('hello fasta2a')))
    check(task['artifacts'][0]['parts'][0]['text'] == 'hello fasta2a', task)


async def get():
    client = fasta2a.A2AClient(url)
    task = await finished(client, await client.send_message(message('hello')))
    again = (await client.get_task(task['id']))['result']
    check(again['id'] == task['id'] and again['status']['state'] == 'completed', again)


async def stream():
    client = fasta2a.A2AClient(url)
    if not hasattr(client, 'stream_message'):
        raise Lacks('its client does not stream')
    events = [event async for event in client.stream_message(message('steps'))]
    check('done' in str(events[-3:]), events)


async def context():
    client = fasta2a.A2AClient(url)
    first = await finished(client, await client.send_message(message('one')))
    second = await finished(client, await client.send_message(message('two', context_id=first['context_id'])))
    check(second['context_id'] == first['context_id'] and second['id'] != first['id'], second)


async def multi_turn():
    client = fasta2a.A2AClient(url)
    task = await finished(client, await client.send_message(message('ask')))
    check(task['status']['state'] == 'input-required', task)
    said = message('blue', task_id=task['id'], context_id=task['context_id'])
    task = await finished(client, await client.send_message(said))
    check(task['artifacts'][0]['parts'][0]['text'] == 'you said blue', task)


run_cases([send, get, stream, context, multi_turn])
