/**
 * A channel's state on this side of the wire, and the views' holds on it.
 *
 * It keeps the confirmed state (reduced from the host's envelopes) and the own actions that the host has not echoed yet, and shows
 * these on top of it. Both an echo and a rejection settle an own action; a lost link drops them all.
 */
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { ActionEnvelope, Snapshot, StateAction } from './protocol.generated';
import type { IChange, ISubscription, SubscriptionStatus } from './subscription';

interface IPending {
  readonly clientSeq: number;
  readonly action: StateAction;
}

/** One view's hold on a channel. The last one that is disposed ends the host's deliveries. */
export class Subscription<S extends object> implements ISubscription<S>, IDisposable {
  constructor(
    private readonly _channel: Channel<S>,
    private readonly _way: { dispatch(action: StateAction): boolean; release(): void }
  ) {
    _channel.holds.add(this);
  }

  readonly omitted = 0;
  readonly changed = new Signal<this, IChange<S>>(this);
  readonly statusChanged = new Signal<this, SubscriptionStatus>(this);

  get uri(): string {
    return this._channel.uri;
  }

  get state(): S | null {
    return this._channel.state;
  }

  get status(): SubscriptionStatus {
    return this._channel.status;
  }

  get reason(): string {
    return this._channel.reason;
  }

  get isDisposed(): boolean {
    return !this._channel.holds.has(this);
  }

  dispatch(action: StateAction): boolean {
    return this._way.dispatch(action);
  }

  dispose(): void {
    if (!this._channel.holds.delete(this)) {
      return;
    }
    Signal.clearData(this);
    if (this._channel.holds.size === 0) {
      this._way.release();
    }
  }
}

/** A channel's state on this side of the wire. */
export class Channel<S extends object> {
  constructor(
    readonly uri: string,
    private readonly _reducer: (state: S, action: StateAction) => S
  ) {}

  readonly holds = new Set<Subscription<S>>();

  get state(): S | null {
    return this._state;
  }

  get hasState(): boolean {
    return this._confirmed !== null;
  }

  get status(): SubscriptionStatus {
    return this._status;
  }

  get reason(): string {
    return this._reason;
  }

  /** Take a snapshot. */
  reset(snapshot: Snapshot): void {
    this._confirmed = snapshot.state as S;
    this._seq = snapshot.fromSeq;
    this._publish(null, true);
    this.setStatus('live', '');
  }

  /** Take an envelope of the host. */
  receive(envelope: ActionEnvelope, isOwn: boolean): void {
    if (this._confirmed === null || envelope.serverSeq <= this._seq || this._status === 'gone') {
      return;
    }
    this._seq = envelope.serverSeq;
    if (isOwn) {
      this._pending = this._pending.filter(({ clientSeq }) => clientSeq !== envelope.origin?.clientSeq);
    }
    if (isRejection(envelope)) {
      this._publish(null, false);
    } else {
      this._confirmed = this._reducer(this._confirmed, envelope.action);
      this._publish(envelope.action, false);
    }
  }

  /** Put an own action on top until the host settles it. */
  push(pending: IPending): void {
    if (this._confirmed === null) {
      return;
    }
    this._pending = [...this._pending, pending];
    if (pending.action.type !== 'terminal/input') {
      this._publish(null, false);
    }
  }

  /** The link is lost, and with it every own action that was not settled. */
  lose(reason: string): void {
    if (this._status === 'gone') {
      return;
    }
    if (this._pending.length > 0) {
      this._pending = [];
      this._publish(null, false);
    }
    this.setStatus('disconnected', reason);
  }

  setStatus(status: SubscriptionStatus, reason: string): void {
    if (this._status === status && this._reason === reason) {
      return;
    }
    this._status = status;
    this._reason = reason;
    [...this.holds].forEach(hold => hold.statusChanged.emit(status));
  }

  private _publish(action: StateAction | null, isSnapshot: boolean): void {
    this._state = this._pending.reduce<S | null>(
      (state, pending) => state && this._reducer(state, pending.action),
      this._confirmed
    );
    const state = this._state;
    [...this.holds].forEach(hold => hold.changed.emit({ state, action, isSnapshot }));
  }

  private _confirmed: S | null = null;
  private _state: S | null = null;
  private _pending: readonly IPending[] = [];
  private _seq = 0;
  private _status: SubscriptionStatus = 'connecting';
  private _reason = '';
}

/** Whether an envelope says that its action was not accepted. */
export function isRejection(envelope: ActionEnvelope): boolean {
  return envelope.rejectionReason !== undefined && envelope.rejectionReason !== null;
}
