import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { RootState, StateAction, TerminalContentPart, TerminalState } from '../src/protocol.generated';
import { exitCode, hasExited, partText, rootReducer, terminalReducer, trimContent } from '../src/reducers';
import { terminalState } from './fakeHost';

const FIXTURES = join(__dirname, '../../tests/fixtures/ahp');
const X_FIXTURES = join(__dirname, '../../tests/fixtures/reducers');

interface ICase {
  description: string;
  reducer: 'root' | 'terminal';
  initial: unknown;
  actions: StateAction[];
  expected: unknown;
}

function read<T>(folder: string): [string, T][] {
  return readdirSync(folder)
    .filter(name => name.endsWith('.json'))
    .map(name => [name, JSON.parse(readFileSync(join(folder, name), 'utf-8')) as T]);
}

/** The fixtures count null and absent as the same. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(withoutNulls);
  }
  if (value && typeof value === 'object') {
    const members = Object.entries(value).filter(([, member]) => member !== null && member !== undefined);
    return Object.fromEntries(members.map(([key, member]) => [key, withoutNulls(member)]));
  }
  return value;
}

for (const [name, { description, reducer, initial, actions, expected }] of [
  ...read<ICase>(join(FIXTURES, 'reducers')),
  ...read<ICase>(X_FIXTURES)
]) {
  test(`fixture ${name}: ${description}`, () => {
    const reduce = (reducer === 'root' ? rootReducer : terminalReducer) as (state: unknown, action: StateAction) => unknown;
    const frozen = JSON.stringify(initial);
    assert.deepEqual(withoutNulls(actions.reduce(reduce, initial)), withoutNulls(expected));
    assert.equal(JSON.stringify(initial), frozen, 'the initial state was changed');
  });
}

interface IRoundTrip {
  name: string;
  description: string;
  input: unknown;
  acceptableOutputs: unknown[];
  preservedOutput?: unknown;
}

for (const [name, { description, input, acceptableOutputs, preservedOutput }] of read<IRoundTrip>(
  join(FIXTURES, 'round_trips')
)) {
  test(`round trip ${name}: ${description}`, () => {
    assert.deepEqual(JSON.parse(JSON.stringify(input)), preservedOutput ?? acceptableOutputs[0]);
  });
}

test('an unknown action and one that finds no part return the same object', () => {
  const terminal: TerminalState = terminalState();
  const root: RootState = { agents: [] };
  assert.equal(terminalReducer(terminal, { type: 'terminal/someday' } as unknown as StateAction), terminal);
  assert.equal(terminalReducer(terminal, { type: 'terminal/commandFinished', commandId: 'c9' }), terminal);
  assert.equal(terminalReducer(terminal, { type: 'terminal/input', data: 'x' }), terminal);
  assert.equal(rootReducer(root, { type: 'terminal/input', data: 'x' }), root);
  assert.equal(rootReducer(root, { type: 'root/configChanged', config: {} }), root);
  assert.equal(
    rootReducer(root, {
      type: 'x-terminal/infoChanged',
      resource: 'ahp-terminal:/none',
      details: { shell: 'bash', login: false, pid: 1, tracking: 'yes' }
    }),
    root
  );
});

test('an exit is read in both forms of the wire', () => {
  const exited = terminalReducer(terminalState(), { type: 'terminal/exited', exitCode: 3 });
  assert.deepEqual([hasExited(exited), exitCode(exited)], [true, 3]);
  const bySignal = terminalReducer(terminalState(), { type: 'terminal/exited' });
  assert.deepEqual([hasExited(bySignal), exitCode(bySignal)], [true, undefined]);
  const { lifecycle, ...old } = terminalState();
  assert.equal(lifecycle?.status, 'running');
  assert.deepEqual([hasExited(old), exitCode(old)], [false, undefined]);
  const oldExited = terminalReducer(old, { type: 'terminal/exited', exitCode: 0 });
  assert.deepEqual([hasExited(oldExited), exitCode(oldExited)], [true, 0]);
});

const text = (value: string): TerminalContentPart => ({ type: 'unclassified', value });
const command = (output: string): TerminalContentPart => ({
  type: 'command',
  commandId: 'c1',
  commandLine: 'make',
  output,
  timestamp: 1,
  isComplete: false
});
const joined = (content: readonly TerminalContentPart[]) => content.map(partText).join('');

test('trimming leaves a content within its limits alone', () => {
  const content = [text('ab'), command('cd')];
  assert.equal(trimContent(content, 4, 2), content);
});

test('trimming drops whole parts, then cuts the first one at a line start', () => {
  const trimmed = trimContent([text('x'.repeat(90)), command('one\ntwo\n' + 'y'.repeat(75))], 100, 10);
  assert.equal(joined(trimmed), 'two\n' + 'y'.repeat(75));
  assert.equal(joined(trimContent([command('one\ntwo\n' + 'y'.repeat(95))], 100, 10)), 'y'.repeat(80));
  assert.equal(joined(trimContent([text('one\ntwo\n' + 'y'.repeat(70) + '\nlast\n')], 80, 10)), 'last\n');
});

test('trimming to a number of parts keeps the newest', () => {
  const content = ['a', 'b', 'c', 'd', 'e', 'f'].map(text);
  assert.equal(joined(trimContent(content, 100, 5)), 'cdef');
});

test('trimming cuts neither an escape sequence nor a character in two', () => {
  const escape = '\x1b[38;2;10;20;30m';
  assert.equal(joined(trimContent([text('x'.repeat(15) + escape + 'y'.repeat(70))], 100, 5)), 'y'.repeat(70));
  assert.equal(joined(trimContent([text('x'.repeat(20) + '😀' + 'y'.repeat(79))], 100, 5)), 'y'.repeat(79));
});
