// The official JavaScript SDK as a client: every operation over every binding it has, in 1.0 and in 0.3.
//
//     node js.mjs BASE_URL TOKEN_FILE MODULES [--bindings A,B] [--skip BINDING:CASE,...]
//
// MODULES is a folder in which npm has put `@a2a-js/sdk`, `@grpc/grpc-js` and `@bufbuild/protobuf`. The agent must do what
// `python_server.py` does. One line for each case, `ok BINDING CASE`; what fails is told with what was seen, and the
// exit code is then 1.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { resolve as absolute } from 'node:path';

const [base, tokenFile, modules, ...rest] = process.argv.slice(2);
const require = createRequire(absolute(modules, 'package.json'));
const { Role, SendMessageRequest, TaskState, verifyAgentCardSignature } = require('@a2a-js/sdk');
const {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
  createAuthenticatingFetchWithRetry,
} = require('@a2a-js/sdk/client');
const { GrpcTransportFactory } = require('@a2a-js/sdk/client/grpc');
const errors = require('@a2a-js/sdk/errors');

const PATIENCE_MS = 40_000;
const UNKNOWN = '0123456789abcdef0123456789abcdef';
const token = readFileSync(tokenFile, 'utf8').trim();
const option = (name) => (rest.includes(name) ? rest[rest.indexOf(name) + 1].split(',') : undefined);
const skipped = option('--skip') ?? [];
const wanted = option('--bindings') ?? ['JSONRPC', 'HTTP+JSON', 'GRPC', 'JSONRPC/0.3', 'HTTP+JSON/0.3', 'GRPC/0.3'];

/// One binding in one version: clients for it, and what one says to them.
class Side {
  constructor(name, card) {
    this.name = name;
    [this.binding, this.version] = name.includes('/') ? [name.slice(0, name.lastIndexOf('/')), '0.3'] : [name, '1.0'];
    this.card = card;
  }

  async open() {
    this.client = await this.clientOf(token);
    assert.equal(this.client.protocolVersion, this.version);
    return this;
  }

  clientOf(secret) {
    const headers = async () => (secret ? { Authorization: `Bearer ${secret}` } : {});
    const fetchImpl = createAuthenticatingFetchWithRetry(fetch, { headers, shouldRetryWithHeaders: async () => undefined });
    const legacyCompat = { enabled: this.version === '0.3' };
    const transports = {
      JSONRPC: () => new JsonRpcTransportFactory({ fetchImpl, legacyCompat }),
      'HTTP+JSON': () => new RestTransportFactory({ fetchImpl, legacyCompat }),
      GRPC: () => new GrpcTransportFactory({ legacyCompat }),
    };
    // gRPC has no fetch: the header goes with each call.
    const login = {
      before: async (args) => {
        const serviceParameters = { ...args.options?.serviceParameters, ...(await headers()) };
        args.options = { ...args.options, serviceParameters };
      },
      after: async () => {},
    };
    const interceptors = this.binding === 'GRPC' ? [login] : [];
    const factory = new ClientFactory({
      transports: [transports[this.binding]()],
      cardResolver: new DefaultAgentCardResolver({ legacyCompat }),
      clientConfig: { interceptors },
    });
    return factory.createFromAgentCard(this.card);
  }

  async send(text, more = {}) {
    const task = await this.client.sendMessage(request(text, more));
    assert.ok(task.status, `no task: ${JSON.stringify(task)}`);
    return task;
  }

  begin(text) {
    return this.send(text, { now: true });
  }

  stream(text, more = {}) {
    return all(this.client.sendMessageStream(request(text, more)));
  }

  get(id, more = {}) {
    return this.client.getTask({ tenant: '', id, ...more });
  }

  /// Cancels it; a server may answer while it is still stopping, so its end is waited for.
  async end(id) {
    const task = await this.client.cancelTask({ tenant: '', id, metadata: undefined });
    assert.equal(task.id, id);
    return this.waitFor(id, 'CANCELED');
  }

  waitFor(id, wanted) {
    const look = async () => {
      for (;;) {
        const task = await this.get(id);
        if (state(task) === wanted) return task;
        await new Promise((go) => setTimeout(go, 20));
      }
    };
    return within(look(), `${id} to be ${wanted}`);
  }

  subscribe(id) {
    return this.client.resubscribeTask({ tenant: '', id });
  }

