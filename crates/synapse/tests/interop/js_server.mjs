// An agent on the official JavaScript SDK (1.x) and Express, for our client to call.
//
//     node js_server.mjs MODULES
//
// MODULES is a folder in which npm has installed `@a2a-js/sdk` and `express`. The agent serves
// JSON-RPC 1.0 on a free port of 127.0.0.1 and prints `ready http://127.0.0.1:PORT` as its first
// line. It exits when its standard input ends.
//
// The first word of a message selects what it does, as in `../sdk/python_server.py`:
//
//     ask      asks "which one?" and answers "you said ..." to the next message
//     long     works until it is canceled
//     others   repeats the text

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { resolve as absolute } from 'node:path';

const [modules] = process.argv.slice(2);
const require = createRequire(absolute(modules, 'package.json'));
const express = require('express');
const { AGENT_CARD_PATH, AgentCard, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } = require('@a2a-js/sdk');
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = require('@a2a-js/sdk/server');
const { UserBuilder, agentCardHandler, jsonRpcHandler } = require('@a2a-js/sdk/server/express');

const text = (parts) =>
  parts.filter((part) => part.content?.$case === 'text').map((part) => part.content.value).join('');

/// Publishes the events of one task.
class Updates {
  constructor(bus, taskId, contextId) {
    Object.assign(this, { bus, taskId, contextId });
  }

  /// The SDK requires a task as the first event of every turn. The state must be `working` also
  /// after a question, because the SDK ends a response at an event in state `input-required`.
  begin(task, message) {
    const { taskId: id, contextId } = this;
    const status = { state: 'TASK_STATE_WORKING', timestamp: new Date().toISOString() };
    const begun = Task.fromJSON({ id, contextId, status });
    this.bus.publish(AgentEvent.task({ ...begun, history: task?.history ?? [message] }));
  }

  status(state, words) {
    const { taskId, contextId } = this;
    const message = words && {
      messageId: randomUUID(),
      role: 'ROLE_AGENT',
      parts: [{ text: words }],
      taskId,
      contextId,
    };
    const status = { state: `TASK_STATE_${state}`, message, timestamp: new Date().toISOString() };
    this.bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ taskId, contextId, status })));
  }

  answer(words) {
    const { taskId, contextId } = this;
    const artifact = { artifactId: 'answer', name: 'answer', parts: [{ text: words }] };
    const update = { taskId, contextId, artifact, lastChunk: true };
    this.bus.publish(AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON(update)));
    this.status('COMPLETED');
  }
}

/// Does what the first word of a message says.
class Agent {
  /// The context of each unfinished task, and a function that ends its work.
  open = new Map();

  async execute({ task, taskId, contextId, userMessage }, bus) {
    const said = text(userMessage.parts);
    const [word] = said.trim().split(/\s+/);
    const updates = new Updates(bus, taskId, contextId);
    updates.begin(task, userMessage);
    if (task) {
      updates.answer(`you said ${said}`);
    } else if (word === 'ask') {
      this.open.set(taskId, { contextId, stop: () => {} });
      updates.status('INPUT_REQUIRED', 'which one?');
      return;
    } else if (word === 'long') {
      const canceled = new Promise((stop) => this.open.set(taskId, { contextId, stop }));
      updates.status('WORKING', 'begun');
      await canceled;
    } else {
      updates.answer(said);
    }
    this.open.delete(taskId);
  }

  async cancelTask(taskId, bus) {
    const { contextId, stop } = this.open.get(taskId);
    new Updates(bus, taskId, contextId).status('CANCELED');
    stop();
  }
}

const app = express();
const server = createServer(app);
await new Promise((go) => server.listen(0, '127.0.0.1', go));
const base = `http://127.0.0.1:${server.address().port}`;
const card = AgentCard.fromJSON({
  name: 'javascript',
  description: 'Does what the first word of a message says.',
  version: '1.0.0',
  supportedInterfaces: [{ protocolBinding: 'JSONRPC', url: `${base}/rpc`, protocolVersion: '1.0' }],
  capabilities: { streaming: true },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [{ id: 'echo', name: 'Echo', description: 'The text again.', tags: ['echo'] }],
});
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Agent());
app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/rpc', jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
console.log(`ready ${base}`);
process.stdin.on('end', () => process.exit(0)).resume();
