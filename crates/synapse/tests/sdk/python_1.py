"""The official Python SDK, 1.x, as a client: every operation over every binding it has.

    python_1.py BASE_URL TOKEN_FILE [--bindings A,B] [--skip BINDING:CASE,...]

The agent must do what `python_server.py` does. One line for each case, `ok BINDING CASE`; what fails is told with
what was seen, and the exit code is then 1. Nothing is called but BASE_URL, what its card names, and a webhook of our
own on 127.0.0.1.
"""

import argparse
import asyncio
import base64
import json
import sys
import traceback
import urllib.parse
import uuid

import grpc
import httpx
from google.protobuf.json_format import MessageToDict
from jwt.api_jwk import PyJWK

from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.errors import A2AClientError
from a2a.client.transports.grpc import _map_grpc_error
from a2a.helpers import get_artifact_text, get_data_parts, get_message_text
from a2a.helpers import new_data_part, new_raw_part, new_text_part
from a2a.types import (
    AuthenticationInfo,
    CancelTaskRequest,
    ContentTypeNotSupportedError,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    InvalidParamsError,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskPushNotificationConfig,
    TaskState,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from a2a.types import a2a_pb2_grpc
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from webhook import Webhook

PATIENCE_S = 40
UNKNOWN = '0123456789abcdef0123456789abcdef'
LIVE = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')


class Token(CredentialService):
    """The secret, for whatever scheme the card names."""

    def __init__(self, secret):
        self.secret = secret

    async def get_credentials(self, security_scheme_name, context):
        return self.secret


def channel(url):
    """A card may name a gRPC interface with or without a scheme."""
    place = urllib.parse.urlsplit(url if '://' in url else f'//{url}')
    return grpc.aio.insecure_channel(place.netloc)


class Side:
    """One binding: a client that waits for the whole answer and one that streams."""

    def __init__(self, card, binding, token):
        self.card, self.binding, self.token = card, binding, token
        self.blocking, self.streaming = self.client(False), self.client(True)

    def client(self, streaming, token=None):
        config = ClientConfig(
            streaming=streaming,
            httpx_client=httpx.AsyncClient(timeout=PATIENCE_S, headers={'A2A-Version': '1.0'}),
            grpc_channel_factory=channel,
            supported_protocol_bindings=[self.binding],
        )
        secret = self.token if token is None else token
        return ClientFactory(config).create(self.card, [AuthInterceptor(Token(secret))])

    async def send(self, text, **more):
        """The task that a message became."""
        async for event in self.blocking.send_message(request(text, **more)):
            assert event.HasField('task'), event
            return event.task
        raise AssertionError('no answer')

    async def get(self, task_id, **more):
        return await self.blocking.get_task(GetTaskRequest(id=task_id, **more))

    async def begin(self, text, **more):
        """A task that is on its way."""
        return await self.send(text, now=True, **more)

    async def wait_for(self, task_id, state):
        """The task, once it is in this state."""

        async def look():
            while (task := await self.get(task_id)).status.state != state:
                await asyncio.sleep(0.02)
            return task

        return await within(look(), f'{task_id} to be {TaskState.Name(state)}')

    async def end(self, task_id):
        """Cancels it; a server may answer while it is still stopping (3.1.5), so its end is waited for."""
        task = await self.blocking.cancel_task(CancelTaskRequest(id=task_id))
        equal(task.id, task_id)
        canceled_or_not_yet = (*LIVE, TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_CANCELED)
        assert task.status.state in canceled_or_not_yet, task
        return await self.wait_for(task_id, TaskState.TASK_STATE_CANCELED)


def request(text, parts=None, task=None, context=None, now=False, history=None, push=None, message_id=None):
    message = Message(
        message_id=message_id or str(uuid.uuid4()),
        role=Role.ROLE_USER,
        parts=[new_text_part(text)] + (parts or []) if text is not None else parts or [],
        task_id=task,
        context_id=context,
    )
    configuration = SendMessageConfiguration(return_immediately=now)
    if history is not None:
        configuration.history_length = history
    if push is not None:
        configuration.task_push_notification_config.CopyFrom(push)
    return SendMessageRequest(message=message, configuration=configuration)


async def within(waiting, what):
    try:
        return await asyncio.wait_for(waiting, PATIENCE_S)
    except asyncio.TimeoutError:
        raise AssertionError(f'waited {PATIENCE_S} s for {what}') from None


async def all_of(stream):
    return [event async for event in stream]


async def raises(kind, waiting):
    """The error that came, which must be of this kind and say something."""
    try:
        got = await waiting
    except kind as error:
        assert str(error), error
        return error
    raise AssertionError(f'{kind.__name__} was expected; this came: {got}')


def equal(found, expected):
    assert found == expected, f'{found!r} is not {expected!r}'


def answer_of(task):
    """The text of the artifact that is the answer."""
    return [get_artifact_text(artifact) for artifact in task.artifacts if artifact.artifact_id == 'answer'][0]


def state_of(task):
    return TaskState.Name(task.status.state)


# --- cases


# S1–S3, C1, C5, C6, G11, G12.
async def send(side):
    task = await side.send('hello over there')
    equal(state_of(task), 'TASK_STATE_COMPLETED')
    equal(answer_of(task), 'hello over there')
    assert task.id and task.context_id, task
    assert task.status.HasField('timestamp') and task.status.timestamp.ToSeconds() > 1_700_000_000, task
    equal(get_message_text(task.history[0]), 'hello over there')


# S4.
async def immediately(side):
    task = await side.begin('long one')
    assert task.status.state in LIVE, task
    canceled = await side.end(task.id)
    equal((canceled.id, state_of(canceled)), (task.id, 'TASK_STATE_CANCELED'))


# S13, S15, S16, S18, S20, G18–G20.
async def stream(side):
    events = await within(all_of(side.streaming.send_message(request('steps'))), 'the stream to end')
    kinds = [event.WhichOneof('payload') for event in events]
    equal(kinds[0], 'task')
    task = events[0].task
    assert set(kinds[1:]) <= {'status_update', 'artifact_update'}, kinds
    made = [event.artifact_update for event in events if event.HasField('artifact_update')]
    told = [(one.artifact.artifact_id, get_artifact_text(one.artifact), one.append) for one in made]
    equal(told, [('log', 'a', False), ('log', 'b', True), ('answer', 'done', False)])
    status = [event.status_update.status for event in events if event.HasField('status_update')]
    said = [get_message_text(one.message) for one in status if one.HasField('message')]
    assert 'one' in said, status
    equal(kinds[-1], 'status_update')
    equal(TaskState.Name(status[-1].state), 'TASK_STATE_COMPLETED')
    for event in events[1:]:
        inside = getattr(event, event.WhichOneof('payload'))
        equal((inside.task_id, inside.context_id), (task.id, task.context_id))
    whole = await side.get(task.id)
    equal(state_of(whole), 'TASK_STATE_COMPLETED')
    log = [artifact for artifact in whole.artifacts if artifact.artifact_id == 'log'][0]
    equal(get_artifact_text(log, ''), 'ab')
    equal(answer_of(whole), 'done')


# S6, T2.
async def history(side):
    task = await side.send('ask something')
    task = await side.send('the second', task=task.id)
    equal(state_of(task), 'TASK_STATE_COMPLETED')
    whole = await side.get(task.id)
    users = [get_message_text(one) for one in whole.history if one.role == Role.ROLE_USER]
    equal(users, ['ask something', 'the second'])
    equal(len((await side.get(task.id, history_length=0)).history), 0)
    last = (await side.get(task.id, history_length=1)).history
    assert len(last) <= 1, last
    none = await side.send('say no more', history=0)
    equal(len(none.history), 0)


# C2, C10.
async def context(side):
    name = f'talk-{uuid.uuid4()}'
    first = await side.send('a', context=name)
    second = await side.send('b', context=name)
    equal((first.context_id, second.context_id), (name, name))
    assert first.id != second.id, first
    own = await side.send('c')
    next_one = await side.send('d', context=own.context_id)
    equal(next_one.context_id, own.context_id)


# T5–T7, T9, T10.
async def list_tasks(side):
    name = f'list-{uuid.uuid4()}'
    ids = [(await side.send(f'number {n}', context=name)).id for n in range(5)]
    listed = await side.blocking.list_tasks(ListTasksRequest(context_id=name))
    equal([task.id for task in listed.tasks], ids[::-1])
    equal((listed.total_size, listed.next_page_token, listed.page_size > 0), (5, '', True))
    assert all(not task.artifacts for task in listed.tasks), listed
    full = await side.blocking.list_tasks(ListTasksRequest(context_id=name, include_artifacts=True))
    equal([answer_of(task) for task in full.tasks], [f'number {n}' for n in range(4, -1, -1)])


# T4, T6.
async def list_pages(side):
    name = f'pages-{uuid.uuid4()}'
    ids = [(await side.send(f'number {n}', context=name)).id for n in range(5)]
    seen, token, pages = [], '', 0
    while pages == 0 or token:
        page = await side.blocking.list_tasks(
            ListTasksRequest(context_id=name, page_size=2, page_token=token)
        )
        assert len(page.tasks) <= 2, page
        equal(page.total_size, 5)
        seen += [task.id for task in page.tasks]
        token, pages = page.next_page_token, pages + 1
    equal((seen, pages), (ids[::-1], 3))


# T11.
async def list_filters(side):
    name = f'filters-{uuid.uuid4()}'
    done = await side.send('done', context=name)
    failed = await side.send('fail', context=name)
    asks = await side.send('ask', context=name)

    async def ids(**more):
        listed = await side.blocking.list_tasks(ListTasksRequest(context_id=name, **more))
        return [task.id for task in listed.tasks]

    equal(await ids(status=TaskState.TASK_STATE_COMPLETED), [done.id])
    equal(await ids(status=TaskState.TASK_STATE_FAILED), [failed.id])
    equal(await ids(status=TaskState.TASK_STATE_INPUT_REQUIRED), [asks.id])
    equal(await ids(status=TaskState.TASK_STATE_CANCELED), [])
    later = asks.status.timestamp
    assert asks.id in await ids(status_timestamp_after=later), later
    assert done.id not in await ids(status_timestamp_after=later), later
    listed = await side.blocking.list_tasks(ListTasksRequest(context_id=name, history_length=0))
    assert all(not task.history for task in listed.tasks), listed
    await side.end(asks.id)


# T12.
async def cancel(side):
    task = await side.begin('long one')
    await side.wait_for(task.id, TaskState.TASK_STATE_WORKING)
    equal(state_of(await side.end(task.id)), 'TASK_STATE_CANCELED')
    equal(state_of(await side.get(task.id)), 'TASK_STATE_CANCELED')


# T15–T17, S21.
async def subscribe(side):
    task = await side.begin('long one')
    events = side.streaming.subscribe(SubscribeToTaskRequest(id=task.id))
    first = await within(anext(events), 'the task')
    equal((first.WhichOneof('payload'), first.task.id), ('task', task.id))
    other = side.streaming.subscribe(SubscribeToTaskRequest(id=task.id))
    equal((await within(anext(other), 'the task again')).task.id, task.id)
    await side.end(task.id)
    for rest in (await within(all_of(events), 'one end'), await within(all_of(other), 'the other end')):
        equal(TaskState.Name(rest[-1].status_update.status.state), 'TASK_STATE_CANCELED')


# T15.
async def subscribe_waiting(side):
    """A task that nobody works on now: it asks, and is told."""
    task = await side.send('ask')
    events = side.streaming.subscribe(SubscribeToTaskRequest(id=task.id))
    first = await within(anext(events), 'the task')
    equal(state_of(first.task), 'TASK_STATE_INPUT_REQUIRED')
    await side.send('this', task=task.id)
    rest = await within(all_of(events), 'its end')
    equal(TaskState.Name(rest[-1].status_update.status.state), 'TASK_STATE_COMPLETED')


# C8, C11, G13.
async def asks(side):
    task = await side.send('ask me')
    equal(state_of(task), 'TASK_STATE_INPUT_REQUIRED')
    equal(get_message_text(task.status.message), 'which one?')
    done = await side.send('the blue one', task=task.id, context=task.context_id)
    equal((done.id, state_of(done)), (task.id, 'TASK_STATE_COMPLETED'))
    equal(answer_of(done), 'you said the blue one')


# S17.
async def asks_streaming(side):
    events = await within(all_of(side.streaming.send_message(request('ask me'))), 'the question')
    asked = events[-1].status_update
    equal(TaskState.Name(asked.status.state), 'TASK_STATE_INPUT_REQUIRED')
    more = request('the red one', task=asked.task_id)
    events = await within(all_of(side.streaming.send_message(more)), 'the end')
    # A task that has ended before its stream began is told whole, and is then all there is to tell.
    end = events[-1].task if events[-1].HasField('task') else events[-1].status_update
    assert end.status.state == TaskState.TASK_STATE_COMPLETED, events
    equal(answer_of(await side.get(asked.task_id)), 'you said the red one')


# S1, S14.
async def direct(side):
    """A message for an answer: no task is made, and a stream of it has nothing else."""
    name = f'direct-{uuid.uuid4()}'
    for client in (side.blocking, side.streaming):
        events = await within(all_of(client.send_message(request('direct', context=name))), 'the message')
        equal([event.WhichOneof('payload') for event in events], ['message'])
        message = events[0].message
        equal((get_message_text(message), message.role, message.context_id), ('directly', Role.ROLE_AGENT, name))
        assert message.message_id and not message.task_id, message
    equal(len((await side.blocking.list_tasks(ListTasksRequest(context_id=name))).tasks), 0)


# G13.
async def fails(side):
    task = await side.send('fail')
    equal(state_of(task), 'TASK_STATE_FAILED')
    assert 'it broke' in get_message_text(task.status.message), task


# G14, G16.
async def parts(side):
    more = [
        new_data_part({'n': 1.5, 'list': [True, None, 'ä']}),
        new_raw_part(b'line\n', media_type='text/plain', filename='notes.txt'),
    ]
    task = await side.send('parts', parts=more)
    equal(state_of(task), 'TASK_STATE_COMPLETED')
    (came,) = get_data_parts([artifact for artifact in task.artifacts if artifact.artifact_id == 'answer'][0].parts)
    equal([one['kind'] for one in came], ['text', 'data', 'raw'])
    equal(came[1]['content'], {'n': 1.5, 'list': [True, None, 'ä']})
    equal((came[2]['content'], came[2]['filename'], came[2]['media_type']), ('line\n', 'notes.txt', 'text/plain'))
    sent = task.history[0]
    equal([part.WhichOneof('content') for part in sent.parts], ['text', 'data', 'raw'])
    equal((sent.parts[2].raw, sent.parts[2].filename), (b'line\n', 'notes.txt'))


# P2, P5, P6, P8, P10, P15.
async def push(side):
    with Webhook() as hook:
        task = await side.send('ask')
        wish = TaskPushNotificationConfig(
            task_id=task.id,
            url=hook.url,
            token='a token',
            authentication=AuthenticationInfo(scheme='Bearer', credentials='a-secret'),
        )
        made = await side.blocking.create_task_push_notification_config(wish)
        assert made.id, made
        equal((made.task_id, made.url), (task.id, hook.url))
        which = {'task_id': task.id, 'id': made.id}
        got = await side.blocking.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**which))
        equal((got.id, got.url), (made.id, hook.url))
        listed = await list_configs(side, task.id)
        equal([one.id for one in listed], [made.id])
        await side.send('this', task=task.id)
        headers = await heard(hook, task.id)
        equal(headers.get('authorization'), 'Bearer a-secret')
        token = headers.get('x-a2a-notification-token') or headers.get('a2a-notification-token')
        equal(token, 'a token')