  list(more) {
    const all = { tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined };
    return this.client.listTasks({ ...all, ...more });
  }

  configs(taskId) {
    return this.client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 0, pageToken: '' });
  }
}

function request(text, { parts = [], task = '', context = '', now = false, history, push } = {}) {
  const first = text === undefined ? [] : [{ text }];
  const configuration = { returnImmediately: now };
  if (history !== undefined) configuration.historyLength = history;
  if (push !== undefined) configuration.taskPushNotificationConfig = push;
  const message = { messageId: randomUUID(), role: 'ROLE_USER', parts: [...first, ...parts], taskId: task, contextId: context };
  return SendMessageRequest.fromJSON({ message, configuration });
}

async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

async function within(waiting, what) {
  let timer;
  const late = new Promise((_, no) => {
    timer = setTimeout(() => no(new Error(`waited ${PATIENCE_MS} ms for ${what}`)), PATIENCE_MS);
  });
  try {
    return await Promise.race([waiting, late]);
  } finally {
    clearTimeout(timer);
  }
}

const NOT_FOUND = { kind: errors.TaskNotFoundError, code: -32001 };
const NOT_CANCELABLE = { kind: errors.TaskNotCancelableError, code: -32002 };
const UNSUPPORTED = { kind: errors.UnsupportedOperationError, code: -32004 };
const MEDIA = { kind: errors.ContentTypeNotSupportedError, code: -32005 };
const VERSION = { kind: errors.VersionNotSupportedError, code: -32009 };
const PARAMS = { kind: errors.A2AError, code: -32602 };

/// The call must end with this error. In a stream of 0.3, this SDK knows no kinds: there the code is in its words.
async function refused({ kind, code }, waiting) {
  const error = await failing(waiting);
  assert.ok(error instanceof kind || error.message.includes(code), `another error: ${error?.constructor?.name} ${error}`);
  assert.ok(error.message, error);
}

async function failing(waiting) {
  let got;
  try {
    got = await waiting;
  } catch (error) {
    return error;
  }
  assert.fail(`an error was expected; this came: ${JSON.stringify(got)}`);
}

const text = (parts) =>
  parts.filter((part) => part.content?.$case === 'text').map((part) => part.content.value).join('');
const artifact = (task, id) => task.artifacts.find((one) => one.artifactId === id);
const answer = (task) => text(artifact(task, 'answer').parts);
const state = (task) => TaskState[task.status.state].replace('TASK_STATE_', '');
const isCase = (kind) => (event) => event.payload?.$case === kind;
const last = (events) => events.at(-1).payload.value;

// --- cases

async function send(side) {
  const task = await side.send('hello over there');
  assert.equal(state(task), 'COMPLETED');
  assert.equal(answer(task), 'hello over there');
  assert.ok(task.id && task.contextId, task);
  assert.equal(task.history[0].role, Role.ROLE_USER);
  assert.equal(text(task.history[0].parts), 'hello over there');
}

async function immediately(side) {
  const task = await side.begin('long one');
  assert.ok(['SUBMITTED', 'WORKING'].includes(state(task)), state(task));
  assert.equal(state(await side.end(task.id)), 'CANCELED');
}

async function stream(side) {
  const events = await within(side.stream('steps'), 'the stream to end');
  assert.equal(events[0].payload.$case, 'task');
  const task = events[0].payload.value;
  const made = events.filter(isCase('artifactUpdate')).map((event) => event.payload.value);
  const told = made.map((one) => [one.artifact.artifactId, text(one.artifact.parts), Boolean(one.append)]);
  assert.deepEqual(told, [['log', 'a', false], ['log', 'b', true], ['answer', 'done', false]]);
  const status = events.filter(isCase('statusUpdate')).map((event) => event.payload.value);
  assert.ok(status.some((one) => one.status.message && text(one.status.message.parts) === 'one'), JSON.stringify(status));
  assert.equal(state(last(events)), 'COMPLETED');
  for (const one of [...made, ...status]) {
    assert.deepEqual([one.taskId, one.contextId], [task.id, task.contextId]);
  }
  const whole = await side.get(task.id);
  assert.equal(text(artifact(whole, 'log').parts), 'ab');
  assert.equal(answer(whole), 'done');
}

