/**
 * One AHP conversation, as its client: handshake, subscriptions, requests, actions. The mirror of Python's `ClientConnection`.
 *
 * Pure: it knows no socket and no clock. A link carries its messages and says when it opens, closes and falls silent.
 */
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import { Channel, isRejection, Subscription } from './channel';
import {
  type ActionEnvelope,
  ErrorCode,
  EXTENSIONS,
  type Implementation,
  type InitializeParams,
  type InitializeResult,
  type ReconnectParams,
  type ReconnectReplayResult,
  type ReconnectSnapshotResult,
  ROOT_URI,
  type RootState,
  type RpcError,
  type Snapshot,
  type StateAction,
  type SubscribeResult,
  SUPPORTED_VERSIONS,
  type TerminalState
} from './protocol.generated';
import { rootReducer, terminalReducer, trimContent } from './reducers';

/** What a page keeps of one terminal: twice what the host does by default, as a view draws from what it was sent. */
const RETAINED_CHARS = 400_000;
const RETAINED_PARTS = 4_000;

/** Carries whole messages in order, and opens again by itself after it was lost. */
export interface ILink {
  readonly opened: ISignal<unknown, void>;
  /** Lost, or an attempt has failed; with the reason, for people. */
  readonly closed: ISignal<unknown, string>;
  readonly received: ISignal<unknown, string>;
  /** Nothing has come for a while: time to ask whether the host is there. */
  readonly silent: ISignal<unknown, void>;
  start(): void;
  /** End it for good. */
  stop(): void;
  send(text: string): void;
}

/**
 * - `connecting`: the first attempt is on its way.
 * - `live`: the handshake is done.
 * - `disconnected`: the link is lost and is being tried again.
 * - `refused`: the host will not speak with us; no further attempts.
 */
export type ConnectionStatus = 'connecting' | 'live' | 'disconnected' | 'refused';

/** The host's refusal of a request. */
export class RequestRefused extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown
  ) {
    super(message);
    this.name = 'RequestRefused';
  }
}

/** A request without an answer: there is no link, or it was lost. Whether the request took effect is not known. */
export class LinkLost extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'LinkLost';
  }
}

/** An own action that the host did not accept. */
export interface IRejection {
  readonly uri: string;
  readonly action: StateAction;
  readonly reason: string;
}

type Answer = (result: unknown, error: RpcError | null) => void;

export class ClientConnection implements IDisposable {
  constructor(private readonly _options: ClientConnection.IOptions) {
    const { link } = _options;
    link.opened.connect(this._onOpened, this);
    link.closed.connect(this._onClosed, this);
    link.received.connect(this._onReceived, this);
    link.silent.connect(this._onSilent, this);
  }

  /** This client's label in claims, the same over reconnects; empty before the start. */
  get clientId(): string {
    return this._clientId;
  }

  get status(): ConnectionStatus {
    return this._status;
  }

  /** Why it is not live, as a sentence for people; empty while it is. */
  get reason(): string {
    return this._reason;
  }

  get statusChanged(): ISignal<this, ConnectionStatus> {
    return this._statusChanged;
  }

