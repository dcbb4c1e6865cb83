import { clipboard, until } from './dom';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { CommandView, type ICommandViewOptions, outcomeText, visibleRows } from '../src/commandView';
import type {
  CommandBundle,
  SavedCommand,
  SavedOutput,
  StateAction,
  StyledText,
  TerminalCommandPart,
  TerminalState
} from '../src/protocol.generated';
import { terminalReducer } from '../src/reducers';
import type { IChange, ISubscription, SubscriptionStatus } from '../src/subscription';

class FakeSubscription implements ISubscription<TerminalState> {
  readonly uri = 'ahp-terminal:/t';
  readonly changed = new Signal<this, IChange<TerminalState>>(this);
  readonly statusChanged = new Signal<this, SubscriptionStatus>(this);
  state: TerminalState | null = null;
  status: SubscriptionStatus = 'connecting';
  reason = '';
  omitted = 0;

  dispatch(): void {
    throw new Error('a view of commands sends nothing');
  }

  snapshot(...content: TerminalCommandPart[]): this {
    this.state = { title: 't', content, claim: { kind: 'client', clientId: 'k' }, lifecycle: { status: 'running' }, cols: 80, rows: 24 };
    this.changed.emit({ state: this.state, action: null, isSnapshot: true });
    return this.say('live');
  }

  act(...actions: StateAction[]): this {
    for (const action of actions) {
      this.state = terminalReducer(this.state!, action);
      this.changed.emit({ state: this.state, action, isSnapshot: false });
    }
    return this;
  }

  say(status: SubscriptionStatus, reason = ''): this {
    this.status = status;
    this.reason = reason;
    this.statusChanged.emit(status);
    return this;
  }
}

const data = (text: string): StateAction => ({ type: 'terminal/data', data: text });
const executed = (commandId: string, commandLine: string): StateAction => ({
  type: 'terminal/commandExecuted',
  commandId,
  commandLine,
  timestamp: Date.now()
});
const finished = (commandId: string, exitCode?: number, durationMs?: number): StateAction => ({
  type: 'terminal/commandFinished',
  commandId,
  exitCode,
  durationMs
});

const part = (members: Partial<TerminalCommandPart> = {}): TerminalCommandPart => ({
  type: 'command',
  commandId: 'c1',
  commandLine: 'echo hi',
  output: '',
  timestamp: Date.now(),
  isComplete: false,
  ...members
});

type Line = readonly StyledText[];
const lines = (...texts: string[]): Line[] => texts.map(text => (text ? [{ text }] : []));
const output = (head: readonly Line[], tail: readonly Line[] = [], omittedLines = 0, omittedBytes = 0): SavedOutput => ({
  head,
  tail,
  omittedLines,
  omittedBytes
});
const saved = (members: Partial<SavedCommand> = {}): SavedCommand => ({
  commandId: 'c1',
  commandLine: 'echo hi',
  output: output(lines('hi')),
  timestamp: 1,
  isComplete: true,
  exitCode: 0,
  durationMs: 12,
  ...members
});
const bundle = (...commands: SavedCommand[]): CommandBundle => ({ version: 1, terminal: 'ahp-terminal:/t', title: 't', commands });

let shown: CommandView[] = [];

function show(options: ICommandViewOptions): CommandView {
  const view = new CommandView(options);
  Widget.attach(view, document.body);
  shown.push(view);
  return view;
}

afterEach(() => {
  shown.forEach(view => view.dispose());
  shown = [];
  clipboard.length = 0;
});

const all = (view: Widget, name: string): HTMLElement[] => [...view.node.querySelectorAll<HTMLElement>(`.jp-AhpCommand-${name}`)];
const one = (view: Widget, name: string): HTMLElement => {
  const [node, ...others] = all(view, name);
  assert.ok(node && others.length === 0, `one ${name}, but there are ${others.length + (node ? 1 : 0)}`);
  return node;
};
const texts = (view: Widget, name: string): (string | null)[] => all(view, name).map(node => node.textContent);

// --- saved -----------------------------------------------------------------------------------------------------------------

interface IOutcomeCase {
  readonly command: Partial<SavedCommand>;
  readonly text: string;
}

const OUTCOMES = JSON.parse(
  readFileSync(join(__dirname, '../../tests/fixtures/display/outcomes.json'), 'utf-8')
) as IOutcomeCase[];

for (const { command, text } of OUTCOMES) {
  test(`an outcome reads "${text}"`, () => {
    assert.equal(outcomeText({ isComplete: true, ...command }), text);
  });
}

