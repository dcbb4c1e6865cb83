import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClientConnection, type IRejection, LinkLost, RequestRefused } from '../src/connection';
import { ErrorCode, ROOT_URI, type StateAction, SUPPORTED_VERSIONS, type TerminalState } from '../src/protocol.generated';
import { partText } from '../src/reducers';
import type { IChange } from '../src/subscription';
import { FakeLink, rootState, snapshot, terminalState } from './fakeHost';

const T1 = 'ahp-terminal:/t1';
const T2 = 'ahp-terminal:/t2';
const SERVER = { protocolVersion: '1.0.0', _meta: { 'x-terminal': { version: 1 } } };

const text = (state: TerminalState | null) => state?.content.map(partText).join('');

function connect(renewClientId?: (refused: string) => string) {
  const link = new FakeLink();
  const connection = new ClientConnection({ clientInfo: { name: 'test' }, link, renewClientId });
  return { link, connection };
}

/** A connection with the root and one terminal subscribed at number 10. */
function live(state: TerminalState = terminalState()) {
  const { link, connection } = connect();
  const root = connection.subscribeRoot();
  const terminal = connection.subscribeTerminal(T1);
  connection.start('page');
  link.answer(link.takeOne('initialize'), {
    ...SERVER,
    serverSeq: 10,
    snapshots: [snapshot(ROOT_URI, 10, rootState(T1)), snapshot(T1, 10, state)]
  });
  const changes: IChange<TerminalState>[] = [];
  terminal.changed.connect((_, change) => changes.push(change));
  const rejections: IRejection[] = [];
  connection.rejected.connect((_, rejection) => rejections.push(rejection));
  return { link, connection, root, terminal, changes, rejections };
}

test('initialize names versions newest first, the subscriptions and our extensions', () => {
  const { link, connection } = connect();
  connection.subscribeRoot();
  connection.start('page');
  const { params } = link.takeOne('initialize');
  assert.deepEqual(params, {
    channel: ROOT_URI,
    protocolVersions: SUPPORTED_VERSIONS,
    clientId: 'page',
    clientInfo: { name: 'test' },
    initialSubscriptions: [ROOT_URI],
    _meta: { 'x-terminal': { version: 1 } }
  });
  assert.equal(params.protocolVersions[0], '1.0.0');
});

test('the handshake brings the states and says which extensions the host has', () => {
  const { connection, root, terminal } = live();
  assert.equal(connection.status, 'live');
  assert.equal(root.state?.terminals?.[0].resource, T1);
  assert.equal(terminal.status, 'live');
  assert.equal(terminal.state?.title, 'bash');
  assert.ok(connection.hasExtension('x-terminal'));
  assert.ok(!connection.hasExtension('x-agentSession'));
});

test('a terminal that the host does not know is gone', () => {
  const { link, connection } = connect();
  const terminal = connection.subscribeTerminal(T1);
  connection.start('page');
  link.answer(link.takeOne('initialize'), { ...SERVER, serverSeq: 1, snapshots: [] });
  assert.equal(terminal.status, 'gone');
  assert.match(terminal.reason, /does not exist/);
  const other = connection.subscribeTerminal(T2);
  link.refuse(link.takeOne('subscribe'), ErrorCode.NOT_FOUND, 'not found');
  assert.equal(other.status, 'gone');
});

test('a subscription made during the handshake is asked for behind it', () => {
  const { link, connection } = connect();
  connection.start('page');
  const initialize = link.takeOne('initialize');
  const terminal = connection.subscribeTerminal(T1);
  link.answer(initialize, { ...SERVER, serverSeq: 5, snapshots: [] });
  link.answer(link.takeOne('subscribe'), { snapshot: snapshot(T1, 6, terminalState()) });
  assert.equal(terminal.status, 'live');
});

test('actions follow the snapshot in order, and what it already holds is not taken twice', () => {
  const { link, terminal, changes } = live(terminalState({ content: [{ type: 'unclassified', value: 'a' }] }));
  link.publish(T1, 10, { type: 'terminal/data', data: 'a' });
  link.publish(T1, 11, { type: 'terminal/data', data: 'b' });
  link.publish(T1, 11, { type: 'terminal/data', data: 'b' });
  link.publish(T1, 14, { type: 'terminal/data', data: 'c' });
  assert.equal(text(terminal.state), 'abc');
  assert.deepEqual(
    changes.map(({ action, isSnapshot }) => [action?.type, isSnapshot]),
    [
      ['terminal/data', false],
      ['terminal/data', false]
    ]
  );
});

