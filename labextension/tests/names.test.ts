import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestRefused } from '../src/connection';
import { createUnderFreeName, nameOf, uriOf } from '../src/names';
import { ErrorCode } from '../src/protocol.generated';
import { rootState } from './fakeHost';

test("a name is its URI's path, percent-encoded", () => {
  assert.equal(uriOf('my data/été'), 'ahp-terminal:/my%20data%2F%C3%A9t%C3%A9');
  assert.equal(nameOf(uriOf('my data/été')), 'my data/été');
  assert.equal(nameOf('agenthost-terminal://e2e/1'), 'e2e/1');
  assert.equal(nameOf('ahp-terminal:/100%'), '100%');
});

test('a new terminal gets the first free name, and the next one where another page was quicker', async () => {
  const tried: string[] = [];
  const made = await createUnderFreeName(
    () => rootState(uriOf('terminal-1'), uriOf('terminal-3')).terminals ?? [],
    async (uri, { name }) => {
      tried.push(name ?? '');
      if (tried.length === 1) {
        throw new RequestRefused(ErrorCode.ALREADY_EXISTS, 'the terminal exists');
      }
      return uri;
    }
  );
  assert.deepEqual(tried, ['terminal-2', 'terminal-4']);
  assert.equal(made, 'ahp-terminal:/terminal-4');
});

test('another refusal of a new terminal is told', async () => {
  const refuse = async () => {
    throw new RequestRefused(ErrorCode.PERMISSION_DENIED, 'terminals are turned off');
  };
  await assert.rejects(createUnderFreeName(() => [], refuse), /turned off/);
});