# P6, P7, R4.
async def push_deleted(side):
    with Webhook() as hook:
        task = await side.send('ask')
        wish = TaskPushNotificationConfig(task_id=task.id, url=hook.url)
        first = await side.blocking.create_task_push_notification_config(wish)
        other = TaskPushNotificationConfig(task_id=task.id, url=hook.url + '/kept', id='kept')
        await side.blocking.create_task_push_notification_config(other)
        equal(len(await list_configs(side, task.id)), 2)
        which = {'task_id': task.id, 'id': first.id}
        await side.blocking.delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(**which))
        equal(len(await list_configs(side, task.id)), 1)
        gone = side.blocking.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**which))
        await raises(TaskNotFoundError, gone)
        await side.send('this', task=task.id)
        await heard(hook, task.id)
        equal({path for path, _, _ in hook.heard}, {hook.path + '/kept'})


# S8.
async def push_with_send(side):
    with Webhook() as hook:
        task = await side.send('ask', push=TaskPushNotificationConfig(url=hook.url))
        equal(len(await list_configs(side, task.id)), 1)
        await side.send('this', task=task.id)
        await heard(hook, task.id)


async def heard(hook, task_id):
    """The headers of the notification that says that the task is done."""
    return await asyncio.to_thread(hook.wait_for, task_id, ('TASK_STATE_COMPLETED',), PATIENCE_S)


