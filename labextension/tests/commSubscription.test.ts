import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommSubscription, type KernelMessage } from '../src/commSubscription';
import type { StateAction, TerminalState } from '../src/protocol.generated';
import { partText } from '../src/reducers';
import type { IChange } from '../src/subscription';
import { terminalState } from './fakeHost';

const T1 = 'ahp-terminal:/t1';

function subscribed() {
  const sent: object[] = [];
  const subscription = new CommSubscription(
    () => T1,
    content => sent.push(content)
  );
  const changes: IChange<TerminalState>[] = [];
  subscription.changed.connect((_, change) => changes.push(change));
  return { subscription, sent, changes };
}

const snapshot = (value: string, omitted = 0): KernelMessage => ({
  method: 'snapshot',
  state: terminalState({ content: [{ type: 'unclassified', value }] }),
  omitted
});

const action = (content: object, serverSeq = 1): KernelMessage => ({
  method: 'action',
  params: { channel: T1, action: content as StateAction, serverSeq }
});

test('a snapshot, then actions on top of it', () => {
  const { subscription, changes } = subscribed();
  assert.equal(subscription.status, 'connecting');
  subscription.receive(action({ type: 'terminal/data', data: 'too early' }));
  subscription.receive(snapshot('a', 7));
  subscription.receive(action({ type: 'terminal/data', data: 'b' }));
  assert.equal(subscription.status, 'live');
  assert.equal(subscription.omitted, 7);
  assert.equal(subscription.state?.content.map(partText).join(''), 'ab');
  assert.deepEqual(
    changes.map(({ isSnapshot, action: changed }) => [isSnapshot, changed?.type ?? null]),
    [
      [true, null],
      [false, 'terminal/data']
    ]
  );
});

test('a view that was behind goes on from the next snapshot', () => {
  const { subscription } = subscribed();
  subscription.receive(snapshot('a'));
  subscription.receive(snapshot('tail', 90_000));
  assert.equal(subscription.omitted, 90_000);
  assert.equal(subscription.state?.content.map(partText).join(''), 'tail');
});

test('what is typed goes up as an action', () => {
  const { subscription, sent } = subscribed();
  subscription.dispatch({ type: 'terminal/input', data: 'Ada\r' });
  subscription.dispatch({ type: 'terminal/input', data: 'x' });
  assert.deepEqual(sent[0], {
    method: 'dispatchAction',
    params: { channel: T1, clientSeq: 1, action: { type: 'terminal/input', data: 'Ada\r' } }
  });
  assert.equal((sent[1] as { params: { clientSeq: number } }).params.clientSeq, 2);
});

test('without its comm it says so for good, keeps what it showed and sends nothing', () => {
  const { subscription, sent } = subscribed();
  const statuses: string[] = [];
  subscription.statusChanged.connect((_, status) => statuses.push(status));
  subscription.receive(snapshot('a'));
  subscription.end('No longer connected.');
  subscription.receive(snapshot('a'));
  subscription.dispatch({ type: 'terminal/input', data: 'x' });
  assert.deepEqual([subscription.status, subscription.reason], ['gone', 'No longer connected.']);
  assert.deepEqual(statuses, ['live', 'gone']);
  assert.deepEqual(sent, []);
  assert.equal(subscription.state?.content.length, 1);
});

test('a command that prints without end does not fill the page', () => {
  const { subscription } = subscribed();
  const command = { type: 'command', commandId: 'c1', commandLine: 'yes', output: '', timestamp: 0, isComplete: false } as const;
  subscription.receive({ method: 'snapshot', state: terminalState({ content: [{ ...command, commandId: 'c0', isComplete: true }, command] }) });
  for (let frame = 0; frame < 20; frame++) {
    subscription.receive(action({ type: 'terminal/data', data: 'y\n'.repeat(16_000) }));
  }
  const [first, last] = subscription.state!.content;
  assert.ok(partText(last).length <= 250_000);
  assert.ok(partText(last).endsWith('y\n'));
  assert.equal(first.type === 'command' && first.commandId, 'c0');
});
