/**
 * Styled lines: SGR's styles, one logical line from its rows, and the first and last lines of many. All is bounded: what one
 * line or all lines have too much is left out in the middle, and counted. The mirror of `jupyter_ext/core/styled_lines.py`.
 */
import type { StyledText, TextStyle } from './protocol.generated';

export type Style = TextStyle | null;
export type Run = readonly [text: string, style: Style];
export type Line = readonly Run[];

/** Stands for a cell that nothing was written to: a control character, so no text can hold it. */
export const NULL = '\0';

/** The addresses that a link may have; OSC 8 asks for printable ASCII. */
export const LINK = /^(?:https?:\/\/|mailto:)[!-~]+$/i;

const LINE_COST = 40;
const STYLE_COST = 80;
const MAX_NUMBER = 0x7fffffff;
const MAX_CACHED = 1024;

// eslint-disable-next-line no-control-regex
const SGR = /\x1b\[([0-;]*)m/g;

// --- text ------------------------------------------------------------------------------------------------------------------

const encoder = new TextEncoder();
// eslint-disable-next-line no-control-regex
const NOT_ASCII = /[^\0-\x7f]/;
const SURROGATE = /[\ud800-\udfff]/;

export function isAscii(text: string): boolean {
  return !NOT_ASCII.test(text);
}

/** The number of characters, not of UTF-16 units. */
export function countChars(text: string): number {
  return SURROGATE.test(text) ? [...text].length : text.length;
}

/** The first characters, and the rest. */
export function splitChars(text: string, count: number): [string, string] {
  if (!SURROGATE.test(text)) {
    return [text.slice(0, count), text.slice(count)];
  }
  const chars = [...text];
  return [chars.slice(0, count).join(''), chars.slice(count).join('')];
}

function utf8Length(text: string): number {
  return isAscii(text) ? text.length : encoder.encode(text).length;
}

/** A number with its thousands set apart: `99,000`. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** A size in decimal units: `812 bytes`, `1.2 MB`. */
export function formatBytes(count: number): string {
  if (count < 1000) {
    return count === 1 ? '1 byte' : `${count} bytes`;
  }
  let value = count / 1000;
  let unit = 'kB';
  for (const larger of ['MB', 'GB']) {
    if (value < 999.5) {
      break;
    }
    value /= 1000;
    unit = larger;
  }
  return value < 9.95 ? `${(Math.floor(value * 10 + 0.5) / 10).toFixed(1)} ${unit}` : `${Math.floor(value + 0.5)} ${unit}`;
}

/** What stands where lines were left out. */
export function leftOut(lines: number, sizeBytes: number): string {
  return `… ${formatCount(lines)} ${lines === 1 ? 'line' : 'lines'} (${formatBytes(sizeBytes)}) left out …`;
}

// --- styles ----------------------------------------------------------------------------------------------------------------

type Members = { -readonly [K in keyof TextStyle]?: TextStyle[K] };

const SWITCHES: Readonly<Record<number, Members>> = {
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  5: { blink: true },
  6: { blink: true },
  7: { inverse: true },
  8: { hidden: true },
  9: { strike: true },
  21: { underline: true },
  22: { bold: undefined, dim: undefined },
  23: { italic: undefined },
  24: { underline: undefined },
  25: { blink: undefined },
  27: { inverse: undefined },
  28: { hidden: undefined },
  29: { strike: undefined },
  39: { fg: undefined },
  49: { bg: undefined }
};
const CUBE = [0, 95, 135, 175, 215, 255];

export function toNumber(digits: string): number {
  return digits ? Math.min(Number(digits), MAX_NUMBER) : 0;
}

function hex(...values: number[]): string {
  return '#' + values.map(value => (value & 0xff).toString(16).padStart(2, '0')).join('');
}

function paletteColor(index: number): string {
  index &= 0xff;
  if (index < 16) {
    return String(index);
  }
  if (index >= 232) {
    const level = 8 + (index - 232) * 10;
    return hex(level, level, level);
  }
  index -= 16;
  return hex(CUBE[Math.floor(index / 36)], CUBE[Math.floor(index / 6) % 6], CUBE[index % 6]);
}

function extendedColor(mode: number, values: readonly number[]): string | undefined {
  if (mode === 5 && values.length > 0) {
    return paletteColor(values[0]);
  }
  return mode === 2 && values.length >= 3 ? hex(values[0], values[1], values[2]) : undefined;
}

const STYLE_KEYS: readonly (keyof TextStyle)[] = [
  ...(['fg', 'bg', 'bold', 'dim', 'italic', 'underline', 'blink', 'inverse', 'hidden', 'strike', 'href'] as const)
];

/** The style with these members, without the absent ones; null where none is left. */
function styleOf(members: Members): Style {
  const kept = STYLE_KEYS.filter(key => members[key] !== undefined);
  return kept.length > 0 ? (Object.fromEntries(kept.map(key => [key, members[key]])) as TextStyle) : null;
}

export function sameStyle(a: Style, b: Style): boolean {
  return a === b || (a !== null && b !== null && STYLE_KEYS.every(key => a[key] === b[key]));
}

const pens = new Map<Style, Map<string, Style>>();
let cachedPens = 0;

/** The pen after `CSI params m`. */
export function sgr(pen: Style, params: string): Style {
  let after = pens.get(pen);
  let style = after?.get(params);
  if (style === undefined) {
    style = penAfter(pen, params);
    if (++cachedPens > MAX_CACHED) {
      pens.clear();
      cachedPens = 1;
      after = undefined;
    }
    if (!after) {
      pens.set(pen, (after = new Map()));
    }
    after.set(params, style);
  }
  return style;
}

function penAfter(pen: Style, params: string): Style {
  let members: Members = { ...pen };
  const codes = params.split(';').map(code => code.split(':').map(toNumber));
  let index = 0;
  while (index < codes.length) {
    const [code, ...subs] = codes[index++];
    if (code === 38 || code === 48 || code === 58) {
      let color: string | undefined;
      if (subs.length > 0) {
        // 38:5:n, 38:2:r:g:b, or with a colour space 38:2::r:g:b
        color = extendedColor(subs[0], subs.slice(subs[0] === 2 && subs.length > 4 ? 2 : 1));
      } else {
        // 38;5;n or 38;2;r;g;b
        const mode = index < codes.length ? codes[index][0] : 0;
        const count = mode === 5 ? 1 : mode === 2 ? 3 : 0;
        color = extendedColor(
          mode,
          codes.slice(index + 1, index + 1 + count).map(([value]) => value)
        );
        index += 1 + count;
      }
      if (color !== undefined && code !== 58) {
        members[code === 38 ? 'fg' : 'bg'] = color;
      }
    } else if (code === 0) {
      members = { href: members.href };
    } else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) {
      members.fg = String(code < 90 ? code - 30 : code - 82);
    } else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) {
      members.bg = String(code < 100 ? code - 40 : code - 92);
    } else if (code === 4 && subs.length > 0 && subs[0] === 0) {
      members.underline = undefined;
    } else {
      Object.assign(members, SWITCHES[code]);
    }
  }
  return styleOf(members);
}