async def list_configs(side, task_id):
    listed = await side.blocking.list_task_push_notification_configs(
        ListTaskPushNotificationConfigsRequest(task_id=task_id)
    )
    return listed.configs


# P4, P5.
async def push_errors(side):
    wish = TaskPushNotificationConfig(task_id=UNKNOWN, url='http://127.0.0.1:9/')
    await raises(TaskNotFoundError, side.blocking.create_task_push_notification_config(wish))
    await raises(TaskNotFoundError, list_configs(side, UNKNOWN))


# A13, A16.
async def extended_card(side):
    card = await side.client(False).get_extended_agent_card(GetExtendedAgentCardRequest())
    equal(card.name, side.card.name)
    assert len(card.skills) >= len(side.card.skills) >= 1, card


# S10, T1, T13, T18.
async def error_not_found(side):
    await raises(TaskNotFoundError, side.get(UNKNOWN))
    await raises(TaskNotFoundError, side.get('nonsense'))
    await raises(TaskNotFoundError, side.end(UNKNOWN))
    await raises(TaskNotFoundError, side.send('x', task=UNKNOWN))
    await raises(TaskNotFoundError, all_of(side.streaming.subscribe(SubscribeToTaskRequest(id=UNKNOWN))))


# S9, T13, T18.
async def error_ended(side):
    task = await side.send('over')
    await raises(TaskNotCancelableError, side.end(task.id))
    await raises(UnsupportedOperationError, side.send('more', task=task.id))
    await raises(UnsupportedOperationError, all_of(side.streaming.send_message(request('more', task=task.id))))
    await raises(UnsupportedOperationError, all_of(side.streaming.subscribe(SubscribeToTaskRequest(id=task.id))))


