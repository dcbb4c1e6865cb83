/**
 * A terminal's text resolved into the lines that it leaves, with their styles, as xterm.js would finally show them. Each line on
 * the screen stays editable; a line that has scrolled off is final. The mirror of `jupyter_ext/core/screen.py`, proved by the
 * same fixtures.
 *
 * It is one piece because parser and grid share their state at every character.
 */
/* eslint-disable no-control-regex */
import type { SavedOutput, StyledText } from './protocol.generated';
import {
  KeptLines,
  type Line,
  LINK,
  LogicalLine,
  NULL,
  type Run,
  type Style,
  countChars,
  eraser,
  isAscii,
  leftOut,
  lineText,
  linked,
  savedLine,
  sgr,
  splitChars,
  toNumber
} from './styledLines';
import { WIDE_RANGES, ZERO_RANGES } from './widths.generated';

const AFTER_WIDE = ''; // the second cell of a wide character
const MAX_CLUSTER = 32;
const MAX_CSI = 256;
const MAX_OSC = 4096;

const PIECES = /[^\0-\x1f\x7f-\x9f]+|\r\n|[^]/g;
const FLOODABLE = /(?:[^\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+|\x1b\[[0-;]{0,256}m)*/y; // text, line ends, colours
const CSI = /\x1b\[([0-?]{0,256})([ -/]{0,8})([@-~])/y;
const CSI_BODY = /[ -?]*/y;
const CSI_PARTS = /^([<-?]?)([0-;]*)$/;
const ESCAPE_BODY = /[ -/]*/y;
const STRING_END = /[\x18\x1a\x1b\x80-\x9f]/g;
const OSC_END = /[\x07\x18\x1a\x1b\x80-\x9f]/g;
const LONE_SURROGATE = /\p{Surrogate}/gu;

function parseRanges(ranges: string): [first: number, last: number][] {
  return ranges.split(' ').map(range => {
    const [first, last] = range.split('-');
    return [parseInt(first, 16), parseInt(last ?? first, 16)];
  });
}

function regexClass(ranges: string): string {
  return parseRanges(ranges)
    .map(([first, last]) => `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`)
    .join('');
}

const ZERO_CLASS = regexClass(ZERO_RANGES);
const WIDE_CLASS = regexClass(WIDE_RANGES);
const WIDTH_RUNS = new RegExp(`([${ZERO_CLASS}]+)|([${WIDE_CLASS}]+)|[^${ZERO_CLASS}${WIDE_CLASS}]+`, 'gu');
const HAS_ZERO = new RegExp(`[${ZERO_CLASS}]`, 'u');
const HAS_WIDE = new RegExp(`[${WIDE_CLASS}]`, 'u');
const LINE_DRAWING = new Map(
  [...'`abcdefghijklmnopqrstuvwxyz{|}~'].map((char, index) => [char, '◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·'[index]])
);

/** What a sticky or global expression finds from a position on. */
function matchAt(expression: RegExp, text: string, position: number): RegExpExecArray | null {
  expression.lastIndex = position;
  return expression.exec(text);
}

function count(text: string, part: string): number {
  let found = 0;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) {
    found++;
  }
  return found;
}

function expandTabs(line: string): string {
  return line.replace(/[^\t]*\t/g, field => {
    const text = field.slice(0, -1);
    return text + ' '.repeat(8 - (countChars(text) % 8));
  });
}

function firstChars(text: string, count: number): string {
  return text.length <= count ? text : splitChars(text, count)[0];
}

/** One row of the grid. Cells beyond its end were never written to. */
class Row {
  chars: string[] = [];
  styles: Style[] = [];
  /** Whether it goes on the line of the row above. */
  wrapped = false;

  get isWideFirst(): boolean {
    return this.chars.length > 1 && this.chars[1] === AFTER_WIDE;
  }

  /** Its cells as runs of one style, without the unwritten ones at its end. */
  runs(): Run[] {
    const { chars, styles } = this;
    let end = chars.length;
    while (end > 0 && chars[end - 1] === NULL && styles[end - 1] === null) {
      end--;
    }
    const runs: Run[] = [];
    let start = 0;
    for (let index = 1; index <= end; index++) {
      if (index === end || styles[index] !== styles[start]) {
        runs.push([chars.slice(start, index).join(''), styles[start]]);
        start = index;
      }
    }
    return runs;
  }

  /** Empty the cells `[start, end)`; a wide character cut in half goes whole. */
  erase(start: number, end: number, cols: number, style: Style): void {
    if (end >= cols && style === null) {
      this.chars.length = this.styles.length = Math.min(this.chars.length, start);
    } else {
      this._pad(end);
      this.chars.fill(NULL, start, end);
      this.styles.fill(style, start, end);
    }
    this._mend(start);
    this._mend(end);
  }

  /** Overwrite the cells from x on. */
  write(x: number, cells: readonly string[], style: Style): void {
    this._pad(x);
    const end = x + cells.length;
    for (let index = 0; index < cells.length; index++) {
      this.chars[x + index] = cells[index];
      this.styles[x + index] = style;
    }
    if (end < this.chars.length || x > 0) {
      this._mend(x);
      this._mend(end);
    }
  }

  /** Move the cells from x on to the right; what leaves the row is lost. */
  insert(x: number, count: number, cols: number, style: Style): void {
    this._pad(x);
    this.chars.splice(x, 0, ...new Array<string>(count).fill(NULL));
    this.styles.splice(x, 0, ...new Array<Style>(count).fill(style));
    this.chars.length = this.styles.length = Math.min(this.chars.length, cols);
    [x, x + count, cols].forEach(boundary => this._mend(boundary));
  }

  /** Move the cells right of the `count` ones at x to the left. */
  delete(x: number, count: number, cols: number, style: Style): void {
    if (style !== null) {
      this._pad(cols);
      this.chars.push(...new Array<string>(count).fill(NULL));
      this.styles.push(...new Array<Style>(count).fill(style));
    }
    this.chars.splice(x, count);
    this.styles.splice(x, count);
    this._mend(x);
  }

  private _pad(length: number): void {
    while (this.chars.length < length) {
      this.chars.push(NULL);
      this.styles.push(null);
    }
  }

  /** Empty the half of a wide character whose other half, across the boundary before cell x, has gone. */
  private _mend(x: number): void {
    const { chars } = this;
    const rightIsHalf = x < chars.length && chars[x] === AFTER_WIDE;
    const leftIsWide = x > 0 && x <= chars.length && !isAscii(chars[x - 1]) && HAS_WIDE.test(chars[x - 1]);
    if (rightIsHalf && !leftIsWide) {
      chars[x] = NULL;
    } else if (leftIsWide && !rightIsHalf) {
      chars[x - 1] = NULL;
    }
  }
}

/** What DECSC keeps; y counts from the first line of all, as in xterm.js. */
interface ISavedCursor {
  x: number;
  y: number;
  pen: Style;
  charset: number;
  charsets: string[];
}

function homeCursor(): ISavedCursor {
  return { x: 0, y: 0, pen: null, charset: 0, charsets: ['B', 'B'] };
}

/** One of the two screens: its rows, cursor, scroll region and saved cursor. */
class Grid {
  constructor(rows: number) {
    this.rows = Array.from({ length: rows }, () => new Row());
    this.bottom = rows - 1;
  }

  /** Move the rows `[top, bottom]` up, or down where the count is negative, and let in empty ones. */
  shift(top: number, bottom: number, count: number, style: Style, cols: number): void {
    const size = Math.min(Math.abs(count), bottom - top + 1);
    const fresh = Array.from({ length: size }, () => new Row());
    fresh.forEach(row => row.erase(0, cols, cols, style));
    if (count > 0) {
      this.rows.splice(top, size);
      this.rows.splice(bottom + 1 - size, 0, ...fresh);
    } else {
      this.rows.splice(bottom + 1 - size, size);
      this.rows.splice(top, 0, ...fresh);
    }
    // What now follows another line than before goes on no line.
    for (const seam of count < 0 ? [top, top + size, bottom + 1] : [top, bottom + 1]) {
      if (seam < this.rows.length) {
        this.rows[seam].wrapped = false;
      }
    }
  }

  readonly rows: Row[];
  x = 0; // equal to the number of columns once the last one is written to: the next character wraps
  y = 0;
  top = 0;
  bottom: number;
  saved = homeCursor();
}

export interface IScreenOptions {
  readonly cols?: number;
  /** As many rows stay editable. */
  readonly rows?: number;
  readonly headLines?: number;
  readonly tailLines?: number;
  /** How many characters of one line are kept, the first half and the last half of it. */
  readonly lineChars?: number;
  /** About how much is kept in all, a surcharge for each line and each styled run included. */
  readonly maxBytes?: number;
  /** LF implies CR: for text that did not pass a tty. */
  readonly convertEol?: boolean;
}

/** Resolves VT text, in whatever chunks it comes. It never throws on any text. */
export class Screen {
  constructor(options: IScreenOptions = {}) {
    this._cols = Math.max(2, options.cols ?? 80);
    this._lineChars = Math.max(2, options.lineChars ?? 10_000);
    this._kept = new KeptLines(options.headLines ?? 500, options.tailLines ?? 500, options.maxBytes ?? 100_000);
    this._convertEol = options.convertEol ?? false;
    this._main = this._grid = new Grid(Math.max(1, options.rows ?? 24));
    this._resetModes();
  }

  // --- what it was resolved to ---

  /** The lines with their styles. A line that is final is the same object each time. */
  savedOutput(): SavedOutput {
    return this._saved(this._settled()[0]);
  }

  /** The lines as plain text, written blanks included; a final newline where the cursor ended on a fresh line. */
  text(): string {
    const [kept, isOnFreshLine] = this._settled();
    const lines = kept.head.map(lineText);
    if (kept.omittedLines > 0) {
      lines.push(leftOut(kept.omittedLines, kept.omittedBytes));
    }
    lines.push(...kept.tail.map(({ line }) => lineText(line)));
    return lines.join('\n') + (lines.length > 0 && isOnFreshLine ? '\n' : '');
  }

  /** The alternate screen's lines while it is shown; nothing of it will stay. */
  alternateOutput(): SavedOutput | null {
    if (!this._isAlternate) {
      return null;
    }
    const { rows } = this._grid;
    const kept = new KeptLines(rows.length, 0, Infinity);
    rows.forEach(row => kept.add(row.runs(), 0));
    return this._saved(kept);
  }

  private _saved({ head, tail, omittedLines, omittedBytes }: KeptLines): SavedOutput {
    const first = head.map(line => this._savedLine(line));
    const last = tail.map(({ line }) => this._savedLine(line));
    return omittedLines > 0
      ? { head: first, tail: last, omittedLines, omittedBytes }
      : { head: [...first, ...last], tail: [], omittedLines, omittedBytes };
  }

  private _savedLine(line: Line): readonly StyledText[] {
    let saved = this._savedLines.get(line);
    if (!saved) {
      this._savedLines.set(line, (saved = savedLine(line)));
    }
    return saved;
  }

  /** All lines of the main screen as if they were final; whether an empty one, which is left away, would follow. */
  private _settled(): [KeptLines, boolean] {
    const kept = this._kept.copy();
    let line = this._open?.copy() ?? null;
    const { rows, y } = this._main;
    let last = rows.length - 1;
    while (last > y && rows[last].runs().length === 0) {
      last--;
    }
    for (const row of rows.slice(0, last + 1)) {
      if (line && !row.wrapped) {
        kept.add(...line.finish());
        line = null;
      }
      line ??= new LogicalLine(this._lineChars);
      line.addRow(row.runs(), Math.max(0, this._cols - row.chars.length), row.isWideFirst);
    }
    if (!line || line.isBlank) {
      return [kept, true];
    }
    kept.add(...line.finish());
    return [kept, false];
  }

  // --- parser: each state takes what it can from a position on, and returns where it stopped ---

  /** Take in a chunk of VT text. */
  feed(text: string): void {
    text = this._halfPair + text;
    this._halfPair = '';
    const last = text.charCodeAt(text.length - 1);
    if (last >= 0xd800 && last <= 0xdbff) {
      this._halfPair = text.slice(-1);
      text = text.slice(0, -1);
    }
    text = isAscii(text) ? text : text.replace(LONE_SURROGATE, '\ufffd');
    this._parse(text);
  }

  private _parse(text: string): void {
    let position = 0;
    let floodEnd = 0;
    while (position < text.length) {
      if (position >= floodEnd && this._state === this._ground) {
        floodEnd = position + matchAt(FLOODABLE, text, position)![0].length;
        position = this._flood(text, position, floodEnd);
        if (position === text.length) {
          return;
        }
      }
      position = this._state(text, position);
    }
  }

  private _ground(text: string, position: number): number {
    const [piece] = matchAt(PIECES, text, position)!;
    if (piece === '\r\n') {
      this._control('\r');
      this._control('\n');
    } else if (piece === '\x1b') {
      const csi = matchAt(CSI, text, position);
      if (csi) {
        this._controlSequence(csi[1], csi[2], csi[3]);
        return position + csi[0].length;
      }
      this._control(piece);
    } else if (piece > '\x1f' && (piece < '\x7f' || piece >= '\xa0')) {
      this._print(piece);
    } else {
      this._control(piece);
    }
    return position + piece.length;
  }

  private _escape(text: string, position: number): number {
    const [body] = matchAt(ESCAPE_BODY, text, position)!;
    if (body) {
      this._sequence = (this._sequence + body).slice(0, 8);
      return position + body.length;
    }
    const char = text[position];
    if (this._sequence === '' && '[]PX^_'.includes(char)) {
      this._introduce(char);
    } else if (char >= '0' && char <= '~') {
      this._state = this._ground;
      this._escapeSequence(this._sequence, char);
    } else if (char < '\xa0') {
      this._control(char);
    } else {
      return this._abandon(text, position);
    }
    return position + 1;
  }

  private _csi(text: string, position: number): number {
    const [body] = matchAt(CSI_BODY, text, position)!;
    if (body) {
      this._sequence = (this._sequence + body).slice(0, MAX_CSI + 10);
      return position + body.length;
    }
    const char = text[position];
    if (char >= '@' && char <= '~') {
      this._state = this._ground;
      const csi = matchAt(CSI, `\x1b[${this._sequence}${char}`, 0);
      if (csi) {
        this._controlSequence(csi[1], csi[2], csi[3]);
      }
    } else if (char < '\xa0') {
      this._control(char);
    } else {
      return this._abandon(text, position);
    }
    return position + 1;
  }

  /** Give an unfinished sequence up; the character that broke it is lost, as in xterm.js. */
  private _abandon(text: string, position: number): number {
    this._state = this._ground;
    return position + (text.codePointAt(position)! > 0xffff ? 2 : 1);
  }

  private _string(text: string, position: number): number {
    const end = matchAt(this._isOsc ? OSC_END : STRING_END, text, position);
    const stop = end ? end.index : text.length;
    if (this._isOsc) {
      this._sequence += text.slice(position, Math.min(stop, position + MAX_OSC + 1 - this._sequence.length));
    }
    if (!end) {
      return stop;
    }
    const [char] = end;
    if (this._isOsc && '\x07\x1b\x9c'.includes(char)) {
      this._operatingSystemCommand(this._sequence);
    }
    this._state = this._ground;
    if (char !== '\x07') {
      this._control(char);
    }
    return stop + 1;
  }

  /** Begin the sequence whose introducer, after ESC, is this character. */
  private _introduce(char: string): void {
    this._sequence = '';
    this._isOsc = char === ']';
    this._state = char === '[' ? this._csi : this._string;
  }

  /** Carry out a control character. Within a sequence most leave it unfinished. */
  private _control(char: string): void {
    if (char === '\x1b') {
      this._sequence = '';
      this._state = this._escape;
      return;
    }
    const introducer = C1_INTRODUCERS[char];
    if (introducer) {
      this._introduce(introducer);
      return;
    }
    this._endOfText();
    if (char >= '\x80' || char === '\x18' || char === '\x1a') {
      this._state = this._ground;
    }
    this._executeControl(char);
  }

  private _executeControl(char: string): void {
    switch (char) {
      case '\b':
        this._stayWithin();
        this._grid.x = Math.max(0, this._grid.x - 1);
        break;
      case '\t':
        this._tab();
        break;
      case '\n':
      case '\v':
      case '\f':
        this._lineFeed();
        break;
      case '\r':
        this._grid.x = 0;
        break;
      case '\x0e':
        this._charset = 1;
        break;
      case '\x0f':
        this._charset = 0;
        break;
      case '\x84':
        this._index();
        break;
      case '\x85':
        this._grid.x = 0;
        this._index();
        break;
    }
  }

  private _endOfText(): void {
    this._isAfterPrint = false;
    this._prefix = '';
  }

  private _controlSequence(params: string, intermediates: string, final: string): void {
    const parts = CSI_PARTS.exec(params);
    if (!parts) {
      return;
    }
    const [, prefix, numbers] = parts;
    if (final === 'm' && !prefix && !intermediates) {
      this._pen = sgr(this._pen, numbers);
      this._isAfterPrint = false;
      return;
    }
    this._executeSequence(
      prefix + intermediates + final,
      numbers.split(';').map(number => toNumber(number.split(':')[0]))
    );
    this._endOfText();
  }

  private _executeSequence(name: string, params: number[]): void {
    const grid = this._grid;
    const first = params[0];
    const count = first || 1;
    const shift = (by: number): void => grid.shift(grid.top, grid.bottom, by, eraser(this._pen), this._cols);
    switch (name) {
      case '@':
      case 'P': {
        this._stayWithin();
        const size = Math.min(count, this._cols - grid.x);
        const row = grid.rows[grid.y];
        if (name === '@') {
          row.insert(grid.x, size, this._cols, eraser(this._pen));
        } else {
          row.delete(grid.x, size, this._cols, eraser(this._pen));
        }
        break;
      }
      case 'A':
      case 'F':
        this._move(0, grid.y >= grid.top ? -Math.min(count, grid.y - grid.top) : -count);
        break;
      case 'B':
      case 'E':
        this._move(0, grid.y <= grid.bottom ? Math.min(count, grid.bottom - grid.y) : count);
        break;
      case 'C':
      case 'a':
        this._move(count, 0);
        break;
      case 'D':
        this._move(-count, 0);
        break;
      case 'e':
        this._move(0, count);
        break;
      case 'G':
      case '`':
        this._stayWithin();
        grid.x = Math.min(count, this._cols) - 1;
        break;
      case 'd':
        this._go(grid.x, count - 1);
        break;
      case 'H':
      case 'f':
        this._go((params[1] || 1) - 1, count - 1);
        break;
      case 'I':
        for (let n = Math.min(count, this._cols); n > 0; n--) {
          this._tab();
        }
        break;
      case 'Z':
        for (let n = grid.x < this._cols ? Math.min(count, this._cols) : 0; n > 0; n--) {
          grid.x = Math.max(0, Math.floor((grid.x - 1) / 8) * 8);
        }
        break;
      case 'J':
        this._eraseInDisplay(first);
        break;
      case 'K':
        this._eraseInLine(first);
        break;
      case 'X':
        this._stayWithin();
        this._erase(grid.y, grid.x, Math.min(grid.x + count, this._cols));
        break;
      case 'L':
      case 'M':
        this._stayWithin();
        if (grid.top <= grid.y && grid.y <= grid.bottom) {
          grid.shift(grid.y, grid.bottom, name === 'L' ? -count : count, eraser(this._pen), this._cols);
          grid.x = 0;
        }
        break;
      case 'S':
        shift(count);
        break;
      case 'T':
        shift(-count);
        break;
      case 'b':
        this._repeat(count);
        break;
      case 'h':
      case 'l':
        this._insert = params.includes(4) ? name === 'h' : this._insert;
        this._convertEol = params.includes(20) ? name === 'h' : this._convertEol;
        break;
      case '?h':
      case '?l':
        params.forEach(mode => this._setPrivateMode(mode, name === '?h'));
        break;
      case 'r':
        this._setRegion(first, params[1] ?? 0);
        break;
      case 's':
        this._saveCursor();
        break;
      case 'u':
        this._restoreCursor();
        break;
      case '!p':
        this._resetModes();
        grid.top = 0;
        grid.bottom = grid.rows.length - 1;
        grid.saved = homeCursor();
        break;
    }
    if (name === 'E' || name === 'F') {
      grid.x = 0;
    }
  }

  private _escapeSequence(intermediates: string, final: string): void {
    this._endOfText();
    if (intermediates === '(' || intermediates === ')') {
      this._charsets['()'.indexOf(intermediates)] = final;
    }
    switch (intermediates + final) {
      case '7':
        this._saveCursor();
        break;
      case '8':
        this._restoreCursor();
        break;
      case 'D':
        this._index();
        break;
      case 'E':
        this._grid.x = 0;
        this._index();
        break;
      case 'M':
        this._reverseIndex();
        break;
      case 'c':
        this._main = this._grid = new Grid(this._main.rows.length);
        this._resetModes();
        this._eraseInDisplay(3);
        break;
    }
  }

  private _operatingSystemCommand(text: string): void {
    const link = /^8;[^;]*;([^]*)$/.exec(text);
    if (link) {
      this._pen = linked(this._pen, text.length <= MAX_OSC && LINK.test(link[1]) ? link[1] : undefined);
    }
  }

  // --- printing ---

  private _print(text: string): void {
    if (this._charsets[this._charset] === '0') {
      text = text.replace(/[`-~]/g, char => LINE_DRAWING.get(char)!);
    }
    if (isAscii(text)) {
      this._printNarrow(text);
    } else {
      for (const [run, zero, wide] of text.matchAll(WIDTH_RUNS)) {
        if (zero) {
          this._printZero(run);
        } else if (wide) {
          [...run].forEach(char => this._printCell(char, 2));
        } else {
          this._printNarrow(run);
        }
      }
    }
    this._isAfterPrint = true;
  }

  private _printNarrow(text: string): void {
    const grid = this._grid;
    let cells: string[] = countChars(text) === text.length ? text.split('') : [...text];
    if (!this._autowrap) {
      // The last column takes each further character in turn.
      grid.x = Math.min(grid.x, this._cols - 1);
      const room = this._cols - grid.x;
      if (cells.length > room) {
        cells = [...cells.slice(0, room - 1), cells[cells.length - 1]];
        this._prefix = room > 1 ? this._prefix : '';
      }
    }
    for (let start = 0; start < cells.length; ) {
      if (grid.x >= this._cols) {
        this._wrap();
      }
      const count = Math.min(this._cols - grid.x, cells.length - start);
      this._put(count === cells.length ? cells : cells.slice(start, start + count));
      start += count;
    }
  }

  private _printCell(cell: string, width: number): void {
    if (this._grid.x + width > this._cols) {
      if (this._autowrap) {
        this._wrap();
      } else {
        this._grid.x = this._cols - 1;
        if (width === 2) {
          return;
        }
      }
    }
    this._put([cell, AFTER_WIDE].slice(0, width));
  }

  private _put(cells: string[]): void {
    const grid = this._grid;
    if (this._prefix) {
      cells[0] = firstChars(this._prefix + cells[0], MAX_CLUSTER);
      this._prefix = '';
    }
    const row = grid.rows[grid.y];
    if (this._insert) {
      row.insert(grid.x, cells.length, this._cols, eraser(this._pen));
    }
    row.write(grid.x, cells, this._pen);
    grid.x += cells.length;
  }

  /** Zero-width characters: into the cell before the cursor, else into the one that is printed next. */
  private _printZero(text: string): void {
    const { chars } = this._grid.rows[this._grid.y];
    let x = this._grid.x - 1;
    if (x > 0 && x < chars.length && chars[x] === AFTER_WIDE) {
      x--;
    }
    if (x >= 0 && x < chars.length && chars[x] !== NULL) {
      chars[x] = firstChars(chars[x] + text, MAX_CLUSTER);
    } else {
      this._prefix = firstChars(this._prefix + text, MAX_CLUSTER);
    }
  }

  private _wrap(): void {
    const grid = this._grid;
    grid.x = 0;
    if (grid.y === grid.bottom) {
      this._scroll();
    } else if (grid.y < grid.rows.length - 1) {
      grid.y++;
    } else {
      return;
    }
    grid.rows[grid.y].wrapped = true;
  }

  /**
   * Take many whole lines of text and colours at once: all but the last screenful are final as they stand.
   *
   * @returns the position up to which they were taken, which may be none.
   */
  private _flood(text: string, start: number, stop: number): number {
    const grid = this._grid;
    const rows = grid.rows.length;
    if (stop - start < 4 * rows || count(text.slice(start, stop), '\n') <= 2 * rows + 1) {
      return start;
    }
    if (this._isAlternate || this._insert || !this._autowrap || grid.top > 0 || grid.bottom !== rows - 1) {
      return start;
    }
    const first = text.indexOf('\n', start) + 1; // the first line may go on one that is there, or its CR may have come before
    this._parse(text.slice(start, first));
    const isFresh = grid.x === 0 && grid.rows.slice(grid.y).every(row => row.chars.length === 0);
    if (!isFresh || this._charsets[this._charset] === '0') {
      return first;
    }
    stop = text.lastIndexOf('\n', stop - 1) + 1;
    const [lines, separator] = this._finalAsItStands(text.slice(first, stop));
    if (!separator) {
      return first;
    }
    grid.rows.slice(0, grid.y).forEach(row => this._leave(row));
    this._close();
    grid.rows.splice(0, grid.y, ...Array.from({ length: grid.y }, () => new Row()));
    grid.y = 0;
    this._scrolled += rows; // at least; what was saved before has gone, and nobody asks for more
    let last = lines.length;
    for (let n = 0; n <= rows; n++) {
      last = lines.lastIndexOf(separator, last - 1);
    }
    this._pen = this._kept.addAll(lines.slice(0, last), separator, this._lineChars, this._pen);
    this._parse(lines.slice(last + separator.length));
    return stop;
  }

  /** Lines that leave just their own text, tabs expanded; and what ends each of them: empty where a grid is needed to tell. */
  private _finalAsItStands(text: string): [text: string, separator: string] {
    const newlines = count(text, '\n');
    const returns = count(text, '\r');
    const separator = this._convertEol && returns === 0 ? '\n' : '\r\n';
    const isEven = separator === '\n' || (returns === newlines && returns === count(text, '\r\n'));
    if (!isEven || (!isAscii(text) && HAS_ZERO.test(text))) {
      return [text, ''];
    }
    if (text.includes('\t')) {
      if (text.includes('\x1b') || (!isAscii(text) && HAS_WIDE.test(text))) {
        return [text, ''];
      }
      const lines = text.split(separator).map(line => expandTabs(line.replace(/\t+$/, ''))); // those at the end leave nothing
      if (lines.some(line => line.length >= this._cols && countChars(line) >= this._cols)) {
        return [text, ''];
      }
      text = lines.join(separator);
    }
    return [text, separator];
  }

  private _repeat(count: number): void {
    const grid = this._grid;
    const { chars } = grid.rows[grid.y];
    if (this._isAfterPrint && grid.x > 0 && grid.x <= chars.length) {
      const width = chars[grid.x - 1] === AFTER_WIDE ? 2 : 1;
      const cell = chars[grid.x - width];
      for (let n = Math.min(count, this._cols * grid.rows.length); n > 0; n--) {
        this._printCell(cell, width);
      }
    }
  }

  // --- rows that leave the screen ---

  private _leave(row: Row): void {
    if (!row.wrapped) {
      this._close();
    }
    this._open ??= new LogicalLine(this._lineChars);
    this._open.addRow(row.runs(), Math.max(0, this._cols - row.chars.length), row.isWideFirst);
    this._scrolled++;
  }

  private _close(): void {
    if (this._open) {
      this._kept.add(...this._open.finish());
      this._open = null;
    }
  }

  /** Scroll the region by one; a row that leaves the main screen at its top is kept. */
  private _scroll(): void {
    const grid = this._grid;
    if (grid.top > 0 || this._isAlternate) {
      grid.shift(grid.top, grid.bottom, 1, null, this._cols);
      return;
    }
    this._leave(grid.rows.shift()!);
    grid.rows.splice(grid.bottom, 0, new Row());
    if (grid.bottom + 1 < grid.rows.length) {
      grid.rows[grid.bottom + 1].wrapped = false;
    }
  }

  // --- cursor ---

  /** Go on in another size. Nothing is wrapped anew; rows that find no place leave at the top. */
  resize(cols: number, rows: number): void {
    this._cols = Math.max(2, cols);
    rows = Math.max(1, rows);
    for (const grid of new Set([this._main, this._grid])) {
      while (grid.rows.length > rows) {
        if (grid.y < grid.rows.length - 1 && grid.rows[grid.rows.length - 1].runs().length === 0) {
          grid.rows.pop();
          continue;
        }
        const row = grid.rows.shift()!;
        grid.y = Math.max(0, grid.y - 1);
        if (grid === this._main) {
          this._leave(row);
        }
      }
      while (grid.rows.length < rows) {
        grid.rows.push(new Row());
      }
      grid.x = Math.min(grid.x, this._cols);
      grid.top = 0;
      grid.bottom = rows - 1;
    }
  }

  private get _isAlternate(): boolean {
    return this._grid !== this._main;
  }

  private _lineFeed(): void {
    const grid = this._grid;
    if (this._convertEol) {
      grid.x = 0;
    }
    if (grid.y === grid.bottom) {
      this._scroll();
    } else if (grid.y < grid.rows.length - 1) {
      grid.rows[++grid.y].wrapped = false;
    }
    if (grid.x >= this._cols) {
      grid.x--;
    }
  }

  private _index(): void {
    const grid = this._grid;
    this._stayWithin();
    if (grid.y === grid.bottom) {
      this._scroll();
    } else if (grid.y < grid.rows.length - 1) {
      grid.y++;
    }
  }

  private _reverseIndex(): void {
    const grid = this._grid;
    this._stayWithin();
    if (grid.y === grid.top) {
      grid.shift(grid.top, grid.bottom, -1, null, this._cols);
    } else if (grid.y > 0) {
      grid.y--;
    }
  }

  private _tab(): void {
    const grid = this._grid;
    if (grid.x < this._cols) {
      grid.x = Math.min(Math.floor(grid.x / 8) * 8 + 8, this._cols - 1);
    }
  }

  /** Take the cursor back from beyond the last column, unless the margin is 0, and into the region that it is bound to. */
  private _stayWithin(margin = 1): void {
    const grid = this._grid;
    const [top, bottom] = this._origin ? [grid.top, grid.bottom] : [0, grid.rows.length - 1];
    grid.x = Math.max(0, Math.min(grid.x, this._cols - margin));
    grid.y = Math.max(top, Math.min(grid.y, bottom));
  }

  /** Move to a cell; y counts from the region's top where the cursor is bound to it. */
  private _go(x: number, y: number): void {
    this._grid.x = x;
    this._grid.y = this._origin ? y + this._grid.top : y;
    this._stayWithin();
  }

  private _move(dx: number, dy: number): void {
    this._stayWithin();
    this._grid.x += dx;
    this._grid.y += dy;
    this._stayWithin();
  }

  private _saveCursor(): void {
    const { x, y } = this._grid;
    this._grid.saved = {
      x,
      y: y + this._offset,
      pen: this._pen,
      charset: this._charset,
      charsets: [...this._charsets]
    };
  }

  private _restoreCursor(): void {
    const { saved } = this._grid;
    this._grid.x = saved.x;
    this._grid.y = Math.max(0, saved.y - this._offset);
    this._pen = saved.pen;
    this._charset = saved.charset;
    this._charsets = [...saved.charsets];
    this._stayWithin();
  }

  private get _offset(): number {
    return this._isAlternate ? 0 : this._scrolled;
  }

  // --- erasing ---

  private _erase(row: number, start: number, end: number): void {
    this._grid.rows[row].erase(start, end, this._cols, eraser(this._pen));
  }

  private _eraseRows(start: number, end: number): void {
    for (let row = start; row < end; row++) {
      this._erase(row, 0, this._cols);
      this._grid.rows[row].wrapped = false;
    }
  }

  private _eraseInDisplay(what: number): void {
    this._stayWithin(0);
    const grid = this._grid;
    if (what === 0) {
      this._eraseInLine(0);
      this._eraseRows(grid.y + 1, grid.rows.length);
    } else if (what === 1) {
      this._eraseRows(0, grid.y);
      this._erase(grid.y, 0, Math.min(grid.x + 1, this._cols));
      grid.rows[grid.y].wrapped = false;
      if (grid.x + 1 >= this._cols && grid.y + 1 < grid.rows.length) {
        grid.rows[grid.y + 1].wrapped = false;
      }
    } else if (what === 2) {
      this._eraseRows(0, grid.rows.length);
    } else if (what === 3) {
      this._kept.clear();
      this._open = null;
      this._main.saved.y = Math.max(0, this._main.saved.y - this._scrolled);
      this._scrolled = 0;
    }
  }

  private _eraseInLine(what: number): void {
    this._stayWithin(0);
    const grid = this._grid;
    if (what === 0) {
      this._erase(grid.y, grid.x, this._cols);
    } else if (what === 1) {
      this._erase(grid.y, 0, Math.min(grid.x + 1, this._cols));
    } else if (what === 2) {
      this._erase(grid.y, 0, this._cols);
    }
    if (what === 2 || (what === 0 && grid.x === 0)) {
      grid.rows[grid.y].wrapped = false;
    }
  }

  // --- modes ---

  private _setRegion(first: number, last: number): void {
    const grid = this._grid;
    const top = Math.max(first, 1);
    const bottom = last > 0 && last <= grid.rows.length ? last : grid.rows.length;
    if (top < bottom) {
      grid.top = top - 1;
      grid.bottom = bottom - 1;
      this._go(0, 0);
    }
  }

  private _setPrivateMode(mode: number, isOn: boolean): void {
    if (mode === 6) {
      this._origin = isOn;
      if (isOn) {
        this._go(0, 0);
      }
    } else if (mode === 7) {
      this._autowrap = isOn;
    } else if (mode === 1048) {
      if (isOn) {
        this._saveCursor();
      } else {
        this._restoreCursor();
      }
    } else if (mode === 47 || mode === 1047 || mode === 1049) {
      this._showAlternate(isOn, mode === 1049);
    }
  }

  private _showAlternate(isOn: boolean, savesCursor: boolean): void {
    if (isOn && savesCursor) {
      this._saveCursor();
    }
    if (isOn !== this._isAlternate) {
      const { x, y, rows } = this._grid;
      this._grid = isOn ? new Grid(rows.length) : this._main;
      this._grid.x = x;
      this._grid.y = y;
    }
    if (savesCursor && !isOn) {
      this._restoreCursor();
    }
  }

  private _resetModes(): void {
    this._pen = null;
    this._charset = 0;
    this._charsets = ['B', 'B'];
    this._autowrap = true;
    this._insert = false;
    this._origin = false;
    this._endOfText();
  }

  private _cols: number;
  private readonly _lineChars: number;
  private readonly _kept: KeptLines;
  private readonly _savedLines = new WeakMap<Line, readonly StyledText[]>();
  private _open: LogicalLine | null = null; // the last line that left the screen; the first row may go on it
  private _scrolled = 0; // rows that left the screen
  private _main: Grid;
  private _grid: Grid;

  private _state: (text: string, position: number) => number = this._ground;
  private _sequence = ''; // what has come of an unfinished sequence, without its introducer
  private _isOsc = false;
  private _halfPair = ''; // the first half of a surrogate pair

  private _pen!: Style;
  private _charset!: number;
  private _charsets!: string[];
  private _autowrap!: boolean;
  private _insert!: boolean;
  private _origin!: boolean;
  private _convertEol: boolean;
  private _prefix!: string; // zero-width characters that came before the character whose cell they belong to
  private _isAfterPrint!: boolean;
}

const C1_INTRODUCERS: Readonly<Record<string, string>> = {
  '\x90': 'P',
  '\x98': 'X',
  '\x9b': '[',
  '\x9d': ']',
  '\x9e': '^',
  '\x9f': '_'
};
