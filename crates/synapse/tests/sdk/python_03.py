"""The official Python SDK, 0.3.x, as a client: an old program, unchanged, over each binding it has.

    python_03.py BASE_URL TOKEN_FILE [--bindings A,B] [--skip BINDING:CASE,...]

The agent must do what `python_server.py` does. One line for each case, `ok BINDING CASE`; what fails is told with
what was seen, and the exit code is then 1. The old client cannot list or delete webhooks, nor list tasks.
"""

import argparse
import asyncio
import base64
import sys
import traceback
import urllib.parse
import uuid

import grpc
import httpx

from a2a.client import A2ACardResolver, A2AClientHTTPError, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationAuthenticationInfo,
    PushNotificationConfig,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskState,
    TaskStatusUpdateEvent,
    TextPart,
)
from webhook import Webhook

PATIENCE_S = 40
UNKNOWN = '0123456789abcdef0123456789abcdef'
BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')

# What JSON-RPC, HTTP and gRPC call each error.
Code = grpc.StatusCode
NOT_FOUND, NOT_CANCELABLE, UNSUPPORTED, MEDIA, PARAMS = (
    (-32001, (404,), (Code.NOT_FOUND,)),
    (-32002, (400, 409), (Code.FAILED_PRECONDITION, Code.UNIMPLEMENTED)),
    (-32004, (400, 501), (Code.UNIMPLEMENTED, Code.FAILED_PRECONDITION)),
    (-32005, (400, 415), (Code.INVALID_ARGUMENT, Code.UNIMPLEMENTED)),
    (-32602, (400, 422), (Code.INVALID_ARGUMENT,)),
)


class Token(CredentialService):
    """The secret, for whatever scheme the card names."""

    def __init__(self, secret):
        self.secret = secret

    async def get_credentials(self, security_scheme_name, context):
        return self.secret


class Login:
    """Over gRPC, this SDK asks no interceptor of its own: its users give one to the channel."""

    def __init__(self, secret):
        self.metadata = (('authorization', f'Bearer {secret}'),) if secret else ()

    async def call(self, go_on, details, request):
        metadata = (*(details.metadata or ()), *self.metadata)
        return await go_on(details._replace(metadata=grpc.aio.Metadata(*metadata)), request)


class LoginOnce(Login, grpc.aio.UnaryUnaryClientInterceptor):
    intercept_unary_unary = Login.call


class LoginStream(Login, grpc.aio.UnaryStreamClientInterceptor):
    intercept_unary_stream = Login.call


def channels(secret):
    def channel(url):
        place = urllib.parse.urlsplit(url if '://' in url else f'//{url}')
        return grpc.aio.insecure_channel(place.netloc, interceptors=[LoginOnce(secret), LoginStream(secret)])

    return channel


class Side:
    """One binding: a client that waits for the whole answer, one that polls and one that streams."""

    def __init__(self, card, binding, token):
        self.card, self.binding, self.token = card, binding, token
        self.blocking = self.client(streaming=False)
        self.polling = self.client(streaming=False, polling=True)
        self.streaming = self.client(streaming=True)

    def client(self, token=None, **how):
        secret = self.token if token is None else token
        # Over HTTP+JSON, this SDK asks no interceptor: its users set the header themselves.
        bearer = {'Authorization': f'Bearer {secret}'} if secret and self.binding == 'HTTP+JSON' else {}
        config = ClientConfig(
            httpx_client=httpx.AsyncClient(timeout=PATIENCE_S, headers=bearer),
            grpc_channel_factory=channels(secret),
            supported_transports=[self.binding],
            use_client_preference=True,
            **how,
        )
        return ClientFactory(config).create(self.card, interceptors=[AuthInterceptor(Token(secret))])

    async def send(self, text, client=None, **more):
        async for event in (client or self.blocking).send_message(message(text, **more)):
            task, update = event
            assert isinstance(task, Task) and update is None, event
            return task
        raise AssertionError('no answer')

    async def begin(self, text):
        return await self.send(text, client=self.polling)

    async def get(self, task_id, history=None):
        return await self.blocking.get_task(TaskQueryParams(id=task_id, history_length=history))

    async def end(self, task_id):
        """Cancels it; a server may answer while it is still stopping, so its end is waited for."""
        task = await self.blocking.cancel_task(TaskIdParams(id=task_id))
        equal(task.id, task_id)
        await self.wait_for(task_id, TaskState.canceled)
        return await self.get(task_id)

    async def wait_for(self, task_id, state):
        async def look():
            while (await self.get(task_id)).status.state != state:
                await asyncio.sleep(0.02)

        await within(look(), f'{task_id} to be {state}')