test('a fresh snapshot after subscribing later starts at its own number', () => {
  const { link, connection } = live();
  link.publish(ROOT_URI, 20, { type: 'root/activeSessionsChanged', activeSessions: 1 });
  const other = connection.subscribeTerminal(T2);
  const state = terminalState({ content: [{ type: 'unclassified', value: 'seen' }] });
  link.answer(link.takeOne('subscribe'), { snapshot: snapshot(T2, 25, state) });
  link.publish(T2, 26, { type: 'terminal/data', data: '!' });
  assert.equal(text(other.state), 'seen!');
});

test('an own action shows at once and its echo settles it', () => {
  const { link, terminal, changes } = live();
  assert.ok(terminal.dispatch({ type: 'terminal/titleChanged', title: 'mine' }));
  const { params } = link.takeOne('dispatchAction');
  assert.equal(terminal.state?.title, 'mine');
  assert.deepEqual(params, { channel: T1, clientSeq: 1, action: { type: 'terminal/titleChanged', title: 'mine' } });
  // A foreign change lands below the pending one.
  link.publish(T1, 11, { type: 'terminal/titleChanged', title: 'theirs' });
  assert.equal(terminal.state?.title, 'mine');
  link.publish(T1, 12, params.action, { origin: { clientId: 'page', clientSeq: 1 } });
  assert.equal(terminal.state?.title, 'mine');
  link.publish(T1, 13, { type: 'terminal/titleChanged', title: 'later' });
  assert.equal(terminal.state?.title, 'later');
  assert.equal(changes[0].action, null);
});

test('a rejection takes the own action back and says why', () => {
  const { link, terminal, rejections, changes } = live();
  terminal.dispatch({ type: 'terminal/resized', cols: 200, rows: 50 });
  assert.equal(terminal.state?.cols, 200);
  const action: StateAction = { type: 'terminal/resized', cols: 200, rows: 50 };
  link.publish(T1, 11, action, { origin: { clientId: 'page', clientSeq: 1 }, rejectionReason: 'held by another' });
  assert.equal(terminal.state?.cols, 80);
  assert.deepEqual(rejections, [{ uri: T1, action, reason: 'held by another' }]);
  assert.equal(changes[changes.length - 1].action, null);
});

test('a rejection of an action on a channel that is not subscribed is told too', () => {
  const { link, connection, rejections } = live();
  connection.dispatch(T2, { type: 'terminal/titleChanged', title: 'x' });
  const action: StateAction = { type: 'terminal/titleChanged', title: 'x' };
  link.publish(T2, 11, action, { origin: { clientId: 'page', clientSeq: 1 }, rejectionReason: 'no' });
  assert.equal(rejections.length, 1);
});

test("another client's action with the same number settles nothing of ours", () => {
  const { link, terminal } = live();
  terminal.dispatch({ type: 'terminal/titleChanged', title: 'mine' });
  link.publish(T1, 11, { type: 'terminal/resized', cols: 90, rows: 20 }, { origin: { clientId: 'other', clientSeq: 1 } });
  link.publish(T1, 12, { type: 'terminal/titleChanged', title: 'theirs' });
  assert.equal(terminal.state?.title, 'mine');
});

test('an unknown action, an unknown notification and broken text change nothing', () => {
  const { link, terminal } = live();
  const before = terminal.state;
  link.publish(T1, 11, { type: 'terminal/someday', data: 1 });
  link.receive({ method: 'root/progress', params: { channel: ROOT_URI } });
  link.received.emit('{');
  assert.equal(terminal.state, before);
  link.receive({ id: 7, method: 'resourceRead', params: { channel: ROOT_URI } });
  assert.equal((link.take()[0] as unknown as { error: { code: number } }).error.code, ErrorCode.METHOD_NOT_FOUND);
});

test('requests are answered, refused and lost', async () => {
  const { link, connection } = live();
  const done = connection.request('createTerminal', { channel: T2 });
  link.answer(link.takeOne('createTerminal'), null);
  assert.equal(await done, null);
  const refused = connection.request('x-terminal/signal', { channel: T1, signal: 'interrupt' });
  link.refuse(link.takeOne('x-terminal/signal'), ErrorCode.PERMISSION_DENIED, 'held by a session');
  await assert.rejects(refused, (error: unknown) => error instanceof RequestRefused && error.code === -32009);
  const lost = connection.request('x-terminal/close', { channel: T1 });
  link.close('gone');
  await assert.rejects(lost, (error: unknown) => error instanceof LinkLost && error.message === 'gone');
  await assert.rejects(connection.request('ping', { channel: ROOT_URI }), LinkLost);
});