test('a saved command shows its line, output, exit code and duration, and no button that needs a kernel', () => {
  const view = show({ bundle: bundle(saved({ commandLine: 'for i in 1; do\n  echo hi\ndone' })) });
  assert.equal(one(view, 'line').textContent, 'for i in 1; do\n  echo hi\ndone');
  assert.equal(one(view, 'output').textContent, 'hi\n');
  assert.equal(one(view, 'outcome').textContent, 'exit 0 · 12 ms');
  assert.equal(one(view, 'part').dataset.condition, 'ok');
  assert.ok(one(view, 'interrupt').hidden);
  assert.ok(one(view, 'notice').hidden);
});

test('a command without output has no box for it', () => {
  const view = show({ bundle: bundle(saved({ output: output([]) })) });
  assert.ok(one(view, 'output').hidden);
  assert.ok(one(view, 'copyOutput').hidden);
});

test('output is text and never markup', () => {
  const hostile = '<img src=x onerror=alert(1)><script>alert(2)</script>';
  const view = show({ bundle: bundle(saved({ commandLine: hostile, output: output(lines(hostile)) })) });
  assert.equal(one(view, 'line').textContent, hostile);
  assert.equal(one(view, 'output').textContent, hostile + '\n');
  assert.equal(view.node.querySelectorAll('img, script').length, 0);
});

test('colours of the theme are classes, others are inline, and anything else is no colour', () => {
  const style = (text: string, members: StyledText['style']): StyledText => ({ text, style: members });
  const row = [
    style('theme', { fg: '1', bg: '4', bold: true }),
    style('own', { fg: '#010203' }),
    style('reversed', { inverse: true }),
    style('swapped', { inverse: true, fg: '2' }),
    style('bright', { bg: '#ffffff' }),
    style('hostile', { fg: 'url(x)', bg: '99' })
  ];
  const view = show({ bundle: bundle(saved({ output: output([row]) })) });
  const [theme, own, reversed, swapped, bright, hostile] = one(view, 'output').querySelectorAll<HTMLElement>('.jp-AhpCommand-row > *');
  assert.equal(theme.className, 'jp-AhpCommand-bold jp-AhpCommand-bg4 jp-AhpCommand-fg1 jp-AhpCommand-filled');
  assert.equal(own.style.color, 'rgb(1, 2, 3)');
  assert.equal(reversed.className, 'jp-AhpCommand-inverse');
  assert.equal(swapped.className, 'jp-AhpCommand-bg2 jp-AhpCommand-filled');
  assert.equal(bright.style.color, 'rgb(0, 0, 0)');
  assert.equal(hostile.className, '');
  assert.equal(hostile.getAttribute('style'), null);
});

test('a link of the web is a link; of another kind it is text, also where a file says otherwise', () => {
  const row = [
    { text: 'docs', style: { href: 'https://example.org/' } },
    { text: 'bad', style: { href: 'javascript:alert(1)' } }
  ];
  const view = show({ bundle: bundle(saved({ output: output([row]) })) });
  const links = one(view, 'output').querySelectorAll('a');
  assert.equal(links.length, 1);
  assert.equal(links[0].href, 'https://example.org/');
  assert.equal(links[0].rel, 'noopener noreferrer');
  assert.equal(one(view, 'output').textContent, 'docsbad\n');
});

test('what was left out is said between the first and the last lines', () => {
  const view = show({ bundle: bundle(saved({ output: output(lines('a'), lines('z'), 99_000, 1_200_000) })), foldAboveLines: 1e6 });
  assert.equal(one(view, 'output').textContent, 'a\n… 99,000 lines (1.2 MB) left out …\nz\n');
});

test('a long output is folded, can be unfolded, and who does so is told', () => {
  const told: Readonly<Record<string, boolean>>[] = [];
  const long = lines(...Array.from({ length: 100 }, (_, n) => `${n}`));
  const view = show({ bundle: bundle(saved({ output: output(long) })), onFold: folded => told.push(folded) });
  const fold = one(view, 'fold') as HTMLButtonElement;
  assert.equal(all(view, 'row').length, 30);
  assert.equal(one(view, 'leftOut').textContent, '… 70 lines folded …\n');
  assert.equal(fold.getAttribute('aria-expanded'), 'false');
  assert.equal(fold.title, 'Show all 100 lines');
  fold.click();
  assert.equal(all(view, 'row').length, 100);
  assert.equal(fold.getAttribute('aria-expanded'), 'true');
  assert.deepEqual(told, [{ c1: false }]);
});

