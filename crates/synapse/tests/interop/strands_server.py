"""An agent of Strands with a model that repeats the message, served with its A2AServer."""

from common import free_port, serve
from strands import Agent
from strands.models.model import Model
from strands.multiagent.a2a import A2AServer


class Repeat(Model):
    def update_config(self, **config):
        pass

    def get_config(self):
        return {}

    def structured_output(self, *args, **kwargs):
        raise NotImplementedError

    async def stream(self, messages, *args, **kwargs):
        text = ''.join(block.get('text', '') for block in messages[-1]['content'])
        yield {'messageStart': {'role': 'assistant'}}
        yield {'contentBlockStart': {'start': {}}}
        yield {'contentBlockDelta': {'delta': {'text': text}}}
        yield {'contentBlockStop': {}}
        yield {'messageStop': {'stopReason': 'end_turn'}}


port = free_port()
agent = Agent(model=Repeat(), name='echo', description='repeats', callback_handler=None)
serve(A2AServer(agent=agent, host='127.0.0.1', port=port).to_starlette_app(), port)
