"""A graph without a model that repeats the message, served by LangGraph's own server (`langgraph-api`)."""

import json
import os
import pathlib
import sys
import tempfile
import threading

from common import free_port, verdicts

GRAPH = '''
from typing import Annotated, TypedDict
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

class State(TypedDict):
    messages: Annotated[list, add_messages]

def repeat(state):
    said = state["messages"][-1].content
    if isinstance(said, list):
        said = "".join(part.get("text", "") for part in said)
    return {"messages": [AIMessage(content=said)]}

graph = StateGraph(State)
graph.add_node("repeat", repeat)
graph.add_edge(START, "repeat")
graph.add_edge("repeat", END)
graph = graph.compile()
'''

folder = pathlib.Path(tempfile.mkdtemp())
(folder / 'graph.py').write_text(GRAPH)
os.chdir(folder)
os.environ.update(LANGSMITH_TRACING='false', LANGCHAIN_TRACING_V2='false', LANGGRAPH_CLI_NO_ANALYTICS='1')
port = free_port()


def announce():
    """Says where the assistant is, once the server has made one for the graph."""
    import time
    import urllib.request

    base = f'http://127.0.0.1:{port}'
    while True:
        try:
            search = urllib.request.Request(
                base + '/assistants/search', data=b'{}', headers={'Content-Type': 'application/json'}
            )
            found = json.load(urllib.request.urlopen(search))
            print(f"ready {base}/a2a/{found[0]['assistant_id']}", file=verdicts)
            break
        except (OSError, IndexError):
            time.sleep(0.2)
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=announce, daemon=True).start()

from langgraph_api.cli import run_server

run_server(
    '127.0.0.1', port, reload=False, graphs={'echo': './graph.py:graph'}, open_browser=False, allow_blocking=True
)