/** The pen with another link. */
export function linked(pen: Style, href: string | undefined): Style {
  return styleOf({ ...pen, href });
}

/** The style of a cell that the pen erases: its background. */
export function eraser(pen: Style): Style {
  return pen?.bg ? { bg: pen.bg } : null;
}

// --- lines -----------------------------------------------------------------------------------------------------------------

function merged(runs: Iterable<Run>): Run[] {
  const lines: [string, Style][] = [];
  for (const [text, style] of runs) {
    const last = lines[lines.length - 1];
    if (last && sameStyle(last[1], style)) {
      last[0] += text;
    } else {
      lines.push([text, style]);
    }
  }
  return lines;
}

function withoutNulls(text: string): string {
  return text.replaceAll(NULL, ' ');
}

/** A line's text with the blanks that were written at its end, without those that nothing was written to. */
export function lineText(line: Line): string {
  const text = line.map(([part]) => part).join('');
  let end = text.length;
  while (end > 0 && text[end - 1] === NULL) {
    end--;
  }
  return withoutNulls(text.slice(0, end));
}

/** A line's runs; blanks at its end that show nothing are dropped. */
export function savedLine(line: Line): StyledText[] {
  const runs: Run[] = line.map(([text, style]) => [withoutNulls(text), style]);
  while (runs.length > 0 && !runs[runs.length - 1][1]?.bg) {
    const [text, style] = runs.pop()!;
    const showsBlanks = style?.inverse || style?.underline || style?.strike;
    const kept = showsBlanks ? text : text.replace(/ +$/, '');
    if (kept) {
      runs.push([kept, style]);
      break;
    }
  }
  return merged(runs).map(([text, style]) => (style ? { text, style } : { text }));
}

