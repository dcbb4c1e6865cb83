/**
 * The commands of one run with their output: live from a subscription, or as a notebook has kept them. The look is the same.
 *
 * It draws what a `Screen` has resolved, never more than its first and last lines, and no more often than the page can take.
 * All text goes through `textContent`; addresses and colours are checked here too, as a saved notebook may come from anybody.
 */
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { durationText } from './describe';
import type {
  CommandBundle,
  SavedCommand,
  SavedOutput,
  StyledText,
  TerminalCommandPart,
  TerminalState,
  TextStyle
} from './protocol.generated';
import { Screen } from './screen';
import { formatCount, leftOut, LINK } from './styledLines';
import type { IChange, ISubscription } from './subscription';

const FRAME_INTERVAL_MS = 50;
const MAX_WAITING_CHARS = 1 << 18; // a hidden page draws no frames: then it is resolved without one
const FOLD_ABOVE_LINES = 50;
const FOLDED_HEAD = 10;
const FOLDED_TAIL = 20;
const MAX_COLORS = 16;

// Those whose number is the same on Linux and macOS.
const SIGNALS: Readonly<Record<number, string>> = {
  1: 'HUP',
  2: 'INT',
  3: 'QUIT',
  4: 'ILL',
  5: 'TRAP',
  6: 'ABRT',
  8: 'FPE',
  9: 'KILL',
  11: 'SEGV',
  13: 'PIPE',
  14: 'ALRM',
  15: 'TERM'
};

const ENDS: Readonly<Record<string, string>> = {
  timeout: 'timed out',
  interrupted: 'interrupted',
  killed: 'killed',
  lost: 'connection lost'
};

/** What is known of a command's end. */
type IOutcome = Pick<SavedCommand, 'isComplete' | 'exitCode' | 'durationMs' | 'end'>;

/** How a command ended: `exit 0 · 1.2 s`, `timed out · exit 137 (KILL) · 3.0 s`, `running…`. */
export function outcomeText({ isComplete, exitCode, durationMs, end }: IOutcome): string {
  const words: string[] = [];
  if (end) {
    words.push(ENDS[end] ?? end);
  } else if (!isComplete) {
    return 'running…';
  }
  if (exitCode !== undefined && exitCode !== null) {
    const signal = SIGNALS[exitCode - 128];
    words.push(`exit ${exitCode}${signal ? ` (${signal})` : ''}`);
  } else if (!end) {
    words.push('exit unknown');
  }
  if (durationMs !== undefined && durationMs !== null) {
    words.push(durationText(durationMs));
  }
  return words.join(' · ');
}

type Condition = 'running' | 'ok' | 'failed' | 'unknown';

function conditionOf({ isComplete, exitCode, end }: IOutcome): Condition {
  if (end) {
    return end === 'lost' ? 'unknown' : 'failed';
  }
  if (!isComplete) {
    return 'running';
  }
  return exitCode === undefined || exitCode === null ? 'unknown' : exitCode === 0 ? 'ok' : 'failed';
}

// --- styled text -----------------------------------------------------------------------------------------------------------

function element<K extends keyof HTMLElementTagNameMap>(tag: K, name: string, text = ''): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  node.className = name ? `jp-AhpCommand-${name}` : '';
  node.textContent = text;
  return node;
}

/** Give a node a colour of the theme, as a class, or one of its own. */
function paint(node: HTMLElement, property: 'color' | 'backgroundColor', color: string | undefined): boolean {
  if (color === undefined) {
    return false;
  }
  if (/^\d{1,2}$/.test(color) && Number(color) < MAX_COLORS) {
    node.classList.add(`jp-AhpCommand-${property === 'color' ? 'fg' : 'bg'}${Number(color)}`);
    return true;
  }
  if (/^#[0-9a-f]{6}$/i.test(color)) {
    node.style[property] = color;
    return true;
  }
  return false;
}

function readableOn(background: string): string {
  const [red, green, blue] = [1, 3, 5].map(start => parseInt(background.slice(start, start + 2), 16));
  return 299 * red + 587 * green + 114 * blue > 140_000 ? '#000000' : '#ffffff';
}

const FLAGS: readonly (keyof TextStyle)[] = ['bold', 'dim', 'italic', 'underline', 'blink', 'hidden', 'strike'];