async function history(side) {
  const task = await side.send('ask something');
  await side.send('the second', { task: task.id });
  const whole = await side.get(task.id);
  const users = whole.history.filter((one) => one.role === Role.ROLE_USER).map((one) => text(one.parts));
  assert.deepEqual(users, ['ask something', 'the second']);
  assert.ok((await side.get(task.id, { historyLength: 1 })).history.length <= 1);
  if (side.version === '1.0') assert.equal((await side.get(task.id, { historyLength: 0 })).history.length, 0);
}

async function context(side) {
  const name = `talk-${randomUUID()}`;
  const [one, two] = [await side.send('a', { context: name }), await side.send('b', { context: name })];
  assert.deepEqual([one.contextId, two.contextId], [name, name]);
  assert.notEqual(one.id, two.id);
}

async function list(side) {
  const name = `list-${randomUUID()}`;
  const ids = [];
  for (const n of [0, 1, 2, 3, 4]) ids.unshift((await side.send(`number ${n}`, { context: name })).id);
  const whole = await side.list({ contextId: name });
  assert.deepEqual(whole.tasks.map((task) => task.id), ids);
  assert.deepEqual([whole.totalSize, whole.nextPageToken], [5, '']);
  assert.ok(whole.tasks.every((task) => task.artifacts.length === 0));
  const full = await side.list({ contextId: name, includeArtifacts: true });
  assert.equal(answer(full.tasks[0]), 'number 4');
  const seen = [];
  let pageToken = '';
  let pages = 0;
  do {
    const page = await side.list({ contextId: name, pageSize: 2, pageToken });
    seen.push(...page.tasks.map((task) => task.id));
    pageToken = page.nextPageToken;
    pages += 1;
  } while (pageToken);
  assert.deepEqual([seen, pages], [ids, 3]);
  const failed = await side.send('fail', { context: name });
  const found = await side.list({ contextId: name, status: TaskState.TASK_STATE_FAILED });
  assert.deepEqual(found.tasks.map((task) => task.id), [failed.id]);
}

async function cancel(side) {
  const task = await side.begin('long one');
  await side.waitFor(task.id, 'WORKING');
  assert.equal(state(await side.end(task.id)), 'CANCELED');
  assert.equal(state(await side.get(task.id)), 'CANCELED');
}

async function subscribe(side) {
  const task = await side.begin('long one');
  const events = side.subscribe(task.id);
  const { value: first } = await within(events.next(), 'the task');
  assert.deepEqual([first.payload.$case, first.payload.value.id], ['task', task.id]);
  await side.end(task.id);
  assert.equal(state(last(await within(all(events), 'its end'))), 'CANCELED');
}

async function asks(side) {
  const task = await side.send('ask me');
  assert.equal(state(task), 'INPUT_REQUIRED');
  assert.equal(text(task.status.message.parts), 'which one?');
  const done = await side.send('the blue one', { task: task.id, context: task.contextId });
  assert.deepEqual([done.id, state(done), answer(done)], [task.id, 'COMPLETED', 'you said the blue one']);
}

async function asksStreaming(side) {
  const asked = last(await within(side.stream('ask me'), 'the question'));
  assert.equal(state(asked), 'INPUT_REQUIRED');
  const more = { task: asked.taskId, context: asked.contextId };
  assert.equal(state(last(await within(side.stream('the red one', more), 'the end'))), 'COMPLETED');
  assert.equal(answer(await side.get(asked.taskId)), 'you said the red one');
}

async function direct(side) {
  const message = await side.client.sendMessage(request('direct'));
  assert.deepEqual([message.role, text(message.parts)], [Role.ROLE_AGENT, 'directly']);
  const events = await within(side.stream('direct'), 'the message');
  assert.deepEqual(events.map((event) => event.payload.$case), ['message']);
  assert.equal(text(last(events).parts), 'directly');
}

async function fails(side) {
  const task = await side.send('fail');
  assert.equal(state(task), 'FAILED');
  assert.match(text(task.status.message.parts), /it broke/);
}

async function parts(side) {
  const raw = Buffer.from('line\n').toString('base64');
  const more = [{ data: { n: 1.5, list: [true, 'ä'] } }, { raw, mediaType: 'text/plain', filename: 'notes.txt' }];
  const task = await side.send('parts', { parts: more });
  let came = artifact(task, 'answer').parts[0].content.value;
  // Data in 0.3 is an object; a list has to be wrapped by whoever speaks both.
  if (!Array.isArray(came)) came = came.value;
  assert.deepEqual(came.map((one) => one.kind), ['text', 'data', 'raw']);
  assert.deepEqual(came[1].content, { n: 1.5, list: [true, 'ä'] });
  assert.deepEqual([came[2].content, came[2].filename], ['line\n', 'notes.txt']);
  assert.deepEqual(task.history[0].parts.map((part) => part.content.$case), ['text', 'data', 'raw']);
}