test('a fold state that was kept is in force again', () => {
  const long = lines(...Array.from({ length: 100 }, (_, n) => `${n}`));
  const view = show({ bundle: bundle(saved({ output: output(long) })), folded: { c1: false } });
  assert.equal(all(view, 'row').length, 100);
});

test('folded rows are the first and the last, with the gap where it is', () => {
  const head = lines(...Array.from({ length: 40 }, (_, n) => `h${n}`));
  const tail = lines(...Array.from({ length: 40 }, (_, n) => `t${n}`));
  const rows = visibleRows(output(head, tail, 5, 10), true);
  assert.equal(rows.length, 32);
  assert.deepEqual(rows.slice(9, 13), [head[9], '… 50 lines folded …', '… 5 lines (10 bytes) left out …', tail[20]]);
});

test('another bundle in place of one draws only what is new', () => {
  const first = saved({ output: output(lines('a', 'b')) });
  const view = show({ bundle: bundle(first) });
  const [a] = all(view, 'row');
  view.setBundle(bundle({ ...first, output: output([...first.output.head, ...lines('c')]) }, saved({ commandId: 'c2' })));
  assert.equal(all(view, 'row')[0], a);
  assert.deepEqual(texts(view, 'output'), ['a\nb\nc\n', 'hi\n']);
  view.setBundle(bundle(saved({ commandId: 'c2' })));
  assert.deepEqual(texts(view, 'output'), ['hi\n']);
});

test('command and output are copied as text', async () => {
  const view = show({ bundle: bundle(saved({ output: output([[{ text: 'a', style: { fg: '1' } }, { text: 'b' }], []]) })) });
  one(view, 'copyCommand').click();
  one(view, 'copyOutput').click();
  await until(() => clipboard.length === 2, 'both texts on the clipboard');
  assert.deepEqual(clipboard, ['echo hi', 'ab\n\n']);
  await until(() => one(view, 'announcer').textContent === 'Copied', 'the word Copied');
});

test('each command is a labelled region', () => {
  const view = show({ bundle: bundle(saved()) });
  assert.equal(one(view, 'part').getAttribute('role'), 'region');
  assert.equal(one(view, 'part').getAttribute('aria-label'), 'Command echo hi');
});

// --- live ------------------------------------------------------------------------------------------------------------------

test('a command is shown from its start to its end', async () => {
  let interrupts = 0;
  const subscription = new FakeSubscription();
  const view = show({ subscription, onInterrupt: () => interrupts++ });
  assert.equal(one(view, 'notice').textContent, 'Starting…');
  subscription.snapshot();
  subscription.act(executed('c1', 'make'), data('Downloading... '));
  await until(() => texts(view, 'output')[0] === 'Downloading...\n', 'the words before the line end');
  assert.equal(one(view, 'part').dataset.condition, 'running');
  assert.ok(one(view, 'notice').hidden);
  const interrupt = one(view, 'interrupt');
  assert.ok(!interrupt.hidden);
  interrupt.click();
  assert.equal(interrupts, 1);
  assert.equal(one(view, 'announcer').textContent, '');
  subscription.act(data('done\r\n'), finished('c1', 2, 1200), data('$ '));
  await until(() => texts(view, 'outcome')[0] === 'exit 2 · 1.2 s', 'the outcome');
  assert.equal(one(view, 'output').textContent, 'Downloading... done\n');
  assert.equal(one(view, 'part').dataset.condition, 'failed');
  assert.ok(interrupt.hidden);
  assert.equal(one(view, 'announcer').textContent, 'make: finished, 1 line, exit 2 · 1.2 s');
});

test('a redrawn line moves and leaves one line', async () => {
  const subscription = new FakeSubscription();
  const view = show({ subscription });
  subscription.snapshot(part());
  for (let percent = 0; percent <= 100; percent++) {
    subscription.act(data(`\r${percent}%`));
  }
  await until(() => texts(view, 'output')[0] === '100%\n', 'the last state of the line');
  assert.equal(all(view, 'row').length, 1);
});

test('without a way to interrupt there is no button', async () => {
  const subscription = new FakeSubscription();
  const view = show({ subscription });
  subscription.snapshot(part());
  await until(() => all(view, 'part').length === 1, 'the command');
  assert.ok(one(view, 'interrupt').hidden);
});

