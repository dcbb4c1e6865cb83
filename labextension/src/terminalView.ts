/**
 * A terminal in the main area: JupyterLab's own terminal widget, driven by a subscription.
 *
 * The screen is written from the snapshot once, then only with what is new. Only the holder's view sends input and its size, and
 * only it answers a program's questions (cursor position, device); it never does while a snapshot is being written, or an old
 * question would type its answer into a live shell. A view that does not hold the terminal keeps the holder's size.
 */
import { MainAreaWidget } from '@jupyterlab/apputils';
import type { ServerConnection, Terminal as TerminalService } from '@jupyterlab/services';
import { type ITerminal, Terminal } from '@jupyterlab/terminal';
import { terminalIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import type { Terminal as Xterm } from '@xterm/xterm';
import type { Subscription } from './channel';
import type { ClientConnection } from './connection';
import { detailsOf, endText, folderText, holderOf, type IHolder } from './describe';
import { nameOf } from './names';
import type { CreateTerminalParams, TerminalState } from './protocol.generated';
import { hasExited, partText } from './reducers';
import type { IChange } from './subscription';
import { Pipe, writeInSlices, xtermOf } from './xterm';

/** Longest input in one action, in UTF-8 bytes; the host refuses a longer one whole. */
const MAX_INPUT_BYTES = 512 * 1024;

/** More unparsed output than this and the view goes on from the state: xterm drops at 50 MB, and a reader wants the end. */
const MAX_UNPARSED_CHARS = 8_000_000;

/** Input so shortly after a key or a paste came from a person, and not from xterm answering a program. */
const TYPED_WITHIN_MS = 100;

/** Smaller sizes come from views that are folded away. */
const MIN_COLS = 4;
const MIN_ROWS = 2;

/** How long a new terminal waits for its view to have a size. */
const FIT_WITHIN_MS = 2_000;

const NOTICE_MS = 6_000;

/** What xterm sends by itself: reports of cursor, device, mode, colour and focus. */
const REPORT = /^(?:\x1b\[[?>=]?[\d;]*(?:[cRnty]|\$y)|\x1b\[[IO]|\x1b[\]P][^\x07]*(?:\x07|\x1b\\))+$/;

const RESET = '\x1bc';

/** A line above the terminal: who holds it, that it has ended or is off line, and what can be done. */
class Strip extends Widget {
  constructor(onTakeOver: () => void) {
    super();
    this.addClass('jp-AhpTerminal-strip');
    this._text.setAttribute('role', 'status');
    this._button.type = 'button';
    this._button.className = 'jp-AhpButton';
    this._button.textContent = 'Take Over';
    this._button.onclick = onTakeOver;
    this.node.append(this._text, this._button);
    this.tell('', false);
  }

  /** Say something, or hide. */
  tell(text: string, canTakeOver: boolean): void {
    if (this._text.textContent !== text) {
      this._text.textContent = text;
    }
    this._button.hidden = !canTakeOver;
    this.setHidden(text === '');
  }

  private readonly _text = document.createElement('span');
  private readonly _button = document.createElement('button');
}

export class TerminalView extends MainAreaWidget<Terminal> {
  constructor(private readonly _options: TerminalView.IOptions) {
    const pipe = new Pipe(nameOf(_options.uri), _options.serverSettings);
    super({
      content: new Terminal(pipe, {
        ..._options.terminalOptions,
        autoFit: _options.creation !== undefined,
        closeOnExit: false,
        initialCommand: '',
        shutdownOnClose: false
      })
    });
    this._pipe = pipe;
    this.id = TerminalView.idOf(_options.uri);
    this.addClass('jp-AhpTerminal');
    this.title.icon = terminalIcon;
    this.toolbar.hide();
    this._strip = new Strip(() => this.takeOver());
    this.contentHeader.addWidget(this._strip);
    this._setTitle(nameOf(_options.uri), '');
    pipe.sent.connect(this._onSent, this);
    pipe.refreshed.connect(() => void setTimeout(() => this._replay()), this);
    _options.connection.statusChanged.connect(this._update, this);
    this.started = this._start();
  }

  /** Resolved once the terminal is there and subscribed; rejected if it could not be created. */
  readonly started: Promise<void>;

  get uri(): string {
    return this._options.uri;
  }

  get state(): TerminalState | null {
    return this._subscription?.state ?? null;
  }

  /** Whether the terminal does not exist any more; the view keeps what it has shown. */
  get isGone(): boolean {
    return this._subscription?.status === 'gone';
  }

  /** Make this page the holder; the host may refuse. */
  takeOver(): void {
    this._claim();
    this.content.activate();
  }

  /** Show a refusal of the host, for a while. */
  notify(text: string): void {
    clearTimeout(this._noticeTimer);
    this._notice = text;
    if (text) {
      this._noticeTimer = setTimeout(() => this.notify(''), NOTICE_MS);
    }
    this._update();
  }

  /** Paste as a person's input. */
  paste(text: string): void {
    this._typedAt = Date.now();
    this.content.paste(text);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    clearTimeout(this._noticeTimer);
    Signal.disconnectReceiver(this);
    this._subscription?.dispose();
    this._pipe.dispose();
    super.dispose();
  }

  handleEvent(event: Event): void {
    if (event.type === 'scroll') {
      this._isFollowing = this._isCursorShown;
      return;
    }
    if (event.type === 'click') {
      // Beside the terminal's own screen, which may be smaller than the view, a click means the terminal too.
      if (!(event.target as HTMLElement).closest('.xterm')) {
        this.content.activate();
      }
      return;
    }
    this._typedAt = Date.now();
    if (event instanceof KeyboardEvent && event.type === 'keydown' && event.key === 'Escape' && event.shiftKey) {
      event.preventDefault();
      event.stopPropagation();
      this.content.node.focus();
    }
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    TYPING_EVENTS.forEach(type => this.content.node.addEventListener(type, this, true));
    this.content.node.addEventListener('scroll', this);
    this.content.node.addEventListener('click', this);
  }

  protected onBeforeDetach(message: Message): void {
    TYPING_EVENTS.forEach(type => this.content.node.removeEventListener(type, this, true));
    this.content.node.removeEventListener('scroll', this);
    this.content.node.removeEventListener('click', this);
    super.onBeforeDetach(message);
  }

  private async _start(): Promise<void> {
    const { connection, creation, uri } = this._options;
    this._xterm = await xtermOf(this.content);
    // The title is the state's: the host reads it from the same sequences, and a name given by a person stays.
    [0, 2].forEach(code => this._xterm?.parser.registerOscHandler(code, () => true));
    if (creation) {
      const size = await this._fitted();
      await connection.request('createTerminal', {
        ...creation,
        ...size,
        channel: uri,
        claim: { kind: 'client', clientId: connection.clientId }
      });
    }
    if (this.isDisposed) {
      return;
    }
    this._subscription = connection.subscribeTerminal(uri);
    this._subscription.changed.connect(this._onChanged, this);
    this._subscription.statusChanged.connect(this._update, this);
    this._pipe.connect();
    this._setTitle(nameOf(uri), ''); // Lab's widget has just given itself another
    this._replay();
    this._update();
  }

  /** The size of the view once it has one; nothing where it does not get one, as in a hidden tab. */
  private _fitted(): Promise<{ cols?: number; rows?: number }> {
    return new Promise(resolve => {
      const timer = setTimeout(() => resolve({}), FIT_WITHIN_MS);
      const onSent = (_: Pipe, message: TerminalService.IMessage) => {
        const size = this._sizeOf(message);
        if (size) {
          clearTimeout(timer);
          this._pipe.sent.disconnect(onSent);
          resolve(size);
        }
      };
      this._pipe.sent.connect(onSent);
      this.content.fit();
    });
  }

  private get _holder(): IHolder | null {
    const state = this.state;
    return state && holderOf(state, this._options.connection.clientId);
  }

  private get _isConnecting(): boolean {
    return !this._subscription || this._subscription.status === 'connecting';
  }

  /** Why input goes nowhere; empty if it does not. */
  private get _blocked(): string {
    const { _subscription: subscription } = this;
    if (!subscription || this._isConnecting) {
      return 'Connecting…';
    }
    if (subscription.status === 'gone') {
      return subscription.reason;
    }
    if (subscription.status === 'disconnected' && this._options.connection.status === 'refused') {
      return subscription.reason;
    }
    if (subscription.status === 'disconnected') {
      return `Off line: ${subscription.reason} Trying again; what you type is not sent.`;
    }
    const { state } = subscription;
    return state && hasExited(state) ? `This terminal has ${endText(state)}.` : '';
  }

  private _onSent(_: unknown, message: TerminalService.IMessage): void {
    const size = this._sizeOf(message);
    if (size) {
      this._sendSize(size);
    } else if (message.type === 'stdin') {
      this._sendInput(String(message.content?.[0] ?? ''));
    }
  }

  private _sendInput(data: string): void {
    const holder = this._holder;
    if (this._replaying > 0 || !holder || this._blocked) {
      return;
    }
    if (holder.role !== 'self') {
      const isTyped = Date.now() - this._typedAt <= TYPED_WITHIN_MS && !REPORT.test(data);
      if (!isTyped) {
        return;
      }
      if (holder.role !== 'kernel') {
        this.notify(`Not sent: ${holder.text} holds this terminal.`);
        return;
      }
      this._claim();
    }
    if (data.length > MAX_INPUT_BYTES / 4 && new TextEncoder().encode(data).length > MAX_INPUT_BYTES) {
      this.notify('Not sent: a terminal takes at most 512 KiB at once.');
      return;
    }
    this._subscription?.dispatch({ type: 'terminal/input', data });
  }

  private _claim(): void {
    const claim = { kind: 'client', clientId: this._options.connection.clientId } as const;
    this._subscription?.dispatch({ type: 'terminal/claimed', claim });
  }

  private _sizeOf(message: TerminalService.IMessage): { cols: number; rows: number } | null {
    const [rows, cols] = (message.content ?? []) as number[];
    const isShown = this.content.isVisible && this.content.node.offsetWidth > 0 && this.content.node.offsetHeight > 0;
    return message.type === 'set_size' && isShown && cols >= MIN_COLS && rows >= MIN_ROWS ? { cols, rows } : null;
  }

  private _sendSize(size: { cols: number; rows: number }): void {
    const state = this.state;
    const isSame = state?.cols === size.cols && state?.rows === size.rows;
    if (state && !isSame && !this._blocked && this._holder?.role === 'self' && this.content.getOption('autoFit')) {
      this._subscription?.dispatch({ type: 'terminal/resized', ...size });
    }
  }

  private _onChanged(_: unknown, { action, isSnapshot }: IChange<TerminalState>): void {
    if (isSnapshot) {
      this._replay();
    } else if (action?.type === 'terminal/data') {
      this._write(action.data);
      return;
    } else if (action?.type === 'terminal/cleared') {
      this._xterm?.write('', () => this._xterm?.clear());
    }
    this._update();
  }

  /** Write what the state holds, in place of all that was written before. */
  private _replay(): void {
    const state = this.state;
    if (!state || this.isDisposed) {
      return;
    }
    const text = RESET + state.content.map(partText).join('');
    this._isBehind = false;
    if (!this._xterm) {
      // Without write callbacks nobody knows when the snapshot has been read, so questions stay without an answer for a while.
      this._replaying += 1;
      setTimeout(() => (this._replaying -= 1), 1_000);
      this._pipe.messageReceived.emit({ type: 'stdout', content: [text] });
      return;
    }
    this._fit();
    this._replaying += 1;
    writeInSlices(this._xterm, text, () => {
      this._replaying -= 1;
      this._follow();
    });
  }

  private _write(data: string): void {
    if (!this._xterm) {
      this._pipe.messageReceived.emit({ type: 'stdout', content: [data] });
      return;
    }
    if (this._isBehind) {
      return; // what is left out is in the state, from which the view goes on once it has caught up
    }
    this._unparsed += data.length;
    this._isBehind = this._unparsed > MAX_UNPARSED_CHARS;
    writeInSlices(this._xterm, data, () => {
      this._unparsed -= data.length;
      if (this._isBehind && this._unparsed === 0) {
        this._replay();
      }
      this._follow();
    });
  }

  /** Keep the cursor in sight where the holder's screen is larger than this view, until its reader scrolls away. */
  private _follow(): void {
    if (this.hasClass('jp-mod-watching') && this._isFollowing && !this._isCursorShown) {
      const { node } = this.content;
      node.scrollTop = Math.max(0, this._cursorEnd - node.clientHeight);
    }
  }

  private get _isCursorShown(): boolean {
    const { scrollTop, clientHeight } = this.content.node;
    return this._cursorEnd <= scrollTop + clientHeight + 1 && this._cursorEnd > scrollTop;
  }

  /** Where the cursor's row ends, in pixels below the top of what is scrolled. */
  private get _cursorEnd(): number {
    const screen = this.content.node.querySelector<HTMLElement>('.xterm-screen');
    const { _xterm: term } = this;
    return screen && term ? screen.offsetTop + ((term.buffer.active.cursorY + 1) * screen.offsetHeight) / term.rows : 0;
  }

  /** The view's own size for the holder, the holder's size for everyone else. */
  private _fit(): void {
    const state = this.state;
    const isMine = this._holder?.role === 'self' && !(state && hasExited(state));
    this.content.setOption('autoFit', isMine);
    this.toggleClass('jp-mod-watching', !isMine);
    if (!isMine && this._xterm && state?.cols && state.rows) {
      if (state.cols !== this._xterm.cols || state.rows !== this._xterm.rows) {
        this._xterm.resize(state.cols, state.rows);
      }
    }
  }

  private _update(): void {
    const state = this.state;
    if (this.isDisposed) {
      return;
    }
    if (state) {
      this._fit();
      const details = detailsOf(state);
      const end = endText(state);
      const folder = state.cwd ? folderText(state.cwd) : '';
      const caption = [state.title, folder, details?.shell, `held by ${this._holder?.text}`, end].filter(Boolean).join('\n');
      this._setTitle(end ? `${state.title} (ended)` : state.title, caption);
    }
    // A line that comes and goes at every start would change the terminal's size twice.
    const blocked = this._isConnecting ? '' : this._blocked;
    const holder = this._holder;
    const isWatched = !blocked && holder !== null && holder.role !== 'self';
    const held = isWatched
      ? holder.role === 'kernel'
        ? `In use by ${holder.text}. Type here to take it over; the notebook takes it back when it needs it.`
        : `Held by ${holder.text}. You are watching.`
      : '';
    this._strip.tell(this._notice || blocked || held, isWatched && holder.role !== 'session');
    this.toggleClass('jp-mod-inactive', blocked !== '');
    this.toggleClass('jp-mod-offline', this._subscription?.status === 'disconnected');
  }

  private _setTitle(label: string, caption: string): void {
    const { title, node } = this.content;
    title.label = label;
    title.caption = caption;
    node.setAttribute('aria-label', `Terminal ${label}`);
  }

  private readonly _pipe: Pipe;
  private readonly _strip: Strip;
  private _subscription: Subscription<TerminalState> | null = null;
  private _xterm: Xterm | null = null;
  private _replaying = 0;
  private _unparsed = 0;
  private _isBehind = false;
  private _isFollowing = true;
  private _typedAt = 0;
  private _notice = '';
  private _noticeTimer: ReturnType<typeof setTimeout> | undefined;
}

const TYPING_EVENTS = ['keydown', 'keypress', 'paste', 'input', 'compositionend'];

export namespace TerminalView {
  export interface IOptions {
    readonly uri: string;
    readonly connection: ClientConnection;
    readonly serverSettings: ServerConnection.ISettings;
    readonly terminalOptions: Partial<ITerminal.IOptions>;
    /** Create the terminal, with the size that its view turns out to have. */
    readonly creation?: Pick<CreateTerminalParams, 'name' | 'cwd' | '_meta'>;
  }

  /** The widget id of a terminal's view. */
  export function idOf(uri: string): string {
    return `jupyter-ahp-terminal-${encodeURIComponent(uri)}`;
  }
}