def message(text, parts=None, task=None, context=None):
    first = [Part(root=TextPart(text=text))] if text is not None else []
    return Message(
        message_id=str(uuid.uuid4()),
        role=Role.user,
        parts=first + (parts or []),
        task_id=task,
        context_id=context,
    )


async def within(waiting, what):
    try:
        return await asyncio.wait_for(waiting, PATIENCE_S)
    except asyncio.TimeoutError:
        raise AssertionError(f'waited {PATIENCE_S} s for {what}') from None


async def all_of(stream):
    return [event async for event in stream]


async def refused(error, waiting):
    """The call must end with this error, in the form that the old SDK gives it for its binding."""
    code, statuses, codes = error
    try:
        got = await waiting
    except A2AClientJSONRPCError as refusal:
        equal(refusal.error.code, code)
        assert refusal.error.message, refusal
    except A2AClientHTTPError as refusal:
        assert refusal.status_code in statuses, refusal
    except grpc.aio.AioRpcError as refusal:
        assert refusal.code() in codes and refusal.details(), refusal
    else:
        raise AssertionError(f'{code} was expected; this came: {got}')


def equal(found, expected):
    assert found == expected, f'{found!r} is not {expected!r}'


def text_of(parts):
    return ''.join(part.root.text for part in parts if part.root.kind == 'text')


def answer_of(task):
    return [text_of(artifact.parts) for artifact in task.artifacts if artifact.artifact_id == 'answer'][0]


# --- cases


async def send(side):
    task = await side.send('hello over there')
    equal((task.kind, task.status.state), ('task', TaskState.completed))
    equal(answer_of(task), 'hello over there')
    assert task.id and task.context_id, task
    # Out of messages of protobuf, this SDK does not read the time of a task.
    assert task.status.timestamp or side.binding != 'JSONRPC', task
    equal((task.history[0].role, text_of(task.history[0].parts)), (Role.user, 'hello over there'))


async def immediately(side):
    task = await side.begin('long one')
    assert task.status.state in (TaskState.submitted, TaskState.working), task
    canceled = await side.end(task.id)
    equal((canceled.id, canceled.status.state), (task.id, TaskState.canceled))


async def stream(side):
    updates, told = [], []

    async def follow():
        task = None
        async for task, update in side.streaming.send_message(message('steps')):
            updates.append(update)
            # Looked at as it comes: the SDK adds later pieces to the first one.
            if isinstance(update, TaskArtifactUpdateEvent):
                made = update.artifact
                told.append((made.artifact_id, text_of(made.parts), bool(update.append)))
        return task

    task = await within(follow(), 'the stream to end')
    assert updates[0] is None, f'the first event is no task: {updates[0]}'
    updates = updates[1:]
    equal(told, [('log', 'a', False), ('log', 'b', True), ('answer', 'done', False)])
    said = [one for one in updates if isinstance(one, TaskStatusUpdateEvent)]
    assert 'one' in [text_of(one.status.message.parts) for one in said if one.status.message], said
    equal([one.final for one in said], [False] * (len(said) - 1) + [True])
    equal((updates[-1], said[-1].status.state), (said[-1], TaskState.completed))
    equal({(one.task_id, one.context_id) for one in updates}, {(task.id, task.context_id)})
    whole = await side.get(task.id)
    log = [artifact for artifact in whole.artifacts if artifact.artifact_id == 'log'][0]
    equal((text_of(log.parts), answer_of(whole)), ('ab', 'done'))


async def history(side):
    task = await side.send('ask something')
    await side.send('the second', task=task.id)
    whole = await side.get(task.id)
    users = [text_of(one.parts) for one in whole.history if one.role == Role.user]
    equal(users, ['ask something', 'the second'])
    last = (await side.get(task.id, history=1)).history or []
    assert len(last) <= 1, last


