/** What stands between a view and JupyterLab's own terminal widget. */
import type { ServerConnection, Terminal as TerminalService } from '@jupyterlab/services';
import type { Terminal } from '@jupyterlab/terminal';
import { Signal } from '@lumino/signaling';
import type { Terminal as Xterm } from '@xterm/xterm';

/** xterm lets the page breathe between writes, and parses each in one go: about 3 ms for so much. */
const SLICE_CHARS = 32 * 1024;

/**
 * The xterm of a Lab Terminal widget. It is a private member, so this is the one guarded place that touches it; null means: go on
 * with the public API only.
 */
export async function xtermOf(widget: Terminal): Promise<Xterm | null> {
  await widget.ready;
  const term = (widget as unknown as { _term?: Xterm })._term;
  return term && typeof term.registerMarker === 'function' && typeof term.resize === 'function' ? term : null;
}

/** Write a text; `onParsed` is called when all of it has been. */
export function writeInSlices(term: Xterm, text: string, onParsed: () => void): void {
  let start = 0;
  for (; start + SLICE_CHARS < text.length; start += SLICE_CHARS) {
    term.write(text.slice(start, start + SLICE_CHARS));
  }
  term.write(text.slice(start), onParsed);
}

/** The connection that Lab's widget is given: a pipe between it and the view. */
export class Pipe implements TerminalService.ITerminalConnection {
  constructor(
    readonly name: string,
    readonly serverSettings: ServerConnection.ISettings
  ) {}

  readonly connectionStatusChanged = new Signal<this, TerminalService.ConnectionStatus>(this);
  readonly messageReceived = new Signal<this, TerminalService.IMessage>(this);
  readonly disposed = new Signal<this, void>(this);
  readonly sent = new Signal<this, TerminalService.IMessage>(this);
  readonly refreshed = new Signal<this, void>(this);

  get model(): TerminalService.IModel {
    return { name: this.name };
  }

  get connectionStatus(): TerminalService.ConnectionStatus {
    return this._status;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** The widget calls this: stdin [data], set_size [rows, cols, ...]. */
  send(message: TerminalService.IMessage): void {
    this.sent.emit(message);
  }

  /** The widget's refresh calls this and clears the screen afterwards. */
  async reconnect(): Promise<void> {
    this.refreshed.emit();
  }

  /** A view that is closed leaves its terminal running. */
  async shutdown(): Promise<void> {
    this.dispose();
  }

  connect(): void {
    this._status = 'connected';
    this.connectionStatusChanged.emit(this._status);
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this.disposed.emit();
      Signal.clearData(this);
    }
  }

  private _status: TerminalService.ConnectionStatus = 'connecting';
  private _isDisposed = false;
}