# G7, G8, T8, C9, E6.
async def error_params(side):
    await raises(InvalidParamsError, side.send(None))
    await raises(InvalidParamsError, all_of(side.blocking.send_message(SendMessageRequest())))
    await raises(InvalidParamsError, side.get(UNKNOWN, history_length=-1))
    await raises(InvalidParamsError, side.blocking.list_tasks(ListTasksRequest(page_size=101)))
    await raises(InvalidParamsError, side.blocking.list_tasks(ListTasksRequest(page_size=0)))
    await raises(InvalidParamsError, side.blocking.list_tasks(ListTasksRequest(page_token='nonsense')))
    asked = await side.send('ask')
    await raises(InvalidParamsError, side.send('x', task=asked.id, context='another'))
    await side.end(asked.id)


# S11.
async def error_media(side):
    video = [new_raw_part(b'\x00ftyp', media_type='video/mp4', filename='a.mp4')]
    await raises(ContentTypeNotSupportedError, side.send(None, parts=video))


# V8, R3.
async def error_version(side):
    if side.binding != 'GRPC':
        asked = ClientCallContext(service_parameters={'A2A-Version': '9.9'})
        await raises(VersionNotSupportedError, side.blocking.get_task(GetTaskRequest(id=UNKNOWN), context=asked))
        return
    # The SDK adds its own version before what is asked for; its stub alone says only what it is told.
    place = next(one.url for one in side.card.supported_interfaces if one.protocol_binding == 'GRPC')

    async def ask():
        async with channel(place) as wire:
            stub = a2a_pb2_grpc.A2AServiceStub(wire)
            metadata = (('a2a-version', '9.9'), ('authorization', f'Bearer {side.token}'))
            try:
                return await stub.GetTask(GetTaskRequest(id=UNKNOWN), metadata=metadata)
            except grpc.aio.AioRpcError as error:
                equal(error.code(), grpc.StatusCode.FAILED_PRECONDITION)
                _map_grpc_error(error)

    await raises(VersionNotSupportedError, ask())