/** One run of text in its style. */
export function renderRun({ text, style }: StyledText): Node {
  if (!style) {
    return document.createTextNode(text);
  }
  const isLink = typeof style.href === 'string' && LINK.test(style.href);
  const node = document.createElement(isLink ? 'a' : 'span');
  node.textContent = text;
  if (node instanceof HTMLAnchorElement) {
    node.href = style.href!;
    node.target = '_blank';
    node.rel = 'noopener noreferrer';
  }
  for (const flag of FLAGS) {
    if (style[flag]) {
      node.classList.add(`jp-AhpCommand-${flag}`);
    }
  }
  const [fg, bg] = style.inverse ? [style.bg, style.fg] : [style.fg, style.bg];
  const isFilled = paint(node, 'backgroundColor', bg);
  const isColored = paint(node, 'color', fg);
  if (isFilled) {
    node.classList.add('jp-AhpCommand-filled');
    if (!isColored && bg!.startsWith('#')) {
      node.style.color = readableOn(bg!);
    }
  } else if (style.inverse) {
    node.classList.add('jp-AhpCommand-inverse');
  }
  return node;
}

type Row = readonly StyledText[] | string;

function outputLines({ head, tail, omittedLines }: SavedOutput): number {
  return head.length + omittedLines + tail.length;
}

/** The rows to draw: all, or when folded the first and the last. Texts stand for what is not there. */
export function visibleRows({ head, tail, omittedLines, omittedBytes }: SavedOutput, isFolded: boolean): Row[] {
  const gap = omittedLines > 0 ? [leftOut(omittedLines, omittedBytes)] : [];
  if (!isFolded || head.length + tail.length <= FOLDED_HEAD + FOLDED_TAIL) {
    return [...head, ...gap, ...tail];
  }
  const kept = [...head, ...tail];
  const folded = kept.length - FOLDED_HEAD - FOLDED_TAIL;
  return [
    ...kept.slice(0, FOLDED_HEAD),
    `… ${formatCount(folded)} ${folded === 1 ? 'line' : 'lines'} folded …`,
    ...gap,
    ...kept.slice(-FOLDED_TAIL)
  ];
}

function plainText({ head, tail, omittedLines, omittedBytes }: SavedOutput): string {
  return visibleRows({ head, tail, omittedLines, omittedBytes }, false)
    .map(row => (typeof row === 'string' ? row : row.map(({ text }) => text).join('')) + '\n')
    .join('');
}

/** Draws rows, and of rows that it has drawn already only what has changed. */
class RowsView {
  constructor(private readonly _node: HTMLElement) {}

  update(rows: readonly Row[]): void {
    const nodes = new Map<Row, HTMLElement>();
    let place = this._node.firstChild;
    for (const row of rows) {
      const node = (!nodes.has(row) && this._nodes.get(row)) || this._render(row);
      nodes.set(row, node);
      while (place && place !== node && !this._isWanted(place, rows)) {
        const gone = place;
        place = place.nextSibling;
        gone.remove();
      }
      if (place === node) {
        place = place.nextSibling;
      } else {
        this._node.insertBefore(node, place);
      }
    }
    while (place) {
      const gone: ChildNode = place;
      place = place.nextSibling;
      gone.remove();
    }
    this._nodes = nodes;
    this._wanted = null;
  }

  private _isWanted(node: ChildNode, rows: readonly Row[]): boolean {
    this._wanted ??= new Set(rows.map(row => this._nodes.get(row)));
    return this._wanted.has(node as HTMLElement);
  }

  private _render(row: Row): HTMLElement {
    if (typeof row === 'string') {
      return element('span', 'leftOut', `${row}\n`);
    }
    const node = element('span', 'row');
    node.append(...row.map(renderRun), '\n');
    return node;
  }

  private _nodes = new Map<Row, HTMLElement>();
  private _wanted: Set<HTMLElement | undefined> | null = null;
}

// --- one command -----------------------------------------------------------------------------------------------------------

interface ICommand extends Omit<SavedCommand, 'commandId'> {
  /** Whether somebody would tell if it went on. */
  readonly isLive: boolean;
}

interface IPartHooks {
  readonly onInterrupt?: () => void;
  readonly onFold: (commandId: string, isFolded: boolean) => void;
  readonly announce: (text: string) => void;
}