  /** Own actions that the host did not accept. */
  get rejected(): ISignal<this, IRejection> {
    return this._rejected;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Whether the host announced an extension (`x-terminal`). */
  hasExtension(name: string): boolean {
    return this._extensions[name] !== undefined;
  }

  /** Open the link; `clientId` is this client's own label. */
  start(clientId: string): void {
    this._clientId = clientId;
    this._options.link.start();
  }

  subscribeRoot(): Subscription<RootState> {
    return this._subscribe<RootState>(ROOT_URI, rootReducer);
  }

  subscribeTerminal(uri: string): Subscription<TerminalState> {
    return this._subscribe<TerminalState>(uri, boundedTerminalReducer);
  }

  /**
   * Ask the host.
   *
   * @returns The answer's result; rejected with `RequestRefused` or `LinkLost`.
   */
  request<T>(method: string, params: { readonly channel: string; readonly [key: string]: unknown }): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this._status !== 'live') {
        reject(new LinkLost(this._reason || 'Not connected to the server yet.'));
        return;
      }
      this._request(method, params, (result, error) => {
        if (!error) {
          resolve(result as T);
        } else if (error.code === LOST) {
          reject(new LinkLost(error.message));
        } else {
          reject(new RequestRefused(error.code, error.message, error.data));
        }
      });
    });
  }

  /**
   * Send an action; a subscription to its channel shows it at once. A refusal comes by `rejected`.
   *
   * @returns False where there is no connection: then nothing was sent and nothing is kept.
   */
  dispatch(uri: string, action: StateAction): boolean {
    const channel = this._channels.get(uri);
    if (this._status !== 'live' || channel?.status === 'gone') {
      return false;
    }
    const clientSeq = ++this._clientSeq;
    this._send({ method: 'dispatchAction', params: { channel: uri, clientSeq, action } });
    channel?.push({ clientSeq, action });
    return true;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    Signal.disconnectReceiver(this);
    this._options.link.stop();
    this._failAnswers('The page has closed its connection.');
    Signal.clearData(this);
  }

  private _subscribe<S extends object>(uri: string, reducer: (state: S, action: StateAction) => S): Subscription<S> {
    let channel = this._channels.get(uri) as Channel<S> | undefined;
    if (!channel || channel.status === 'gone') {
      channel = new Channel<S>(uri, reducer);
      this._channels.set(uri, channel as unknown as AnyChannel);
      if (this._status === 'live') {
        this._fetch(channel as unknown as AnyChannel);
      } else if (this._status !== 'connecting') {
        channel.setStatus('disconnected', this._reason);
      }
    }
    return new Subscription<S>(channel, {
      dispatch: action => this.dispatch(uri, action),
      release: () => this._release(channel as unknown as AnyChannel)
    });
  }

  private _release(channel: AnyChannel): void {
    if (this._channels.get(channel.uri) !== channel) {
      return;
    }
    this._channels.delete(channel.uri);
    if (this._status === 'live' && channel.status !== 'gone') {
      this._send({ method: 'unsubscribe', params: { channel: channel.uri } });
    }
  }

  private _fetch(channel: AnyChannel): void {
    this._request('subscribe', { channel: channel.uri }, (result, error) => {
      if (error?.code === LOST) {
        return; // the next handshake asks again
      }
      const { snapshot } = (result ?? {}) as SubscribeResult;
      if (snapshot) {
        channel.reset(snapshot);
      } else {
        channel.setStatus('gone', error?.code === ErrorCode.NOT_FOUND ? UNKNOWN : (error?.message ?? UNKNOWN));
      }
    });
  }

  private _onOpened(): void {
    if (this._isKnown) {
      this._reconnect();
    } else {
      this._initialize(UNKNOWN);
    }
  }

  /** Begin anew; a subscribed channel that the host does not know is gone for `reasonGone`. */
  private _initialize(reasonGone: string): void {
    const asked = [...this._channels.values()].filter(channel => channel.status !== 'gone');
    const params: InitializeParams = {
      channel: ROOT_URI,
      protocolVersions: SUPPORTED_VERSIONS,
      clientId: this._clientId,
      clientInfo: this._options.clientInfo,
      initialSubscriptions: asked.map(channel => channel.uri),
      _meta: EXTENSIONS
    };
    this._request('initialize', params, (result, error) => {
      if (error?.code === LOST) {
        return;
      }
      if (error?.code === ErrorCode.INVALID_PARAMS && this._options.renewClientId) {
        // Somebody else has used this id: another user's page in the same tab.
        const next = this._options.renewClientId(this._clientId);
        if (next !== this._clientId) {
          this._clientId = next;
          this._initialize(reasonGone);
          return;
        }
      }
      if (error) {
        this._options.link.stop();
        this._setStatus('refused', `The server refused the connection: ${error.message}`);
        return;
      }
      const answer = result as InitializeResult;
      this._isKnown = true;
      this._extensions = answer._meta ?? {};
      this._lastSeenServerSeq = answer.serverSeq;
      this._ready(asked, answer.snapshots, reasonGone);
    });
  }

  private _reconnect(): void {
    // A channel without a state has no base that a replay could go on from.
    const asked = [...this._channels.values()].filter(channel => channel.status !== 'gone' && channel.hasState);
    const params: ReconnectParams = {
      channel: ROOT_URI,
      clientId: this._clientId,
      lastSeenServerSeq: this._lastSeenServerSeq,
      subscriptions: asked.map(channel => channel.uri)
    };
    const closedLast = [...this._closedLast];
    this._request('reconnect', params, (result, error) => {
      if (error?.code === LOST) {
        return;
      }
      if (error) {
        this._isKnown = false;
        closedLast.forEach(channel => channel.setStatus('gone', FORGOTTEN));
        this._initialize(FORGOTTEN);
        return;
      }
      const answer = result as ReconnectReplayResult | ReconnectSnapshotResult;
      if (answer.type === 'snapshot') {
        this._lastSeenServerSeq = Math.max(0, ...answer.snapshots.map(snapshot => snapshot.fromSeq));
        this._ready(asked, answer.snapshots, CLOSED);
        return;
      }
      this._ready(asked, null, CLOSED);
      answer.actions.forEach(envelope => this._onEnvelope(envelope));
      answer.missing.forEach(uri => this._channels.get(uri)?.setStatus('gone', CLOSED));
    });
  }

  /** The handshake is done. Without snapshots, the states that are there go on. */
  private _ready(asked: readonly AnyChannel[], snapshots: readonly Snapshot[] | null, reasonGone: string): void {
    this._status = 'live';
    this._reason = '';
    const byUri = new Map((snapshots ?? []).map(snapshot => [snapshot.resource, snapshot]));
    for (const channel of this._channels.values()) {
      const snapshot = byUri.get(channel.uri);
      if (channel.status === 'gone') {
        continue;
      }
      if (!asked.includes(channel)) {
        this._fetch(channel);
      } else if (snapshot) {
        channel.reset(snapshot);
      } else if (snapshots) {
        channel.setStatus('gone', reasonGone);
      } else {
        channel.setStatus('live', '');
      }
    }
    this._statusChanged.emit('live');
  }

  private _onClosed(_: unknown, reason: string): void {
    if (this._status === 'refused') {
      return;
    }
    this._failAnswers(reason);
    this._setStatus('disconnected', reason);
  }

  private _onSilent(): void {
    this._request('ping', { channel: ROOT_URI }, () => undefined);
  }

  private _onReceived(_: unknown, text: string): void {
    let frame: IFrame;
    try {
      frame = JSON.parse(text) as IFrame;
    } catch {
      return; // a host that sends no JSON has nothing to say to us
    }
    if (frame.method === 'action') {
      this._onEnvelope(frame.params as ActionEnvelope);
    } else if (frame.method !== undefined) {
      if (frame.id !== undefined && frame.id !== null) {
        this._send({ id: frame.id, error: { code: ErrorCode.METHOD_NOT_FOUND, message: 'this client serves no requests' } });
      }
    } else if (typeof frame.id === 'number') {
      const answer = this._answers.get(frame.id);
      this._answers.delete(frame.id);
      this._closedLast.clear();
      answer?.(frame.result, frame.error ?? null);
    }
  }

  private _onEnvelope(envelope: ActionEnvelope): void {
    // Only envelopes count: they come in ascending order. A snapshot's number does not, for output of another channel that
    // has a smaller one may still be held back behind it.
    this._lastSeenServerSeq = Math.max(this._lastSeenServerSeq, envelope.serverSeq);
    const channel = this._channels.get(envelope.channel);
    const isOwn = envelope.origin?.clientId === this._clientId;
    const listed = envelope.channel === ROOT_URI ? this._listed() : [];
    channel?.receive(envelope, isOwn);
    if (isOwn && isRejection(envelope)) {
      this._rejected.emit({ uri: envelope.channel, action: envelope.action, reason: envelope.rejectionReason ?? '' });
    }
    if (listed.length > 0) {
      // Nothing on a terminal's own channel says that it was closed.
      const still = new Set(this._listed());
      for (const uri of listed.filter(candidate => !still.has(candidate))) {
        const closed = this._channels.get(uri);
        if (closed) {
          closed.setStatus('gone', CLOSED);
          this._closedLast.add(closed);
        }
      }
    } else if (envelope.action.type === 'terminal/data') {
      this._closedLast.clear();
    }
  }

  private _listed(): string[] {
    const root = this._channels.get(ROOT_URI)?.state as RootState | null | undefined;
    return (root?.terminals ?? []).map(info => info.resource);
  }

  private _setStatus(status: ConnectionStatus, reason: string): void {
    this._status = status;
    this._reason = reason;
    for (const channel of this._channels.values()) {
      channel.lose(reason);
    }
    this._statusChanged.emit(status);
  }

  private _request(method: string, params: object, answer: Answer): void {
    const id = ++this._requestId;
    this._answers.set(id, answer);
    this._send({ id, method, params });
  }

  private _failAnswers(reason: string): void {
    const answers = [...this._answers.values()];
    this._answers.clear();
    answers.forEach(answer => answer(undefined, { code: LOST, message: reason }));
  }

  private _send(frame: object): void {
    this._options.link.send(JSON.stringify({ jsonrpc: '2.0', ...frame }));
  }

  private _clientId = '';
  private _isKnown = false;
  private _isDisposed = false;
  private _status: ConnectionStatus = 'connecting';
  private _reason = '';
  private _extensions: Readonly<Record<string, unknown>> = {};
  private _lastSeenServerSeq = 0;
  private _clientSeq = 0;
  private _requestId = 0;
  /** Closed by the last that was heard: a host that stops closes its terminals first. */
  private readonly _closedLast = new Set<AnyChannel>();
  private readonly _answers = new Map<number, Answer>();
  private readonly _channels = new Map<string, AnyChannel>();
  private readonly _statusChanged = new Signal<this, ConnectionStatus>(this);
  private readonly _rejected = new Signal<this, IRejection>(this);
}

export namespace ClientConnection {
  export interface IOptions {
    readonly clientInfo: Implementation;
    readonly link: ILink;
    /** Another id for this client, once the host has refused the given one; the same id if there is no other. */
    readonly renewClientId?: (refused: string) => string;
  }
}

type AnyChannel = Channel<object>;

interface IFrame {
  readonly id?: number | string | null;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: RpcError | null;
}

/** The code by which our own side answers a request whose link was lost; JSON-RPC leaves positive numbers to us. */
const LOST = 1;

const UNKNOWN = 'This terminal does not exist any more.';
const CLOSED = 'This terminal was closed.';
const FORGOTTEN = 'The server was restarted, and this terminal ended with it.';

function boundedTerminalReducer(state: TerminalState, action: StateAction): TerminalState {
  const next = terminalReducer(state, action);
  const content = next === state ? state.content : trimContent(next.content, RETAINED_CHARS, RETAINED_PARTS);
  return content === next.content ? next : { ...next, content };
}
