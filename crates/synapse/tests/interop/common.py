"""What the scripts of all frameworks share: cases with a verdict each, and a server that says where it is.

A client script is called with the base URL of an agent of ours that does what the first word of a message says (see
`../sdk/agent.py`). It prints `ok CASE` or `failed CASE: WHY`, and `lacks CASE: WHY` where the framework has no such thing.
A server script prints `ready URL` and serves until its standard input ends. Its agent repeats the last message.
"""

import asyncio
import inspect
import os
import socket
import sys
import threading
import traceback

CASE_SECONDS = 60

# Frameworks print to standard output whatever they like; it is kept for verdicts.
verdicts = os.fdopen(os.dup(1), 'w', buffering=1)
os.dup2(2, 1)


class Lacks(Exception):
    """The framework has no such thing."""


def check(condition, seen):
    if not condition:
        raise AssertionError(f'unexpected: {seen!r}')


def run_cases(cases):
    """Runs each case by its name; the exit code is the number of those that failed."""

    async def one(case):
        answer = case()
        if inspect.isawaitable(answer):
            await asyncio.wait_for(answer, CASE_SECONDS)

    async def every():
        failed = 0
        for case in cases:
            name = case.__name__.replace('_', '-')
            try:
                await one(case)
                print(f'ok {name}', file=verdicts)
            except Lacks as lacks:
                print(f'lacks {name}: {lacks}', file=verdicts)
            except Exception as error:
                failed += 1
                if os.environ.get('INTEROP_DEBUG'):
                    traceback.print_exc()
                why = ' '.join(f'{type(error).__name__}: {error}'.split())
                print(f'failed {name}: {why[:300]}', file=verdicts)
        return failed

    sys.exit(asyncio.run(every()))


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def serve(app, port, path=''):
    """Serves an ASGI application; says where once it listens."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            print(f'ready http://127.0.0.1:{port}{path}', file=verdicts)

    server = Server(uvicorn.Config(app, host='127.0.0.1', port=port, log_level='error'))

    def stop_with_input():
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=stop_with_input, daemon=True).start()
    server.run()