/** One command: its line, how it ended, its output. */
class PartView {
  constructor(
    readonly commandId: string,
    private readonly _hooks: IPartHooks
  ) {
    this._output.id = `jp-AhpCommand-output-${++PartView._count}`;
    this._fold = this._button('fold', '', () => this.setFolded(!this._isFolded, true));
    this._fold.setAttribute('aria-controls', this._output.id);
    this._interrupt = this._button('interrupt', 'Interrupt', () => this._hooks.onInterrupt?.());
    this._copyCommand = this._button('copyCommand', 'Copy command', () => void this._copy(this._command?.commandLine ?? ''));
    this._copyOutput = this._button('copyOutput', 'Copy output', () => {
      void this._copy(this._command ? plainText(this._command.output) : '');
    });
    this.node.setAttribute('role', 'region');
    const header = element('div', 'header');
    const buttons = element('span', 'buttons');
    buttons.append(this._copyCommand, this._copyOutput);
    const end = element('span', 'end');
    end.append(buttons, this._interrupt, this._outcome);
    const line = element('span', 'lineAndMark');
    const mark = element('span', 'prompt', '$ ');
    mark.setAttribute('aria-hidden', 'true');
    line.append(mark, this._line);
    header.append(this._fold, line, end);
    this.node.append(header, this._output);
    this._rows = new RowsView(this._output);
  }

  readonly node = element('section', 'part');

  get isRunning(): boolean {
    return this._command !== null && this._command.isLive && !this._command.isComplete && !this._command.end;
  }

  update(command: ICommand, notice: string): void {
    const wasRunning = this.isRunning;
    this._command = command;
    this._line.textContent = command.commandLine;
    this.node.setAttribute('aria-label', `Command ${command.commandLine}`);
    const isLost = !command.isComplete && !command.end && !command.isLive && notice !== '';
    this.node.dataset.condition = isLost ? 'unknown' : conditionOf(command);
    this.node.classList.toggle('jp-mod-live', this.isRunning);
    this._outcome.textContent = isLost ? 'no longer connected' : outcomeText(command);
    this._interrupt.hidden = !this.isRunning || this._hooks.onInterrupt === undefined;
    this.tick();
    this._draw();
    if (wasRunning && command.isComplete) {
      const lines = outputLines(command.output);
      const count = `${formatCount(lines)} ${lines === 1 ? 'line' : 'lines'}`;
      this._hooks.announce(`${command.commandLine}: finished, ${count}, ${outcomeText(command)}`);
    }
  }

  /** Say for how long it has run. */
  tick(): void {
    if (this.isRunning && this._command!.timestamp > 0) {
      const elapsed_s = Math.max(0, Math.floor((Date.now() - this._command!.timestamp) / 1000));
      this._outcome.textContent = elapsed_s < 1 ? 'running…' : `running… ${durationText(elapsed_s * 1000).replace('.0 s', ' s')}`;
    }
  }

  /** Fold or unfold it; `byHand` is remembered. */
  setFolded(isFolded: boolean, byHand: boolean): void {
    this._isFolded = isFolded;
    this._wasFoldedByHand ||= byHand;
    if (this._command) {
      this._draw();
    }
    if (byHand) {
      this._hooks.onFold(this.commandId, isFolded);
    }
  }

  /** Fold it because it is long, unless somebody has chosen. */
  foldAbove(lines: number): void {
    if (!this._wasFoldedByHand && !this._isFolded && this._command && outputLines(this._command.output) > lines) {
      this.setFolded(true, false);
    }
  }

  private _draw(): void {
    const { output } = this._command!;
    const isFoldable = output.head.length + output.tail.length > FOLDED_HEAD + FOLDED_TAIL;
    this._fold.hidden = !isFoldable;
    this._fold.textContent = this._isFolded ? '▸' : '▾';
    this._fold.title = this._isFolded ? `Show all ${formatCount(output.head.length + output.tail.length)} lines` : 'Fold the output';
    this._fold.setAttribute('aria-label', this._fold.title);
    this._fold.setAttribute('aria-expanded', String(!this._isFolded));
    this._output.hidden = outputLines(output) === 0;
    this._copyOutput.hidden = this._output.hidden;
    this._rows.update(visibleRows(output, this._isFolded));
  }

  private _button(name: string, label: string, onClick: () => void): HTMLButtonElement {
    const button = element('button', name, label);
    button.type = 'button';
    button.classList.add('jp-AhpCommand-button');
    button.addEventListener('click', onClick);
    return button;
  }