async function push(side) {
  await withWebhook(async (hook) => {
    const task = await side.send('ask');
    const authentication = { scheme: 'Bearer', credentials: 'a-secret' };
    const wish = { tenant: '', id: 'mine', taskId: task.id, url: hook.url, token: 'a token', authentication };
    const made = await side.client.createTaskPushNotificationConfig(wish);
    assert.deepEqual([made.taskId, made.url], [task.id, hook.url]);
    const which = { tenant: '', taskId: task.id, id: made.id };
    assert.equal((await side.client.getTaskPushNotificationConfig(which)).url, hook.url);
    assert.deepEqual((await side.configs(task.id)).configs.map((one) => one.id), [made.id]);
    await side.send('this', { task: task.id });
    const headers = await hook.waitFor(task.id);
    assert.equal(headers.authorization, 'Bearer a-secret');
    assert.equal(headers['x-a2a-notification-token'] ?? headers['a2a-notification-token'], 'a token');
  });
}

async function pushDeleted(side) {
  await withWebhook(async (hook) => {
    const task = await side.send('ask');
    const wish = { tenant: '', id: 'gone', taskId: task.id, url: hook.url, token: '', authentication: undefined };
    await side.client.createTaskPushNotificationConfig(wish);
    const which = { tenant: '', taskId: task.id, id: 'gone' };
    await side.client.deleteTaskPushNotificationConfig(which);
    assert.deepEqual((await side.configs(task.id)).configs, []);
    await refused(NOT_FOUND, side.client.getTaskPushNotificationConfig(which));
    await side.end(task.id);
  });
}

async function extendedCard(side) {
  const card = await (await side.clientOf(token)).getAgentCard();
  assert.equal(card.name, side.card.name);
  assert.ok(card.skills.length >= 1);
}

async function errorNotFound(side) {
  await refused(NOT_FOUND, side.get(UNKNOWN));
  await refused(NOT_FOUND, side.end(UNKNOWN));
  await refused(NOT_FOUND, side.send('x', { task: UNKNOWN }));
  await refused(NOT_FOUND, all(side.subscribe(UNKNOWN)));
}

async function errorEnded(side) {
  const task = await side.send('over');
  await refused(NOT_CANCELABLE, side.end(task.id));
  await refused(UNSUPPORTED, side.send('more', { task: task.id }));
  await refused(UNSUPPORTED, side.stream('more', { task: task.id }));
  if (side.version === '1.0') await refused(UNSUPPORTED, all(side.subscribe(task.id)));
}

async function errorParams(side) {
  // For these, this SDK has no kind of their own but the base of all.
  await refused(PARAMS, side.send());
  await refused(PARAMS, side.get(UNKNOWN, { historyLength: -1 }));
  if (side.version === '1.0') await refused(PARAMS, side.list({ pageSize: 101 }));
}

async function errorMedia(side) {
  const video = { raw: 'iVBORw==', mediaType: 'video/mp4', filename: 'a.mp4' };
  await refused(MEDIA, side.send(undefined, { parts: [video] }));
}

async function errorVersion(side) {
  const serviceParameters = { 'A2A-Version': '9.9', Authorization: `Bearer ${token}` };
  const asked = side.client.transport.getTask({ tenant: '', id: UNKNOWN }, { serviceParameters });
  await refused(VERSION, asked);
}

async function unauthenticated(side) {
  for (const secret of ['', 'wrong']) {
    const stranger = await side.clientOf(secret);
    const error = await failing(stranger.getTask({ tenant: '', id: UNKNOWN }));
    const said = `${error.message} ${error.statusCode ?? ''} ${error.cause?.message ?? ''}`;
    assert.match(said, /401|unauthenticated|token/i);
    assert.ok(!(error instanceof errors.TaskNotFoundError), error);
  }
}

