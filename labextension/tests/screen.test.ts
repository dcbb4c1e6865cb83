import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Unicode11Addon } from '@xterm/addon-unicode11';
import { Terminal } from '@xterm/headless';
import type { SavedOutput } from '../src/protocol.generated';
import { type IScreenOptions, Screen } from '../src/screen';
import { formatBytes, leftOut, LINK } from '../src/styledLines';

const FIXTURES = join(__dirname, '../../tests/fixtures/vt');

interface ICase {
  description: string;
  cols: number;
  rows: number;
  options?: IScreenOptions;
  chunks: string[];
  expected: SavedOutput;
  text: string;
}

const cases = readdirSync(FIXTURES).map(
  name => [name, JSON.parse(readFileSync(join(FIXTURES, name), 'utf-8')) as ICase] as const
);

function resolved({ cols, rows, options }: Pick<ICase, 'cols' | 'rows' | 'options'>, chunks: Iterable<string>): Screen {
  const screen = new Screen({ cols, rows, ...options });
  for (const chunk of chunks) {
    screen.feed(chunk);
  }
  return screen;
}

for (const [name, fixture] of cases) {
  test(`fixture ${name}: ${fixture.description}`, () => {
    const screen = resolved(fixture, fixture.chunks);
    assert.equal(screen.text(), fixture.text);
    assert.deepEqual(screen.savedOutput(), fixture.expected);
  });

  test(`fixture ${name}: the same at once, and in single UTF-16 units`, () => {
    const all = fixture.chunks.join('');
    assert.equal(resolved(fixture, [all]).text(), fixture.text);
    assert.deepEqual(resolved(fixture, all.split('')).savedOutput(), fixture.expected);
  });
}

// --- compared with xterm.js ------------------------------------------------------------------------------------------------

/** Where we mean to differ from xterm.js, and why. */
const DIFFERENCES: Readonly<Record<string, string>> = {
  '029': 'zero-width characters at the start of a line are kept',
  '037': 'a row erased in part keeps its width where the line goes on',
  '083': 'wrapping in the last row, below a scroll region, makes it no continuation of the row above'
};

async function textOfXterm({ cols, rows, options, chunks }: ICase): Promise<string> {
  const terminal = new Terminal({
    cols,
    rows,
    scrollback: 10_000,
    allowProposedApi: true,
    convertEol: options?.convertEol ?? false,
    logLevel: 'off'
  });
  terminal.loadAddon(new Unicode11Addon() as unknown as Parameters<Terminal['loadAddon']>[0]);
  terminal.unicode.activeVersion = '11';
  for (const chunk of chunks) {
    await new Promise<void>(done => terminal.write(chunk, done));
  }
  const buffer = terminal.buffer.normal;
  const lines: string[] = [];
  for (let index = 0; index < buffer.length; index++) {
    const line = buffer.getLine(index)!;
    const goesOn = buffer.getLine(index + 1)?.isWrapped ?? false;
    // A wide character that found no room leaves an unwritten cell, which is no text.
    const text = line.translateToString(!goesOn || line.getCell(cols - 1)?.getChars() === '');
    if (line.isWrapped) {
      lines[lines.length - 1] += text;
    } else {
      lines.push(text);
    }
  }
  let last = lines.length - 1;
  while (last > 0 && lines[last] === '') {
    last--;
  }
  return lines.slice(0, last + 1).join('\n');
}

for (const [name, fixture] of cases.filter(([, { options }]) => Object.keys(options ?? {}).every(key => key === 'convertEol'))) {
  const difference = DIFFERENCES[name.slice(0, 3)];
  test(`xterm.js shows ${difference ? 'something else than' : 'the same as'} fixture ${name}`, async () => {
    const [shown, text] = [await textOfXterm(fixture), fixture.text.replace(/\n+$/, '')];
    if (difference) {
      assert.notEqual(shown, text, `no longer a difference: ${difference}`);
    } else {
      assert.equal(shown, text);
    }
  });
}

// --- the rest --------------------------------------------------------------------------------------------------------------

test('a final line is the same object each time, so that a view can keep what it has drawn', () => {
  const screen = new Screen({ rows: 2 });
  screen.feed('1\r\n2\r\n3\r\n4\r\n');
  const before = screen.savedOutput();
  screen.feed('5\r\n');
  const after = screen.savedOutput();
  assert.equal(after.head[0], before.head[0]);
  assert.equal(after.head[1], before.head[1]);
  assert.notEqual(after.head[3], before.head[3]);
});

test('the alternate screen can be shown while it is there', () => {
  const screen = new Screen({ cols: 10, rows: 3 });
  screen.feed('main\r\n\x1b[?1049h\x1b[H\x1b[31mpage');
  assert.deepEqual(screen.alternateOutput()?.head, [[{ text: 'page', style: { fg: '1' } }], [], []]);
  screen.feed('\x1b[?1049l');
  assert.equal(screen.alternateOutput(), null);
  assert.equal(screen.text(), 'main\n');
});

test('another size holds from the next character on', () => {
  const screen = new Screen({ cols: 8, rows: 4 });
  screen.feed('1\r\n2\r\n3\r\n4');
  screen.resize(4, 2);
  screen.feed('\r\nabcdef');
  assert.equal(screen.text(), '1\n2\n3\n4\nabcdef');
});

test('a line of two million characters and a hundred thousand lines stay small', () => {
  const long = new Screen();
  long.feed('x'.repeat(2_000_000) + '\r\n');
  assert.equal(long.savedOutput().omittedBytes, 1_990_000);
  const many = new Screen();
  many.feed('y\r\n'.repeat(100_000));
  const { head, tail, omittedLines } = many.savedOutput();
  assert.deepEqual([head.length, tail.length, omittedLines], [500, 500, 99_000]);
});

test('sizes read as people write them', () => {
  const texts = [0, 1, 999, 1000, 1250, 9_950, 999_500, 1_234_567, 5e12].map(formatBytes);
  assert.deepEqual(texts, ['0 bytes', '1 byte', '999 bytes', '1.0 kB', '1.3 kB', '10 kB', '1.0 MB', '1.2 MB', '5000 GB']);
  assert.equal(leftOut(99_000, 1_200_000), '… 99,000 lines (1.2 MB) left out …');
});

test('only addresses of the web and of mail are links', () => {
  assert.ok(['http://a', 'HTTPS://a.b/?c#d', 'mailto:a@b.c'].every(address => LINK.test(address)));
  assert.ok(!['javascript:alert(1)', 'https://a b', 'https://a\n', 'file:///x', ''].some(address => LINK.test(address)));
});
