/** Whole messages in order over a WebSocket, by the rules of Jupyter's server settings; it opens again by itself. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import type { ILink } from './connection';

/** So much silence, and the host is asked whether it is there: below the 60 s after which proxies cut idle sockets. */
const SILENCE_MS = 10_000;

/** So much more silence after that, and the socket counts as lost. */
const ANSWER_MS = 10_000;

/** The first wait before another attempt; it doubles with every failure in a row, up to the longest. */
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 30_000;

const CHECK_MS = 2_500;

/** What the link needs of a socket. */
export type Socket = Pick<WebSocket, 'send' | 'close' | 'readyState' | 'onopen' | 'onclose' | 'onmessage'>;

const OPEN = 1;

export class WebSocketLink implements ILink {
  constructor(private readonly _options: WebSocketLink.IOptions) {}

  readonly opened = new Signal<this, void>(this);
  readonly closed = new Signal<this, string>(this);
  readonly received = new Signal<this, string>(this);
  readonly silent = new Signal<this, void>(this);

  start(): void {
    if (this._isStarted) {
      return;
    }
    this._isStarted = true;
    globalThis.addEventListener?.('online', this._hurry);
    globalThis.document?.addEventListener('visibilitychange', this._hurry);
    this._open();
  }

  stop(): void {
    this._isStarted = false;
    globalThis.removeEventListener?.('online', this._hurry);
    globalThis.document?.removeEventListener('visibilitychange', this._hurry);
    clearTimeout(this._retry);
    clearInterval(this._check);
    this._drop();
  }

  send(text: string): void {
    if (this._socket?.readyState === OPEN) {
      this._socket.send(text);
    }
  }

  private _open(): void {
    clearTimeout(this._retry);
    this._retry = undefined;
    const socket = this._options.open();
    let wasOpen = false;
    this._socket = socket;
    socket.onopen = () => {
      wasOpen = true;
      this._heard();
      this._check = setInterval(() => this._watch(), CHECK_MS);
      this.opened.emit();
    };
    socket.onmessage = event => {
      this._heard();
      this._failures = 0;
      this.received.emit(event.data as string);
    };
    socket.onclose = () => {
      if (wasOpen) {
        this._lost('The connection to the server was lost.');
      } else {
        void this._options.probe().then(reason => socket === this._socket && this._lost(reason));
      }
    };
  }

  private _lost(reason: string): void {
    clearInterval(this._check);
    this._drop();
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this._failures);
    this._failures += 1;
    // Half of it by chance: many pages come back after one restart of the server.
    this._retry = setTimeout(() => this._open(), wait * (0.5 + Math.random() / 2));
    this.closed.emit(reason);
  }

  private _drop(): void {
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onopen = socket.onclose = socket.onmessage = null;
      socket.close();
    }
  }

  private _heard(): void {
    this._heardAt = Date.now();
    this._askedAt = 0;
  }

  private _watch(): void {
    const now = Date.now();
    if (this._socket?.readyState !== OPEN) {
      return;
    }
    if (this._askedAt > 0 && now - this._askedAt > ANSWER_MS) {
      this._lost('The server does not answer.');
    } else if (this._askedAt === 0 && now - this._heardAt > SILENCE_MS) {
      this._askedAt = now;
      this.silent.emit();
    }
  }

  /** The network or the reader is back: do not sit out the wait. */
  private readonly _hurry = (): void => {
    if (this._retry !== undefined && globalThis.document?.visibilityState !== 'hidden') {
      this._failures = 0;
      this._open();
    }
  };

  private _isStarted = false;
  private _socket: Socket | null = null;
  private _failures = 0;
  private _heardAt = 0;
  private _askedAt = 0;
  private _retry: ReturnType<typeof setTimeout> | undefined;
  private _check: ReturnType<typeof setInterval> | undefined;
}

export namespace WebSocketLink {
  export interface IOptions {
    readonly open: () => Socket;
    /** Find out why a socket could not be opened; a browser does not say. */
    readonly probe: () => Promise<string>;
  }
}

/** A link to the host inside this page's Jupyter server. */
export function serverLink(settings: ServerConnection.ISettings): WebSocketLink {
  return new WebSocketLink({
    open: () => {
      let url = URLExt.join(settings.wsUrl, 'ahp');
      if (settings.appendToken && settings.token) {
        url += `?token=${encodeURIComponent(settings.token)}`;
      }
      return new settings.WebSocket(url);
    },
    probe: () => probe(settings)
  });
}

async function probe(settings: ServerConnection.ISettings): Promise<string> {
  let response: Response;
  try {
    response = await ServerConnection.makeRequest(URLExt.join(settings.baseUrl, 'ahp'), {}, settings);
  } catch {
    return 'The server cannot be reached.';
  }
  if (response.status === 404) {
    return 'This server does not serve shared terminals; "jupyter ahp doctor" says why.';
  }
  if (response.status === 401 || response.status === 403) {
    return 'The server does not let this page in.';
  }
  return 'The connection to the server could not be opened.';
}