/** One line as its rows leave the screen: its first and last characters; those between are counted. */
export class LogicalLine {
  constructor(maxChars: number) {
    this._tailLimit = Math.floor(maxChars / 2);
    this._headRoom = maxChars - this._tailLimit;
  }

  /** A copy that can go on by itself. */
  copy(): LogicalLine {
    const other = Object.assign(new LogicalLine(0), this);
    other._head = [...this._head];
    other._tail = [...this._tail];
    return other;
  }

  /**
   * Append a row of the screen. What the row before lacked is filled, but for the one cell that a wide character, which begins
   * this row, left free.
   *
   * @param missing how many cells at its end were not written to.
   */
  addRow(runs: Iterable<Run>, missing: number, isWideFirst: boolean): void {
    if (this._gap > 1 || (this._gap === 1 && !isWideFirst)) {
      this.add(NULL.repeat(this._gap), null);
    }
    for (const [text, style] of runs) {
      this.add(text, style);
    }
    this._gap = missing;
  }

  /** Append a run. */
  add(text: string, style: Style): void {
    if (text && this._headRoom > 0) {
      const [part, rest] = splitChars(text, this._headRoom);
      this._head.push([part, style]);
      this._headRoom -= countChars(part);
      text = rest;
    }
    if (text) {
      this._tail.push([text, style]);
      this._tailChars += countChars(text);
      while (this._tailChars - countChars(this._tail[0][0]) >= this._tailLimit) {
        this._countCut(this._tail.shift()![0]);
      }
    }
  }

  /** Whether nothing was written to it. */
  get isBlank(): boolean {
    return [...this._head, ...this._tail].every(([text]) => text.replaceAll(NULL, '') === '');
  }

  /** The line, the UTF-8 bytes that are kept of it, and those cut out of its middle. */
  finish(): [line: Line, keptBytes: number, cutBytes: number] {
    const excess = this._tailChars - this._tailLimit;
    if (excess > 0) {
      const [text, style] = this._tail[0];
      const [cut, kept] = splitChars(text, excess);
      this._tail[0] = [kept, style];
      this._countCut(cut);
    }
    const keptBytes = [...this._head, ...this._tail].reduce((sum, [text]) => sum + utf8Length(text), 0);
    const noun = this._cutChars === 1 ? 'character' : 'characters';
    const mark: Run[] =
      this._cutChars > 0 ? [[` … ${formatCount(this._cutChars)} ${noun} left out … `, { dim: true }]] : [];
    return [merged([...this._head, ...mark, ...this._tail]), keptBytes, this._cutBytes];
  }

  private _countCut(text: string): void {
    const chars = countChars(text);
    this._tailChars -= chars;
    this._cutChars += chars;
    this._cutBytes += utf8Length(text);
  }

  private _head: Run[] = [];
  private _headRoom: number;
  private _tail: Run[] = [];
  private _tailChars = 0;
  private readonly _tailLimit: number;
  private _cutChars = 0;
  private _cutBytes = 0;
  private _gap = 0; // cells missing at the end of the row that came last
}

interface ITailLine {
  readonly line: Line;
  readonly size: number; // in bytes, its newline included
  readonly cost: number;
}

/** Final lines within limits: the first ones, then the last ones; those between are counted. */
export class KeptLines {
  constructor(
    private readonly _headLines: number,
    private readonly _tailLines: number,
    maxBytes: number
  ) {
    this._budget = _headLines && _tailLines ? Math.floor(maxBytes / 2) : maxBytes;
    this.clear();
  }

  /** Forget all lines, and that there were any. */
  clear(): void {
    this.head = [];
    this.tail = [];
    this._headCost = 0;
    this._tailCost = 0;
    this._isHeadOpen = this._headLines > 0;
    this.omittedLines = 0;
    this.omittedBytes = 0;
  }