test('a lost link shows in the subscriptions and drops what was pending', () => {
  const { link, connection, terminal } = live();
  terminal.dispatch({ type: 'terminal/titleChanged', title: 'mine' });
  link.close('The connection was lost.');
  assert.equal(connection.status, 'disconnected');
  assert.deepEqual([terminal.status, terminal.reason], ['disconnected', 'The connection was lost.']);
  assert.equal(terminal.state?.title, 'bash');
  link.take();
  assert.equal(terminal.dispatch({ type: 'terminal/input', data: 'rm x' }), false);
  assert.deepEqual(link.take(), []);
});

test('a reconnect replays what was missed, without a new snapshot', () => {
  const { link, terminal, changes } = live();
  link.publish(T1, 12, { type: 'terminal/data', data: 'a' });
  link.close();
  link.open();
  const reconnect = link.takeOne('reconnect');
  assert.deepEqual(reconnect.params, {
    channel: ROOT_URI,
    clientId: 'page',
    lastSeenServerSeq: 12,
    subscriptions: [ROOT_URI, T1]
  });
  const missed = [
    { channel: T1, serverSeq: 13, action: { type: 'terminal/data', data: 'b' } },
    { channel: T1, serverSeq: 15, action: { type: 'terminal/data', data: 'c' } }
  ];
  link.answer(reconnect, { type: 'replay', actions: missed, missing: [] });
  link.publish(T1, 16, { type: 'terminal/data', data: 'd' });
  assert.equal(text(terminal.state), 'abcd');
  assert.equal(terminal.status, 'live');
  assert.ok(changes.every(change => !change.isSnapshot));
});

test('a reconnect after too long a gap brings snapshots, and what has none is gone', () => {
  const { link, connection, terminal, changes } = live();
  const other = connection.subscribeTerminal(T2);
  link.answer(link.takeOne('subscribe'), { snapshot: snapshot(T2, 11, terminalState()) });
  link.close();
  link.open();
  const state = terminalState({ content: [{ type: 'unclassified', value: 'tail' }] });
  link.answer(link.takeOne('reconnect'), {
    type: 'snapshot',
    snapshots: [snapshot(ROOT_URI, 5, rootState(T1)), snapshot(T1, 5, state)]
  });
  assert.equal(text(terminal.state), 'tail');
  assert.equal(changes[changes.length - 1].isSnapshot, true);
  assert.deepEqual([other.status, other.reason], ['gone', 'This terminal was closed.']);
  // The numbering may have begun anew; the client counts from what it was told last.
  link.publish(T1, 6, { type: 'terminal/data', data: '!' });
  link.close();
  link.open();
  assert.equal(link.takeOne('reconnect').params.lastSeenServerSeq, 6);
});

test('a terminal that the replay calls missing is gone', () => {
  const { link, terminal } = live();
  link.close();
  link.open();
  link.answer(link.takeOne('reconnect'), { type: 'replay', actions: [], missing: [T1] });
  assert.equal(terminal.status, 'gone');
  link.close();
  assert.equal(terminal.status, 'gone');
});

test('a host that has forgotten the client is asked to begin anew, and its terminals ended with it', () => {
  const { link, connection, root, terminal } = live();
  link.close();
  link.open();
  link.refuse(link.takeOne('reconnect'), ErrorCode.NOT_FOUND, 'unknown client');
  const initialize = link.takeOne('initialize');
  assert.deepEqual(initialize.params.initialSubscriptions, [ROOT_URI, T1]);
  link.answer(initialize, { ...SERVER, serverSeq: 1, snapshots: [snapshot(ROOT_URI, 1, rootState())] });
  assert.equal(connection.status, 'live');
  assert.deepEqual(root.state?.terminals, []);
  assert.equal(terminal.status, 'gone');
  assert.match(terminal.reason, /restarted/);
  assert.equal(terminal.state?.title, 'bash', 'what was shown remains');
});

test('a subscription whose snapshot never came is not replayed but asked for again', () => {
  const { link, connection } = live();
  const other = connection.subscribeTerminal(T2);
  link.takeOne('subscribe');
  link.close();
  link.open();
  const reconnect = link.takeOne('reconnect');
  assert.deepEqual(reconnect.params.subscriptions, [ROOT_URI, T1]);
  link.answer(reconnect, { type: 'replay', actions: [], missing: [] });
  link.answer(link.takeOne('subscribe'), { snapshot: snapshot(T2, 12, terminalState()) });
  assert.equal(other.status, 'live');
});