  private async _copy(text: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      this._hooks.announce('Copied');
    } catch {
      this._hooks.announce('The browser did not let it be copied');
    }
  }

  private _command: ICommand | null = null;
  private _isFolded = false;
  private _wasFoldedByHand = false;
  private readonly _rows: RowsView;
  private readonly _line = element('code', 'line');
  private readonly _outcome = element('span', 'outcome');
  private readonly _output = element('pre', 'output');
  private readonly _fold: HTMLButtonElement;
  private readonly _interrupt: HTMLButtonElement;
  private readonly _copyCommand: HTMLButtonElement;
  private readonly _copyOutput: HTMLButtonElement;

  private static _count = 0;
}

/** A running command's output on its way into lines. */
class LiveOutput {
  constructor(cols: number | undefined, rows: number | undefined) {
    this._screen = new Screen({ cols, rows });
  }

  append(data: string): void {
    this._waiting += data;
    if (this._waiting.length > MAX_WAITING_CHARS) {
      this._resolve();
    }
  }

  resize(cols: number, rows: number): void {
    this._resolve();
    this._screen.resize(cols, rows);
  }

  /** What is to be shown: of a full-screen program its screen. */
  output(): SavedOutput {
    this._resolve();
    return this._screen.alternateOutput() ?? this._screen.savedOutput();
  }

  private _resolve(): void {
    this._screen.feed(this._waiting);
    this._waiting = '';
  }

  private readonly _screen: Screen;
  private _waiting = '';
}

// --- all commands of a run -------------------------------------------------------------------------------------------------

export interface ICommandViewOptions {
  /** Where the commands come from while they run. */
  readonly subscription?: ISubscription<TerminalState>;
  /** The commands as they were kept. */
  readonly bundle?: CommandBundle;
  /** Interrupts what runs; without it there is no button. */
  readonly onInterrupt?: () => void;
  /** Which commands are folded, by id; the others by their length. */
  readonly folded?: Readonly<Record<string, boolean>>;
  /** Is told when somebody folds or unfolds a command. */
  readonly onFold?: (folded: Readonly<Record<string, boolean>>) => void;
  /** Longer outputs are folded at first. */
  readonly foldAboveLines?: number;
}

/** The commands of one run. */
export class CommandView extends Widget {
  constructor(private readonly _options: ICommandViewOptions) {
    super();
    this.addClass('jp-AhpCommand');
    this._notice.hidden = true;
    this._notice.setAttribute('role', 'status');
    this._announcer.setAttribute('aria-live', 'polite');
    this.node.append(this._parts, this._notice, this._announcer);
    this._folded = { ...this._options.folded };
    const { subscription, bundle } = this._options;
    if (bundle) {
      this.setBundle(bundle);
    }
    if (subscription) {
      subscription.changed.connect(this._onChanged, this);
      subscription.statusChanged.connect(this._schedule, this);
      this._takeState();
      this._update();
    }
  }

  /** Show other kept commands in place of those shown; what is the same is not drawn again. */
  setBundle(bundle: CommandBundle): void {
    const commands = bundle.commands.map(command => ({ ...command, isLive: false }));
    this._show(commands, '');
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._options.subscription?.changed.disconnect(this._onChanged, this);
    this._options.subscription?.statusChanged.disconnect(this._schedule, this);
    clearTimeout(this._timer);
    cancelAnimationFrame(this._frame);
    clearInterval(this._clock);
    super.dispose();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._runClock();
  }

  protected onBeforeDetach(message: Message): void {
    clearInterval(this._clock);
    this._clock = undefined;
    super.onBeforeDetach(message);
  }

  // --- live ---

  private _onChanged(_: unknown, { state, action, isSnapshot }: IChange<TerminalState>): void {
    if (isSnapshot || action === null || state === null) {
      this._takeState();
    } else if (action.type === 'terminal/data') {
      const last = state.content[state.content.length - 1];
      if (last?.type === 'command' && !last.isComplete) {
        this._outputOf(last).append(action.data);
        this._outputs.get(last.commandId)!.text = last.output;
      }
    } else if (action.type === 'terminal/resized') {
      this._outputs.forEach(({ live }) => live.resize(action.cols, action.rows));
    }
    this._schedule();
  }