async def context(side):
    name = f'talk-{uuid.uuid4()}'
    first, second = await side.send('a', context=name), await side.send('b', context=name)
    equal((first.context_id, second.context_id), (name, name))
    assert first.id != second.id, first


async def cancel(side):
    task = await side.begin('long one')
    await side.wait_for(task.id, TaskState.working)
    equal((await side.end(task.id)).status.state, TaskState.canceled)
    equal((await side.get(task.id)).status.state, TaskState.canceled)


async def resubscribe(side):
    task = await side.begin('long one')
    events = side.streaming.resubscribe(TaskIdParams(id=task.id))
    first, _ = await within(anext(events), 'the task')
    equal(first.id, task.id)
    await side.end(task.id)
    rest = await within(all_of(events), 'its end')
    _, last = rest[-1]
    equal((last.status.state, last.final), (TaskState.canceled, True))


async def asks(side):
    task = await side.send('ask me')
    equal(task.status.state, TaskState.input_required)
    equal(text_of(task.status.message.parts), 'which one?')
    done = await side.send('the blue one', task=task.id, context=task.context_id)
    equal((done.id, done.status.state), (task.id, TaskState.completed))
    equal(answer_of(done), 'you said the blue one')


async def asks_streaming(side):
    events = await within(all_of(side.streaming.send_message(message('ask me'))), 'the question')
    task, asked = events[-1]
    equal(asked.status.state, TaskState.input_required)
    more = message('the red one', task=task.id, context=task.context_id)
    whole, _ = (await within(all_of(side.streaming.send_message(more)), 'the end'))[-1]
    equal(whole.status.state, TaskState.completed)
    equal(answer_of(await side.get(task.id)), 'you said the red one')


async def direct(side):
    for client in (side.blocking, side.streaming):
        (answer,) = await within(all_of(client.send_message(message('direct'))), 'the message')
        assert isinstance(answer, Message), answer
        equal((text_of(answer.parts), answer.role), ('directly', Role.agent))


async def fails(side):
    task = await side.send('fail')
    equal(task.status.state, TaskState.failed)
    assert 'it broke' in text_of(task.status.message.parts), task


async def parts(side):
    file = FileWithBytes(bytes=base64.b64encode(b'line\n').decode(), mime_type='text/plain', name='notes.txt')
    more = [Part(root=DataPart(data={'n': 1.5, 'list': [True, 'ä']})), Part(root=FilePart(file=file))]
    task = await side.send('parts', parts=more)
    equal(task.status.state, TaskState.completed)
    answer = [artifact for artifact in task.artifacts if artifact.artifact_id == 'answer'][0]
    # Data in 0.3 is an object; a list has to be wrapped by whoever speaks both.
    came = answer.parts[0].root.data
    came = came.get('value', came) if isinstance(came, dict) else came
    equal([one['kind'] for one in came], ['text', 'data', 'raw'])
    equal(came[1]['content'], {'n': 1.5, 'list': [True, 'ä']})
    equal((came[2]['content'], came[2]['filename']), ('line\n', 'notes.txt'))
    sent = task.history[0]
    equal([part.root.kind for part in sent.parts], ['text', 'data', 'file'])
    equal((sent.parts[2].root.file.name, sent.parts[2].root.file.mime_type), ('notes.txt', 'text/plain'))


async def push(side):
    with Webhook() as hook:
        task = await side.send('ask')
        login = PushNotificationAuthenticationInfo(schemes=['Bearer'], credentials='a-secret')
        wish = PushNotificationConfig(id='mine', url=hook.url, token='a token', authentication=login)
        made = await side.blocking.set_task_callback(
            TaskPushNotificationConfig(task_id=task.id, push_notification_config=wish)
        )
        equal((made.task_id, made.push_notification_config.url), (task.id, hook.url))
        which = GetTaskPushNotificationConfigParams(
            id=task.id, push_notification_config_id=made.push_notification_config.id
        )
        got = await side.blocking.get_task_callback(which)
        equal(got.push_notification_config.url, hook.url)
        await side.send('this', task=task.id)
        headers = await heard(hook, task.id)
        token = headers.get('x-a2a-notification-token') or headers.get('a2a-notification-token')
        equal((headers.get('authorization'), token), ('Bearer a-secret', 'a token'))


