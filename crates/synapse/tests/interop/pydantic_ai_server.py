"""An agent of pydantic-ai, with a model that is a function, served by fasta2a's bridge."""

from common import free_port, serve
from fasta2a.pydantic_ai import agent_to_a2a
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel


def repeat(messages, info):
    said = [part.content for part in messages[-1].parts if part.part_kind == 'user-prompt']
    text = said[-1] if isinstance(said[-1], str) else ''.join(map(str, said[-1]))
    return ModelResponse(parts=[TextPart(text)])


async def repeat_in_pieces(messages, info):
    yield repeat(messages, info).parts[0].content


port = free_port()
model = FunctionModel(repeat, stream_function=repeat_in_pieces)
serve(agent_to_a2a(Agent(model), name='echo', url=f'http://127.0.0.1:{port}'), port)
