import type { ISignal } from '@lumino/signaling';
import type { StateAction } from './protocol.generated';

/** What has changed in a subscription. */
export interface IChange<S> {
  readonly state: S | null;
  /**
   * The action, if the change was one that the host published: a view that draws incrementally needs no more than this.
   * Null for a new snapshot, and when an own action was put on top or taken back before the host confirmed it.
   */
  readonly action: StateAction | null;
  /** True if `state` is a snapshot: nothing relates it to the state before. */
  readonly isSnapshot: boolean;
}

/**
 * - `connecting`: no state yet, or what is shown may be behind.
 * - `live`: what is shown is what the host says.
 * - `disconnected`: no link; it is being tried again.
 * - `gone`: the channel does not exist any more; nothing will follow.
 */
export type SubscriptionStatus = 'connecting' | 'live' | 'disconnected' | 'gone';

/** A channel's state as a view sees it, whatever carries it: the page's AHP connection or a widget's comm. */
export interface ISubscription<S> {
  readonly uri: string;
  /** Confirmed state with this client's pending actions on top; null until the first snapshot. */
  readonly state: S | null;
  readonly changed: ISignal<unknown, IChange<S>>;
  readonly status: SubscriptionStatus;
  readonly statusChanged: ISignal<unknown, SubscriptionStatus>;
  /** Why it is not live, as a sentence for people; empty while it is. */
  readonly reason: string;
  /** Characters before `state` that the carrier left out; 0 where it carries everything. */
  readonly omitted: number;
  dispatch(action: StateAction): void;
}