async def push_with_send(side):
    with Webhook() as hook:
        wish = [PushNotificationConfig(url=hook.url)]
        task = await side.send('ask', client=side.client(streaming=False, push_notification_configs=wish))
        await side.send('this', task=task.id)
        await heard(hook, task.id)


async def heard(hook, task_id):
    """A notification has the shape of the version in which it was asked for, or of 1.0."""
    states = ('completed', 'TASK_STATE_COMPLETED')
    return await asyncio.to_thread(hook.wait_for, task_id, states, PATIENCE_S)


async def extended_card(side):
    card = await side.client(streaming=False).get_card()
    equal(card.name, side.card.name)
    assert len(card.skills) >= len(side.card.skills) >= 1, card


async def error_not_found(side):
    await refused(NOT_FOUND, side.get(UNKNOWN))
    await refused(NOT_FOUND, side.end(UNKNOWN))
    await refused(NOT_FOUND, side.send('x', task=UNKNOWN))
    # Over HTTP+JSON, this SDK calls whatever is no stream a 400.
    code, statuses, codes = NOT_FOUND
    unknown = side.streaming.resubscribe(TaskIdParams(id=UNKNOWN))
    await refused((code, (*statuses, 400), codes), all_of(unknown))


async def error_ended(side):
    task = await side.send('over')
    await refused(NOT_CANCELABLE, side.end(task.id))
    await refused(UNSUPPORTED, side.send('more', task=task.id))


async def error_params(side):
    await refused(PARAMS, side.send(None))
    await refused(PARAMS, side.get(UNKNOWN, history=-1))


async def error_media(side):
    video = FileWithBytes(bytes='iVBORw==', mime_type='video/mp4', name='a.mp4')
    await refused(MEDIA, side.send(None, parts=[Part(root=FilePart(file=video))]))


async def unauthenticated(side):
    for secret in ('', 'wrong'):
        stranger = side.client(token=secret, streaming=False)
        try:
            got = await stranger.get_task(TaskQueryParams(id=UNKNOWN))
        except A2AClientHTTPError as error:
            equal(error.status_code, 401)
        except grpc.aio.AioRpcError as error:
            equal(error.code(), Code.UNAUTHENTICATED)
        else:
            raise AssertionError(f'a stranger was answered: {got}')


CASES = {
    'send': send,
    'immediately': immediately,
    'stream': stream,
    'history': history,
    'context': context,
    'cancel': cancel,
    'resubscribe': resubscribe,
    'asks': asks,
    'asks-streaming': asks_streaming,
    'direct': direct,
    'fails': fails,
    'parts': parts,
    'push': push,
    'push-with-send': push_with_send,
    'extended-card': extended_card,
    'error-not-found': error_not_found,
    'error-ended': error_ended,
    'error-params': error_params,
    'error-media': error_media,
    'unauthenticated': unauthenticated,
}


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('token_file')
    parser.add_argument('--bindings', default=','.join(BINDINGS))
    parser.add_argument('--skip', default='')
    args = parser.parse_args()
    with open(args.token_file) as file:
        token = file.read().strip()
    failed = []
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        for name, path in (('resolve', None), ('resolve-agent-json', '/.well-known/agent.json')):
            if f'card:{name}' in args.skip.split(','):
                print(f'skipped card {name}', flush=True)
                continue
            try:
                found = await A2ACardResolver(client, args.base).get_agent_card(relative_card_path=path)
                assert found.name and found.url and found.skills, found
                card = found
            except Exception:
                failed.append(f'card {name}')
                print(f'FAILED card {name}\n{traceback.format_exc()}', flush=True)
            else:
                print(f'ok card {name}', flush=True)
    for binding in args.bindings.split(',') if not failed else []:
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
        print(f'{len(failed)} failed: {"; ".join(failed)}')
        sys.exit(1)


if __name__ == '__main__':
    asyncio.run(main())
