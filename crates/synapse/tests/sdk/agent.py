"""The agent of ours that the SDKs call: what `python_server.py` does, in lines (`synapse run --jsonl`)."""

import base64
import json
import sys


def say(type, **fields):
    print(json.dumps({'type': type, **fields}), flush=True)


def hear():
    return json.loads(sys.stdin.readline())


def described(part):
    """A part as plain data: its kind, what is in it, and what stands beside it."""
    kind = next(kind for kind in ('text', 'data', 'raw', 'url') if kind in part)
    inside = base64.b64decode(part[kind]).decode() if kind == 'raw' else part[kind]
    beside = {'media_type': part.get('mediaType', ''), 'filename': part.get('filename', '')}
    return {'kind': kind, 'content': inside, **beside}


message = hear()
text = message.get('text') or ''
word = (text.split() or [''])[0]
if word == 'steps':
    say('progress', text='one')
    say('artifact', artifact_id='log', name='log', text='a', last=False)
    say('artifact', artifact_id='log', text='b', append=True)
    say('completed', text='done')
elif word == 'ask':
    say('input_required', text='which one?')
    say('completed', text='you said ' + hear()['text'])
elif word == 'long':
    say('progress', text='begun')
    hear()
elif word == 'direct':
    say('message', text='directly')
elif word == 'fail':
    say('failed', why='it broke')
elif word == 'parts':
    say('completed', data=[described(part) for part in message['content']['parts']])
else:
    say('completed', text=text)