const CASES = {
  send,
  immediately,
  stream,
  history,
  context,
  list,
  cancel,
  subscribe,
  asks,
  'asks-streaming': asksStreaming,
  direct,
  fails,
  parts,
  push,
  'push-deleted': pushDeleted,
  'extended-card': extendedCard,
  'error-not-found': errorNotFound,
  'error-ended': errorEnded,
  'error-params': errorParams,
  'error-media': errorMedia,
  'error-version': errorVersion,
  unauthenticated,
};
// What 0.3 does not have, or the SDK does not offer for it.
const NOT_IN_03 = ['list', 'error-version'];
// What the SDK loses over the HTTP+JSON and the gRPC of 0.3, whatever the server says: that a piece is appended, and the
// name of a file; over HTTP+JSON also every card that says how to log in.
const LOST = { 'HTTP+JSON/0.3': ['stream', 'parts', 'extended-card'], 'GRPC/0.3': ['stream', 'parts'] };

/// A small HTTP server of our own that keeps what it is told.
async function withWebhook(use) {
  const heard = [];
  let news = () => {};
  const server = createServer((asked, reply) => {
    let body = '';
    asked.on('data', (chunk) => (body += chunk));
    asked.on('end', () => {
      heard.push({ headers: asked.headers, event: JSON.parse(body) });
      reply.writeHead(204).end();
      news();
    });
  });
  await new Promise((go) => server.listen(0, '127.0.0.1', go));
  const isDone = (id) => ({ event }) => {
    const inside = event.statusUpdate ?? event.task ?? event;
    return (inside.taskId ?? inside.id) === id && /completed/i.test(inside.status?.state);
  };
  const hook = {
    url: `http://127.0.0.1:${server.address().port}/${randomUUID()}`,
    waitFor: async (id) => {
      const came = (async () => {
        while (!heard.some(isDone(id))) await new Promise((go) => (news = go));
        return heard.find(isDone(id)).headers;
      })();
      try {
        return await within(came, `a notification that ${id} is completed`);
      } catch (error) {
        throw new Error(`${error.message}; it heard ${JSON.stringify(heard)}`);
      }
    },
  };
  try {
    await use(hook);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/// The card as the SDK's own resolver finds it, and what its signature is worth.
async function resolve() {
  const card = await new DefaultAgentCardResolver().resolve(base);
  assert.ok(card.name && card.supportedInterfaces.length && card.skills.length, JSON.stringify(card));
  console.log('ok card resolve');
  // Keys come from the card's own origin and from nowhere else.
  const key = async (kid, jku) => {
    assert.ok(jku?.startsWith(base), `${jku} is not of ${base}`);
    return (await (await fetch(jku)).json()).keys.find((one) => one.kid === kid);
  };
  const verify = verifyAgentCardSignature(key);
  await verify(card);
  console.log('ok card signature');
  await assert.rejects(verify({ ...card, description: 'another' }));
  console.log('ok card signature-changed');
  return card;
}

/// What a reader that knows only 0.3 sees of the same document.
async function resolveOld() {
  const { supportedInterfaces, ...old } = await (await fetch(`${base}/.well-known/agent-card.json`)).json();
  assert.ok(supportedInterfaces, 'no 1.0 card');
  const card = new DefaultAgentCardResolver({ legacyCompat: { enabled: true } }).normalizeAgentCard(old);
  console.log('ok card resolve-0.3');
  return card;
}

const failed = [];
async function attempt(name, act) {
  try {
    return await act();
  } catch (error) {
    failed.push(name);
    console.log(`FAILED ${name}\n${error.stack ?? error}${error.cause ? `\ncause: ${error.cause}` : ''}`);
  }
}

const card = await attempt('card', resolve);
const old = wanted.some((name) => name.endsWith('/0.3')) && (await attempt('card 0.3', resolveOld));
for (const name of wanted) {
  const from = name.endsWith('/0.3') ? old : card;
  const side = from && (await attempt(`${name} open`, () => new Side(name, from).open()));
  if (!side) continue;
  for (const [title, act] of Object.entries(CASES)) {
    if ((side.version === '0.3' && NOT_IN_03.includes(title)) || LOST[name]?.includes(title)) continue;
    if (skipped.includes(`${name}:${title}`)) {
      console.log(`skipped ${name} ${title}`);
      continue;
    }
    await attempt(`${name} ${title}`, async () => {
      await within(act(side), 'the case to end');
      console.log(`ok ${name} ${title}`);
    });
  }
}
if (failed.length) console.log(`${failed.length} failed: ${failed.join('; ')}`);
process.exit(failed.length ? 1 : 0);