# E2, E3, E21.
async def unauthenticated(side):
    for secret in ('', 'wrong'):
        stranger = side.client(False, token=secret)
        error = await raises(A2AClientError, stranger.get_task(GetTaskRequest(id=UNKNOWN)))
        assert '401' in str(error) or 'UNAUTHENTICATED' in str(error), error
        error = await raises(A2AClientError, all_of(stranger.send_message(request('hello'))))
        assert '401' in str(error) or 'UNAUTHENTICATED' in str(error), error


CASES = {
    'send': send,
    'immediately': immediately,
    'stream': stream,
    'history': history,
    'context': context,
    'list': list_tasks,
    'list-pages': list_pages,
    'list-filters': list_filters,
    'cancel': cancel,
    'subscribe': subscribe,
    'subscribe-waiting': subscribe_waiting,
    'asks': asks,
    'asks-streaming': asks_streaming,
    'direct': direct,
    'fails': fails,
    'parts': parts,
    'push': push,
    'push-deleted': push_deleted,
    'push-with-send': push_with_send,
    'push-errors': push_errors,
    'extended-card': extended_card,
    'error-not-found': error_not_found,
    'error-ended': error_ended,
    'error-params': error_params,
    'error-media': error_media,
    'error-version': error_version,
    'unauthenticated': unauthenticated,
}