  /** A copy that can go on by itself. */
  copy(): KeptLines {
    const other = Object.assign(new KeptLines(this._headLines, this._tailLines, 0), this);
    other.head = [...this.head];
    other.tail = [...this.tail];
    return other;
  }

  /** Append a line of which `cutBytes` have been left out already. */
  add(line: Line, keptBytes: number, cutBytes = 0): void {
    const size = keptBytes + 1;
    let cost = size + LINE_COST + STYLE_COST * line.filter(([, style]) => style !== null).length;
    if (cost > this._budget && line.length > 1) {
      line = [[line.map(([text]) => text).join(''), null]]; // coloured letter by letter
      cost = size + LINE_COST;
    }
    this.omittedBytes += cutBytes;
    if (this._isHeadOpen) {
      if (this.head.length < this._headLines && this._headCost + cost <= this._budget) {
        this.head.push(line);
        this._headCost += cost;
        return;
      }
      this._isHeadOpen = false;
    }
    this.tail.push({ line, size, cost });
    this._tailCost += cost;
    while (this.tail.length > 0 && (this.tail.length > this._tailLines || this._tailCost > this._budget)) {
      const first = this.tail.shift()!;
      this._tailCost -= first.cost;
      this._omit(1, first.size);
    }
  }

  /**
   * Append the lines of a text, in which SGR sequences may stand.
   *
   * @param text the lines; the last one ends with the text.
   * @param separator what ends each of the others.
   * @param pen the style that it begins with.
   * @returns the style that it ends with.
   */
  addAll(text: string, separator: string, maxChars: number, pen: Style): Style {
    let start = 0;
    while (this._isHeadOpen && start <= text.length) {
      const found = text.indexOf(separator, start);
      const end = found < 0 ? text.length : found;
      pen = this._addText(text.slice(start, end), maxChars, pen);
      start = end + separator.length;
    }
    if (start > text.length) {
      return pen;
    }
    let tailStart = text.length + separator.length;
    for (let lines = 0; lines < this._tailLines && tailStart > start; lines++) {
      const found = tailStart - separator.length > start ? text.lastIndexOf(separator, tailStart - separator.length - 1) : -1;
      tailStart = found < start ? start : found + separator.length;
    }
    if (tailStart > start) {
      this.tail.forEach(({ size }) => this._omit(1, size));
      this.tail = [];
      this._tailCost = 0;
      pen = this._omitText(text.slice(start, tailStart - separator.length), separator, pen);
    }
    if (tailStart <= text.length) {
      for (const line of text.slice(tailStart).split(separator)) {
        pen = this._addText(line, maxChars, pen);
      }
    }
    return pen;
  }

  private _omitText(text: string, separator: string, pen: Style): Style {
    if (text.includes('\x1b')) {
      const reset = Math.max(text.lastIndexOf('\x1b[m'), text.lastIndexOf('\x1b[0m'));
      if (reset >= 0) {
        pen = linked(null, pen?.href);
      }
      for (const [, params] of text.slice(Math.max(0, reset)).matchAll(SGR)) {
        pen = sgr(pen, params);
      }
      text = text.replace(SGR, '');
    }
    const count = text.split(separator).length - 1;
    this._omit(count + 1, utf8Length(text) - count * (separator.length - 1) + 1);
    return pen;
  }

  private _addText(text: string, maxChars: number, pen: Style): Style {
    if (pen === null && text.length <= maxChars && !text.includes('\x1b')) {
      this.add(text ? [[text, null]] : [], utf8Length(text));
      return pen;
    }
    const line = new LogicalLine(maxChars);
    text.split(SGR).forEach((part, index) => {
      if (index % 2 === 1) {
        pen = sgr(pen, part);
      } else {
        line.add(part, pen);
      }
    });
    this.add(...line.finish());
    return pen;
  }

  private _omit(lines: number, sizeBytes: number): void {
    this.omittedLines += lines;
    this.omittedBytes += sizeBytes;
  }

  head!: Line[];
  tail!: ITailLine[];
  omittedLines!: number;
  omittedBytes!: number;

  private readonly _budget: number;
  private _headCost!: number;
  private _tailCost!: number;
  private _isHeadOpen!: boolean;
}