test('it says for how long a command has run', async () => {
  const subscription = new FakeSubscription().snapshot(part({ timestamp: Date.now() - 65_000 }));
  const view = show({ subscription });
  assert.match(one(view, 'outcome').textContent!, /^running… 1 min \d s$/);
});

test('a snapshot that goes on from what is shown keeps it; another one replaces it', async () => {
  const subscription = new FakeSubscription().snapshot(part({ output: 'a\r\n'.repeat(30) }));
  const view = show({ subscription, foldAboveLines: 1e6 });
  const [first] = all(view, 'row');
  subscription.snapshot(part({ output: 'a\r\n'.repeat(30) + 'b\r\n' }));
  await until(() => all(view, 'row').length === 31, 'the new line');
  assert.equal(all(view, 'row')[0], first);
  subscription.omitted = 1234;
  subscription.snapshot(part({ output: 'y\r\n' }));
  await until(() => texts(view, 'output')[0] === 'y\n', 'the later output');
  assert.equal(one(view, 'notice').textContent, 'The first 1,234 characters of the output are not shown while it runs.');
});

test('a full-screen program is shown while it runs and leaves nothing', async () => {
  const subscription = new FakeSubscription();
  const view = show({ subscription });
  subscription.snapshot(part());
  subscription.act(data('before\r\n\x1b[?1049h\x1b[Hpage one'));
  await until(() => texts(view, 'output')[0]?.startsWith('page one\n') === true, 'the page');
  subscription.act(data('\x1b[?1049lafter\r\n'));
  await until(() => texts(view, 'output')[0] === 'before\nafter\n', 'the main screen');
});

test('a resized terminal wraps where its new size says', async () => {
  const subscription = new FakeSubscription();
  const view = show({ subscription });
  subscription.snapshot(part());
  subscription.act({ type: 'terminal/resized', cols: 10, rows: 4 }, data('0123456789ab\x1b[1AX\x1b[B\r\n'));
  await until(() => texts(view, 'output')[0] === '01X3456789ab\n', 'the line, written to in its first row');
});

test('a run that is no longer connected says so, and nothing in it looks as if it ran', async () => {
  const subscription = new FakeSubscription();
  const view = show({ subscription, onInterrupt: () => undefined });
  subscription.snapshot(part({ output: 'half' }));
  await until(() => all(view, 'part').length === 1, 'the command');
  subscription.say('disconnected', 'The connection was lost.');
  await until(() => one(view, 'notice').textContent === 'The connection was lost.', 'why it stands still');
  subscription.say('gone', 'No longer connected: the kernel has restarted.');
  await until(() => one(view, 'notice').textContent === 'No longer connected: the kernel has restarted.', 'the reason');
  assert.equal(one(view, 'outcome').textContent, 'no longer connected');
  assert.equal(one(view, 'part').dataset.condition, 'unknown');
  assert.ok(one(view, 'interrupt').hidden);
  assert.ok(!one(view, 'part').classList.contains('jp-mod-live'));
  assert.equal(one(view, 'output').textContent, 'half\n');
});

test('a finished run does not mind that its connection ends', async () => {
  const subscription = new FakeSubscription().snapshot(part({ isComplete: true, exitCode: 0 }));
  const view = show({ subscription });
  subscription.say('gone');
  assert.ok(one(view, 'notice').hidden);
  assert.equal(one(view, 'outcome').textContent, 'exit 0');
});

test('a flood keeps the page small and quick', async () => {
  const subscription = new FakeSubscription();
  const view = show({ subscription });
  subscription.snapshot(part());
  const block = 'spam and more spam\r\n'.repeat(3_000);
  const begun = performance.now();
  for (let n = 0; n < 50; n++) {
    subscription.act(data(block));
  }
  assert.ok(performance.now() - begun < 5_000);
  await until(() => all(view, 'row').length > 0, 'some lines');
  assert.ok(view.node.querySelectorAll('*').length < 100);
  subscription.act(data('end\r\n'), finished('c1', 0));
  await until(() => texts(view, 'outcome')[0] === 'exit 0', 'the end');
  assert.match(one(view, 'output').textContent!, /^spam[^]*149,[^]* left out[^]*end\n$/);
});

test('a disposed view draws nothing any more', async () => {
  const subscription = new FakeSubscription().snapshot(part());
  const view = show({ subscription });
  subscription.act(data('late'));
  view.dispose();
  subscription.act(data('later'));
  await new Promise(done => setTimeout(done, 100));
  assert.equal(texts(view, 'output')[0], '');
});