# A1–A3, A5, A18, A20, A22.
async def resolve(base, token):
    """The card, as the SDK's own resolver finds it, and what its signature is worth."""
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        resolver = A2ACardResolver(client, base)
        card = await resolver.get_agent_card()
        print('ok card resolve', flush=True)

        # Keys come from the card's own origin and from nowhere else.
        keys = {}
        for signature in card.signatures:
            protected = signature.protected + '=' * (-len(signature.protected) % 4)
            place = json.loads(base64.urlsafe_b64decode(protected)).get('jku', '')
            assert place.startswith(base), f'{place!r} is not of {base}'
            found = (await client.get(place)).raise_for_status().json()['keys']
            keys.update({key['kid']: PyJWK.from_dict(key) for key in found})
        verify = create_signature_verifier(lambda kid, jku: keys[kid], ['ES256', 'EdDSA'])
        await resolver.get_agent_card(signature_verifier=verify)
        print('ok card signature', flush=True)

        card.description += ' Or so it says.'
        try:
            verify(card)
        except InvalidSignaturesError:
            print('ok card signature-changed', flush=True)
        else:
            raise AssertionError('a card that was changed still has a good signature')
        return await resolver.get_agent_card()


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('token_file')
    parser.add_argument('--bindings', default=','.join(BINDINGS))
    parser.add_argument('--skip', default='')
    args = parser.parse_args()
    base = args.base.rstrip('/')
    with open(args.token_file) as file:
        token = file.read().strip()
    try:
        card = await resolve(base, token)
    except Exception:
        print(f'FAILED card\n{traceback.format_exc()}', flush=True)
        sys.exit(1)
    failed = []
    for binding in args.bindings.split(','):
        side = Side(card, binding, token)
        for name, case in CASES.items():
            if f'{binding}:{name}' in args.skip.split(','):
                print(f'skipped {binding} {name}', flush=True)
                continue
            try:
                await asyncio.wait_for(case(side), 2 * PATIENCE_S)
            except (Exception, asyncio.TimeoutError):
                failed.append(f'{binding} {name}')
                print(f'FAILED {binding} {name}\n{traceback.format_exc()}', flush=True)
            else:
                print(f'ok {binding} {name}', flush=True)
    if failed:
        print(f'the card was {json.dumps(MessageToDict(card))}')
        print(f'{len(failed)} failed: {"; ".join(failed)}')
        sys.exit(1)


if __name__ == '__main__':
    asyncio.run(main())
