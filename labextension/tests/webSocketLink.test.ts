import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { type Socket, WebSocketLink } from '../src/webSocketLink';

class FakeSocket implements Socket {
  readyState = 0;
  onopen: Socket['onopen'] = null;
  onclose: Socket['onclose'] = null;
  onmessage: Socket['onmessage'] = null;
  readonly sent: string[] = [];
  isClosed = false;

  send(data: string): void {
    this.sent.push(data);
  }

  close(): void {
    this.isClosed = true;
    this.readyState = 3;
  }

  opens(): void {
    this.readyState = 1;
    this.onopen?.call(this as unknown as WebSocket, {} as Event);
  }

  closes(): void {
    this.readyState = 3;
    this.onclose?.call(this as unknown as WebSocket, {} as CloseEvent);
  }

  says(data: string): void {
    this.onmessage?.call(this as unknown as WebSocket, { data } as MessageEvent);
  }
}

function linked() {
  const sockets: FakeSocket[] = [];
  const events: string[] = [];
  const link = new WebSocketLink({
    open: () => {
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket;
    },
    probe: async () => 'not served here'
  });
  link.opened.connect(() => events.push('opened'));
  link.closed.connect((_, reason) => events.push(`closed: ${reason}`));
  link.received.connect((_, text) => events.push(`received: ${text}`));
  link.silent.connect(() => events.push('silent'));
  link.start();
  return { link, sockets, events, last: () => sockets[sockets.length - 1] };
}

const settle = async () => {
  await Promise.resolve();
  await Promise.resolve();
};

beforeEach(() => mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'] }));
afterEach(() => mock.timers.reset());

test('messages go both ways, in order, once it is open', () => {
  const { link, last, events } = linked();
  link.send('too early');
  last().opens();
  link.send('a');
  link.send('b');
  last().says('x');
  last().says('y');
  assert.deepEqual(last().sent, ['a', 'b']);
  assert.deepEqual(events, ['opened', 'received: x', 'received: y']);
  link.stop();
});

test('a lost socket is opened again, after waits that grow with every failure', async () => {
  const { link, sockets, last, events } = linked();
  last().opens();
  last().says('x');
  last().closes();
  assert.match(events[2], /^closed: The connection to the server was lost/);
  mock.timers.tick(250);
  assert.equal(sockets.length, 2);
  for (const wait of [500, 1_000, 2_000]) {
    last().closes();
    await settle();
    assert.equal(events[events.length - 1], 'closed: not served here');
    const before: number = sockets.length;
    mock.timers.tick(wait / 2 - 1);
    assert.equal(sockets.length, before);
    mock.timers.tick(wait / 2 + 1);
    assert.equal(sockets.length, before + 1);
  }
  link.stop();
});

test('no wait is longer than half a minute', async () => {
  const { link, sockets, last } = linked();
  for (let attempt = 0; attempt < 20; attempt++) {
    last().closes();
    await settle();
    mock.timers.tick(30_000);
  }
  assert.equal(sockets.length, 21);
  link.stop();
});

test('silence is told, and more silence is a lost link', () => {
  const { link, last, events } = linked();
  const first = last();
  first.opens();
  mock.timers.tick(9_000);
  first.says('x');
  mock.timers.tick(9_000);
  assert.deepEqual(events, ['opened', 'received: x']);
  mock.timers.tick(5_000);
  assert.deepEqual(events.slice(2), ['silent']);
  mock.timers.tick(12_500);
  assert.deepEqual(events.slice(3), ['closed: The server does not answer.']);
  assert.ok(first.isClosed);
  first.says('late');
  assert.equal(events.length, 4);
  link.stop();
});

test('an answer ends the doubt', () => {
  const { link, last, events } = linked();
  last().opens();
  mock.timers.tick(12_500);
  assert.deepEqual(events, ['opened', 'silent']);
  last().says('pong');
  mock.timers.tick(7_500);
  assert.deepEqual(events.slice(2), ['received: pong']);
  link.stop();
});

test('a stopped link stays closed', async () => {
  const { link, sockets, last, events } = linked();
  last().closes();
  link.stop();
  await settle();
  mock.timers.tick(60_000);
  assert.equal(sockets.length, 1);
  assert.deepEqual(events, []);
});
