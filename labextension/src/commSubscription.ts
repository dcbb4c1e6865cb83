/** A terminal's state over a widget's comm: the same interface as over the page's AHP connection. */
import type { IMimeBundle } from '@jupyterlab/nbformat';
import type { JSONObject, JSONValue } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import type { ActionEnvelope, StateAction, TerminalState } from './protocol.generated';
import { terminalReducer, trimContent } from './reducers';
import type { IChange, ISubscription, SubscriptionStatus } from './subscription';

/** What the kernel sends by comm. */
export type KernelMessage =
  | { readonly method: 'snapshot'; readonly state: TerminalState; readonly omitted?: number }
  | { readonly method: 'action'; readonly params: ActionEnvelope }
  | { readonly method: 'bundle'; readonly mimebundle: IMimeBundle };

/** What the page keeps of each command's output; the whole of it is with the kernel. */
const KEPT_CHARS = 250_000;

/** A terminal's state over a widget's comm. */
export class CommSubscription implements ISubscription<TerminalState> {
  constructor(
    private readonly _terminal: () => string,
    private readonly _send: (content: JSONObject) => void
  ) {}

  readonly changed = new Signal<this, IChange<TerminalState>>(this);
  readonly statusChanged = new Signal<this, SubscriptionStatus>(this);

  get uri(): string {
    return this._terminal();
  }

  get state(): TerminalState | null {
    return this._state;
  }

  get status(): SubscriptionStatus {
    return this._status;
  }

  get reason(): string {
    return this._reason;
  }

  get omitted(): number {
    return this._omitted;
  }

  dispatch(action: StateAction): void {
    if (this._status !== 'gone') {
      const params = { channel: this.uri, clientSeq: ++this._clientSeq, action: action as unknown as JSONValue };
      this._send({ method: 'dispatchAction', params });
    }
  }

  /** Take a message of the kernel. */
  receive(message: KernelMessage): void {
    if (message.method === 'snapshot') {
      this._state = message.state;
      this._omitted = message.omitted ?? 0;
      this.changed.emit({ state: this._state, action: null, isSnapshot: true });
      this._setStatus('live', '');
    } else if (message.method === 'action' && this._state) {
      const { action } = message.params;
      const next = terminalReducer(this._state, action);
      this._state = { ...next, content: next.content.map(part => trimContent([part], KEPT_CHARS, 1)[0]) };
      this.changed.emit({ state: this._state, action, isSnapshot: false });
    }
  }

  /** The kernel cannot be reached by this comm any more. */
  end(reason: string): void {
    this._setStatus('gone', reason);
  }

  private _setStatus(status: SubscriptionStatus, reason: string): void {
    if (this._status !== status && this._status !== 'gone') {
      this._status = status;
      this._reason = reason;
      this.statusChanged.emit(status);
    }
  }

  private _state: TerminalState | null = null;
  private _status: SubscriptionStatus = 'connecting';
  private _reason = '';
  private _omitted = 0;
  private _clientSeq = 0;
}
