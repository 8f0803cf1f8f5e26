"""An agent on fasta2a 0.6 or 2.x that repeats the message."""

import contextlib
import uuid

from common import free_port, serve
from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.storage import InMemoryStorage


class Echo(Worker):
    async def run_task(self, params):
        await self.storage.update_task(params['id'], state='working')
        parts = params['message']['parts']
        artifact = {'artifact_id': uuid.uuid4().hex, 'name': 'answer', 'parts': parts}
        await self.storage.update_task(params['id'], state='completed', new_artifacts=[artifact])

    async def cancel_task(self, params):
        await self.storage.update_task(params['id'], state='canceled')

    def build_message_history(self, history):
        return history

    def build_artifacts(self, result):
        return result


storage, broker = InMemoryStorage(), InMemoryBroker()
port = free_port()


@contextlib.asynccontextmanager
async def lifespan(app):
    async with app.task_manager, Echo(storage=storage, broker=broker).run():
        yield


app = FastA2A(storage=storage, broker=broker, lifespan=lifespan, name='echo', url=f'http://127.0.0.1:{port}')
serve(app, port)
