"""An agent on the official Python SDK (1.x), for our client to call and for the scripts beside this one to be tried on.

    python_server.py [--token SECRET] [--bindings A,B] [--versions 1.0,0.3]

It serves JSON-RPC, HTTP+JSON and gRPC, each in version 1.0 and in 0.3, on ports of 127.0.0.1 that the system picks.
Its first line says where: `ready http://127.0.0.1:PORT`. With a token, only who brings it is heard. Its card names all,
or only the bindings and versions that are asked for. It ends with its standard input.

What it does stands in the first word of a message:

    steps    says "one", makes the artifact `log` of "a" and "b", answers "done"
    ask      asks "which one?" and answers "you said ..." to what comes next
    long     works until it is canceled
    fail     fails: "it broke"
    parts    answers with the parts that came, as data
    direct   answers with a message and without a task
    others   the text again
"""

import argparse
import asyncio
import base64
import json
import socket
import sys

import grpc
import httpx
import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.json_format import MessageToDict
from grpc_reflection.v1alpha import reflection  # noqa: F401  (proves that the extra is whole)
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a.types import a2a_pb2_grpc
from a2a.utils.signing import create_agent_card_signer

KEY_ID = 'python-server'
KEYS_PATH = '/.well-known/jwks.json'


class Agent(AgentExecutor):
    """Does what the first word says."""

    async def execute(self, context, event_queue):
        text = context.get_user_input()
        word = text.split()[0] if text.split() else ''
        if word == 'direct':
            await event_queue.enqueue_event(new_text_message('directly', context_id=context.context_id))
            return
        task = context.current_task
        goes_on = task is not None
        if not goes_on:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        told = TaskUpdater(event_queue, task.id, task.context_id)

        async def answer(*parts):
            await told.add_artifact(list(parts), artifact_id='answer', name='answer', last_chunk=True)
            await told.complete()

        def says(words):
            return told.new_agent_message([new_text_part(words)])

        if goes_on:
            await answer(new_text_part('you said ' + text))
        elif word == 'steps':
            await told.start_work(says('one'))
            await told.add_artifact([new_text_part('a')], artifact_id='log', name='log', last_chunk=False)
            await told.add_artifact([new_text_part('b')], artifact_id='log', append=True, last_chunk=True)
            await answer(new_text_part('done'))
        elif word == 'ask':
            await told.requires_input(says('which one?'))
        elif word == 'long':
            await told.start_work(says('begun'))
            await asyncio.Event().wait()
        elif word == 'fail':
            await told.failed(says('it broke'))
        elif word == 'parts':
            await answer(new_data_part([described(part) for part in context.message.parts]))
        else:
            await answer(new_text_part(text))

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def described(part):
    """A part as plain data: its kind, what is in it, and what stands beside it."""
    kind = part.WhichOneof('content')
    inside = MessageToDict(part)[kind]
    if kind == 'raw':
        inside = base64.b64decode(inside).decode()
    return {'kind': kind, 'content': inside, 'media_type': part.media_type, 'filename': part.filename}


def card_of(http_port, grpc_port, needs_token, bindings, versions):
    base = f'http://127.0.0.1:{http_port}'
    places = [
        ('JSONRPC', f'{base}/rpc'),
        ('HTTP+JSON', f'{base}/rest'),
        ('GRPC', f'127.0.0.1:{grpc_port}'),
    ]
    card = AgentCard(
        name='python',
        description='Does what the first word of a message says.',
        version='1.0.0',
        supported_interfaces=[
            AgentInterface(protocol_binding=binding, url=url, protocol_version=version)
            for version in versions
            for binding, url in places
            if binding in bindings
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        default_input_modes=['text/plain', 'application/json'],
        default_output_modes=['text/plain', 'application/json'],
        skills=[AgentSkill(id='echo', name='Echo', description='The text again.', tags=['echo'])],
    )
    if needs_token:
        card.security_schemes['bearer'].CopyFrom(
            SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme='Bearer'))
        )
        card.security_requirements.append(SecurityRequirement(schemes={'bearer': StringList()}))
    return card


class Guard:
    """Lets in who brings the token; the card and the keys are for everybody."""

    def __init__(self, app, token):
        self.app, self.token = app, token

    async def __call__(self, scope, receive, send):
        if scope['type'] == 'http' and self.token and not scope['path'].startswith('/.well-known/'):
            brought = dict(scope['headers']).get(b'authorization', b'').decode()
            if brought != f'Bearer {self.token}':
                refused = JSONResponse(
                    {'error': {'code': 401, 'status': 'UNAUTHENTICATED', 'message': 'bring the token'}},
                    status_code=401,
                    headers={'WWW-Authenticate': 'Bearer'},
                )
                await refused(scope, receive, send)
                return
        await self.app(scope, receive, send)


class GrpcGuard(grpc.aio.ServerInterceptor):
    """The same for gRPC."""

    def __init__(self, token):
        self.token = token

    async def intercept_service(self, continuation, details):
        handler = await continuation(details)
        brought = dict(details.invocation_metadata or ()).get('authorization', '')
        if handler is None or not self.token or brought == f'Bearer {self.token}':
            return handler

        async def refuse(_request, context):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, 'bring the token')

        async def refuse_stream(_request, context):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, 'bring the token')
            yield

        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                refuse_stream, handler.request_deserializer, handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(
            refuse, handler.request_deserializer, handler.response_serializer
        )


async def serve(token, bindings, versions):
    listener = socket.socket()
    listener.bind(('127.0.0.1', 0))
    http_port = listener.getsockname()[1]
    base = f'http://127.0.0.1:{http_port}'

    server = grpc.aio.server(interceptors=[GrpcGuard(token)])
    grpc_port = server.add_insecure_port('127.0.0.1:0')

    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    sign = create_agent_card_signer(
        key, {'kid': KEY_ID, 'alg': 'ES256', 'jku': base + KEYS_PATH, 'typ': 'JOSE'}
    )
    card = sign(card_of(http_port, grpc_port, bool(token), bindings, versions))
    extended = AgentCard()
    extended.CopyFrom(card)
    extended.ClearField('signatures')
    extended.skills.append(AgentSkill(id='more', name='More', description='For who is known.', tags=['more']))
    sign(extended)

    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Agent(),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), configs),
        extended_agent_card=extended,
        validate_input_modes=True,
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), server)
    await server.start()

    async def keys(_request):
        return JSONResponse({'keys': [{**public, 'kid': KEY_ID, 'alg': 'ES256', 'use': 'sig'}]})

    routes = [
        Route(KEYS_PATH, keys),
        *create_agent_card_routes(card, cache_control='public, max-age=60'),
        *create_jsonrpc_routes(handler, '/rpc', enable_v0_3_compat=True),
        *create_rest_routes(handler, enable_v0_3_compat=True, path_prefix='/rest'),
    ]
    config = uvicorn.Config(Guard(Starlette(routes=routes), token), log_level='warning', lifespan='off')
    web = uvicorn.Server(config)
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    while not web.started and not serving.done():
        await asyncio.sleep(0.01)
    print(f'ready {base}', flush=True)
    await asyncio.to_thread(sys.stdin.read)
    web.should_exit = True
    await server.stop(0)
    await serving


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--token', default='')
    parser.add_argument('--bindings', default='JSONRPC,HTTP+JSON,GRPC')
    parser.add_argument('--versions', default='1.0,0.3')
    args = parser.parse_args()
    asyncio.run(serve(args.token, args.bindings.split(','), args.versions.split(',')))