  /** A state that nothing relates to the one before: go on where it does, begin anew where it does not. */
  private _takeState(): void {
    for (const part of this._commandParts()) {
      const known = this._outputs.get(part.commandId);
      if (known?.text === part.output) {
        continue;
      }
      if (known && part.output.startsWith(known.text)) {
        known.live.append(part.output.slice(known.text.length));
        known.text = part.output;
      } else {
        this._outputs.delete(part.commandId);
        this._outputOf(part).append(part.output);
        this._outputs.get(part.commandId)!.text = part.output;
      }
    }
  }

  private _commandParts(): TerminalCommandPart[] {
    const content = this._options.subscription?.state?.content ?? [];
    return content.filter((part): part is TerminalCommandPart => part.type === 'command');
  }

  private _outputOf({ commandId }: TerminalCommandPart): LiveOutput {
    let known = this._outputs.get(commandId);
    if (!known) {
      const state = this._options.subscription?.state;
      known = { live: new LiveOutput(state?.cols ?? undefined, state?.rows ?? undefined), text: '' };
      this._outputs.set(commandId, known);
    }
    return known.live;
  }

  /** Draw at the page's next frame, and not too soon after the last. */
  private _schedule(): void {
    if (this._timer === undefined) {
      const pause = Math.max(0, this._drawnAt + FRAME_INTERVAL_MS - performance.now());
      this._timer = setTimeout(() => {
        this._frame = requestAnimationFrame(() => {
          this._timer = undefined;
          this._update();
        });
      }, pause);
    }
  }

  private _update(): void {
    const subscription = this._options.subscription!;
    const isLive = subscription.status !== 'gone';
    const parts = this._commandParts();
    const commands = parts.map(part => ({ ...part, output: this._outputOf(part).output(), isLive }));
    this._show(commands, this._noticeText(parts));
    this._drawnAt = performance.now();
  }

  private _noticeText(parts: readonly TerminalCommandPart[]): string {
    const { status, reason, omitted } = this._options.subscription!;
    const isOver = parts.length > 0 && parts.every(part => part.isComplete);
    if (status === 'gone' && !isOver) {
      return reason || 'No longer connected.';
    }
    if (status === 'disconnected' && !isOver) {
      return reason || 'Not connected; it is being tried again.';
    }
    if (parts.length === 0) {
      return 'Starting…';
    }
    return omitted > 0 ? `The first ${formatCount(omitted)} characters of the output are not shown while it runs.` : '';
  }

  // --- both ---

  private _show(commands: readonly (ICommand & { commandId: string })[], notice: string): void {
    const views = new Map<string, PartView>();
    commands.forEach((command, index) => {
      const view = this._views.get(command.commandId) ?? this._newPart(command.commandId);
      views.set(command.commandId, view);
      view.update(command, notice);
      view.foldAbove(this._options.foldAboveLines ?? FOLD_ABOVE_LINES);
      if (this._parts.children[index] !== view.node) {
        this._parts.insertBefore(view.node, this._parts.children[index] ?? null);
      }
    });
    this._views.forEach((view, id) => {
      if (views.get(id) !== view) {
        view.node.remove();
      }
    });
    this._views = views;
    this._notice.textContent = notice;
    this._notice.hidden = notice === '';
    this._runClock();
  }

  private _newPart(commandId: string): PartView {
    const view = new PartView(commandId, {
      onInterrupt: this._options.onInterrupt,
      onFold: (id, isFolded) => {
        this._folded = { ...this._folded, [id]: isFolded };
        this._options.onFold?.(this._folded);
      },
      announce: text => {
        this._announcer.textContent = text;
      }
    });
    const isFolded = this._folded[commandId];
    if (isFolded !== undefined) {
      view.setFolded(isFolded, true);
    }
    return view;
  }

  /** Count seconds while anything runs and somebody may look. */
  private _runClock(): void {
    const runs = this.isAttached && [...this._views.values()].some(view => view.isRunning);
    if (runs && this._clock === undefined) {
      this._clock = setInterval(() => this._views.forEach(view => view.tick()), 1000);
    } else if (!runs) {
      clearInterval(this._clock);
      this._clock = undefined;
    }
  }

  private readonly _parts = element('div', 'parts');
  private readonly _notice = element('div', 'notice');
  private readonly _announcer = element('div', 'announcer');
  private readonly _outputs = new Map<string, { live: LiveOutput; text: string }>();
  private _views = new Map<string, PartView>();
  private _folded: Readonly<Record<string, boolean>>;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _clock: ReturnType<typeof setInterval> | undefined;
  private _frame = 0;
  private _drawnAt = -Infinity;
}