test("the number to come back with counts envelopes, not a late channel's snapshot", () => {
  const { link, connection, terminal } = live();
  connection.subscribeTerminal(T2);
  link.answer(link.takeOne('subscribe'), { snapshot: snapshot(T2, 30, terminalState()) });
  link.close();
  link.open();
  const reconnect = link.takeOne('reconnect');
  assert.equal(reconnect.params.lastSeenServerSeq, 10);
  const held = { channel: T1, serverSeq: 29, action: { type: 'terminal/data', data: 'held back' } };
  const doubled = { channel: T2, serverSeq: 28, action: { type: 'terminal/data', data: 'in the snapshot' } };
  link.answer(reconnect, { type: 'replay', actions: [doubled, held], missing: [] });
  assert.equal(text(terminal.state), 'held back');
  assert.equal(text(connection.subscribeTerminal(T2).state), '');
});

test('a terminal that leaves the list was closed', () => {
  const { link, terminal } = live();
  link.publish(ROOT_URI, 11, { type: 'root/terminalsChanged', terminals: [] });
  assert.deepEqual([terminal.status, terminal.reason], ['gone', 'This terminal was closed.']);
  assert.equal(terminal.dispatch({ type: 'terminal/input', data: 'x' }), false);
});

test('a terminal that was closed as the last before a restart ended with the server', () => {
  const { link, terminal } = live();
  link.publish(T1, 11, { type: 'terminal/exited' });
  link.publish(ROOT_URI, 12, { type: 'root/terminalsChanged', terminals: [] });
  assert.match(terminal.reason, /was closed/);
  link.close();
  link.open();
  link.refuse(link.takeOne('reconnect'), ErrorCode.NOT_FOUND, 'unknown client');
  assert.match(terminal.reason, /server was restarted/);
});

test('one name can be used again after it was closed', () => {
  const { link, connection, terminal } = live();
  link.publish(ROOT_URI, 11, { type: 'root/terminalsChanged', terminals: [] });
  const again = connection.subscribeTerminal(T1);
  link.answer(link.takeOne('subscribe'), { snapshot: snapshot(T1, 13, terminalState({ title: 'new' })) });
  assert.deepEqual([terminal.status, terminal.state?.title], ['gone', 'bash']);
  assert.deepEqual([again.status, again.state?.title], ['live', 'new']);
});

test('the last hold that is disposed unsubscribes', () => {
  const { link, connection, terminal } = live();
  const second = connection.subscribeTerminal(T1);
  assert.equal(second.state?.title, 'bash');
  terminal.dispose();
  terminal.dispose();
  assert.ok(terminal.isDisposed);
  assert.deepEqual(link.take(), []);
  second.dispose();
  assert.deepEqual(link.takeOne('unsubscribe').params, { channel: T1 });
});

test('a refused handshake ends the link', () => {
  const { link, connection } = connect();
  connection.start('page');
  link.refuse(link.takeOne('initialize'), ErrorCode.UNSUPPORTED_PROTOCOL_VERSION, 'no version fits');
  assert.equal(connection.status, 'refused');
  assert.match(connection.reason, /no version fits/);
  assert.ok(link.isStopped);
  link.close();
  assert.equal(connection.status, 'refused');
});

test('a client id that belongs to somebody else is exchanged once', () => {
  const { link, connection } = connect(() => 'page-2');
  connection.start('page');
  link.refuse(link.takeOne('initialize'), ErrorCode.INVALID_PARAMS, 'client id in use');
  assert.equal(link.sent[0].params.clientId, 'page-2');
  assert.equal(connection.clientId, 'page-2');
  link.refuse(link.takeOne('initialize'), ErrorCode.INVALID_PARAMS, 'client id in use');
  assert.equal(connection.status, 'refused');
});

test('silence is answered with a ping', () => {
  const { link } = live();
  link.silent.emit();
  assert.deepEqual(link.takeOne('ping').params, { channel: ROOT_URI });
});

test('a disposed connection stops its link and fails what is open', async () => {
  const { link, connection } = live();
  const open = connection.request('listSessions', { channel: ROOT_URI });
  connection.dispose();
  connection.dispose();
  assert.ok(link.isStopped && connection.isDisposed);
  await assert.rejects(open, LinkLost);
});
