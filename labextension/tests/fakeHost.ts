/** A host in memory: the other end of a link, written by a test message by message. */
import { Signal } from '@lumino/signaling';
import type { ILink } from '../src/connection';
import type { ActionEnvelope, RootState, Snapshot, StateAction, TerminalState } from '../src/protocol.generated';

interface IMessage {
  readonly id?: number;
  readonly method: string;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly params: any;
}

export class FakeLink implements ILink {
  readonly opened = new Signal<this, void>(this);
  readonly closed = new Signal<this, string>(this);
  readonly received = new Signal<this, string>(this);
  readonly silent = new Signal<this, void>(this);
  readonly sent: IMessage[] = [];
  isStopped = false;

  start(): void {
    this.open();
  }

  stop(): void {
    this.isStopped = true;
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as IMessage);
  }

  open(): void {
    this.opened.emit();
  }

  close(reason = 'The connection was lost.'): void {
    this.closed.emit(reason);
  }

  /** What the client has sent since the last call. */
  take(): IMessage[] {
    return this.sent.splice(0);
  }

  /** The only message since the last call; it must be of this method. */
  takeOne(method: string): IMessage {
    const messages = this.take();
    if (messages.length !== 1 || messages[0].method !== method) {
      throw new Error(`expected one ${method}, got ${JSON.stringify(messages)}`);
    }
    return messages[0];
  }

  answer(request: IMessage, result: unknown): void {
    this.receive({ id: request.id, result });
  }

  refuse(request: IMessage, code: number, message: string): void {
    this.receive({ id: request.id, error: { code, message } });
  }

  publish(channel: string, serverSeq: number, action: object, rest: Partial<ActionEnvelope> = {}): void {
    this.receive({ method: 'action', params: { channel, serverSeq, action: action as StateAction, ...rest } });
  }

  receive(message: object): void {
    this.received.emit(JSON.stringify({ jsonrpc: '2.0', ...message }));
  }
}

export function terminalState(members: Partial<TerminalState> = {}): TerminalState {
  return {
    title: 'bash',
    content: [],
    claim: { kind: 'client', clientId: 'page' },
    lifecycle: { status: 'running' },
    cols: 80,
    rows: 24,
    ...members
  };
}

export function rootState(...uris: string[]): RootState {
  return {
    agents: [],
    terminals: uris.map(resource => ({
      resource,
      title: 'bash',
      claim: { kind: 'client', clientId: 'page' },
      lifecycle: { status: 'running' }
    }))
  };
}

export function snapshot(resource: string, fromSeq: number, state: Snapshot['state']): Snapshot {
  return { resource, fromSeq, state };
}
