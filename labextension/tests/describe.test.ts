import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationText, endText, folderText, holderOf, outcomeText } from '../src/describe';
import type { HolderInfo, TerminalClaim, TerminalState } from '../src/protocol.generated';
import { terminalState } from './fakeHost';

function held(claim: TerminalClaim, holder?: HolderInfo): TerminalState {
  const details = { shell: 'bash', login: false, pid: 1, tracking: 'yes', ...(holder && { holder }) };
  return terminalState({ claim, _meta: { 'x-terminal': details } });
}

test('the holder is told from this page, by name where the host gives one', () => {
  const other = { kind: 'client', clientId: 'other' } as const;
  const session = { kind: 'session', session: 'ahp-session:/s1' } as const;
  const of = (state: TerminalState) => Object.values(holderOf(state, 'page'));
  const own = { kind: 'client', clientId: 'page' } as const;
  assert.deepEqual(of(held(own, { title: 'JupyterLab', role: 'person' })), ['self', 'this page']);
  assert.deepEqual(of(held(other, { title: 'a notebook', role: 'kernel' })), ['kernel', 'a notebook']);
  assert.deepEqual(of(held(other, { title: 'VS Code', role: 'person' })), ['person', 'VS Code']);
  assert.deepEqual(of(terminalState({ claim: other })), ['person', 'another client']);
  assert.deepEqual(of(held(session)), ['session', 'agent session ahp-session:/s1']);
  assert.deepEqual(of(held(session, { title: 'fix the tests', role: 'session' })), ['session', 'fix the tests']);
  assert.equal(holderOf(held({ kind: 'robot' } as unknown as TerminalClaim), 'page').role, 'person');
});

test('folders are shown as paths, and what is no local folder as it is', () => {
  assert.equal(folderText('file:///my%20data/%C3%A9t%C3%A9'), '/my data/été');
  assert.equal(folderText('file://localhost/tmp'), '/tmp');
  assert.equal(folderText('file:///100%'), 'file:///100%');
  assert.equal(folderText('ssh://host/tmp'), 'ssh://host/tmp');
});

test('durations are readable at every length', () => {
  assert.deepEqual([12, 1_234, 83_000, 3_720_000].map(durationText), ['12 ms', '1.2 s', '1 min 23 s', '1 h 2 min']);
  assert.deepEqual([999.7, 59_960].map(durationText), ['1.0 s', '1 min 0 s']);
});

test('an unknown exit code is never a number', () => {
  assert.equal(outcomeText({ commandId: 'c1', exitCode: 2, durationMs: 1_500 }), 'exit 2 after 1.5 s');
  assert.equal(outcomeText({ commandId: 'c1', exitCode: 0 }), 'exit 0');
  assert.equal(outcomeText({ commandId: 'c1', durationMs: 5 }), 'ended, exit code unknown after 5 ms');
});

test('how a terminal ended', () => {
  assert.equal(endText(terminalState()), '');
  assert.equal(endText(terminalState({ lifecycle: { status: 'exited', exitCode: 0 } })), 'ended, code 0');
  assert.equal(endText(terminalState({ lifecycle: { status: 'exited' } })), 'ended without an exit code');
});
