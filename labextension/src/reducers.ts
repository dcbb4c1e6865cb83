/**
 * The pure reducers of the root and terminal channels: the mirror of `jupyter_ext/protocol/reducers.py`, proved by the same
 * fixtures. A member that has no value is absent, never null or undefined, so that states compare as they do on the wire.
 */
import type {
  RootState,
  StateAction,
  TerminalCommandPart,
  TerminalContentPart,
  TerminalInfo,
  TerminalState
} from './protocol.generated';

/** A part's VT text; an unknown part counts as none. */
export function partText(part: TerminalContentPart): string {
  switch (part.type) {
    case 'command':
      return part.output;
    case 'unclassified':
      return part.value;
    default:
      return '';
  }
}

/** Whether the terminal's process has ended, in either form that the wire has for it. */
export function hasExited(state: TerminalState | TerminalInfo): boolean {
  return state.lifecycle ? state.lifecycle.status === 'exited' : state.exitCode !== undefined;
}

/** The exit code of a terminal that has one. */
export function exitCode(state: TerminalState | TerminalInfo): number | undefined {
  return state.lifecycle?.exitCode ?? state.exitCode ?? undefined;
}

/** The state after an action; the same object where the action changes nothing or is unknown. */
export function terminalReducer(state: TerminalState, action: StateAction): TerminalState {
  switch (action.type) {
    case 'terminal/data':
      return { ...state, content: withData(state.content, action.data) };
    case 'terminal/resized':
      return { ...state, cols: action.cols, rows: action.rows };
    case 'terminal/claimed':
      return { ...state, claim: action.claim };
    case 'terminal/titleChanged':
      return { ...state, title: action.title };
    case 'terminal/cwdChanged':
      return { ...state, cwd: action.cwd };
    case 'terminal/exited':
      return state.lifecycle
        ? { ...state, lifecycle: { status: 'exited', ...present({ exitCode: action.exitCode }) } }
        : { ...without(state, 'exitCode'), ...present({ exitCode: action.exitCode }) };
    case 'terminal/cleared':
      return { ...state, content: [] };
    case 'terminal/commandDetectionAvailable':
      return { ...state, supportsCommandDetection: true };
    case 'terminal/commandExecuted': {
      const part: TerminalCommandPart = {
        type: 'command',
        commandId: action.commandId,
        commandLine: action.commandLine,
        output: '',
        timestamp: action.timestamp,
        isComplete: false,
        ...present({ _meta: action._meta })
      };
      return { ...state, content: [...state.content, part], supportsCommandDetection: true };
    }
    case 'terminal/commandFinished': {
      const isIt = (part: TerminalContentPart): part is TerminalCommandPart =>
        part.type === 'command' && part.commandId === action.commandId;
      if (!state.content.some(isIt)) {
        return state;
      }
      const ended = { isComplete: true, ...present({ exitCode: action.exitCode, durationMs: action.durationMs }) };
      return {
        ...state,
        content: state.content.map(part =>
          isIt(part) ? { ...without(part, 'exitCode', 'durationMs'), ...ended } : part
        )
      };
    }
    case 'x-terminal/detailsChanged':
      return { ...state, _meta: { 'x-terminal': action.details } };
    default:
      return state;
  }
}

/** The state after an action; the same object where the action changes nothing or is unknown. */
export function rootReducer(state: RootState, action: StateAction): RootState {
  switch (action.type) {
    case 'root/agentsChanged':
      return { ...state, agents: action.agents };
    case 'root/activeSessionsChanged':
      return { ...state, activeSessions: action.activeSessions };
    case 'root/terminalsChanged':
      return { ...state, terminals: action.terminals };
    case 'root/configChanged': {
      if (!state.config) {
        return state;
      }
      const values = action.replace ? action.config : { ...state.config.values, ...action.config };
      return { ...state, config: { ...state.config, values } };
    }
    case 'x-terminal/infoChanged': {
      if (!state.terminals?.some(info => info.resource === action.resource)) {
        return state;
      }
      const _meta = { 'x-terminal': action.details };
      return {
        ...state,
        terminals: state.terminals.map(info => (info.resource === action.resource ? { ...info, _meta } : info))
      };
    }
    default:
      return state;
  }
}

/**
 * The newest part of a content within both limits: whole parts are dropped from the front, then the first one is cut at a line
 * start where there is one. A running command stays, with less of its output. To trim less often than at every append, it trims
 * to four fifths.
 *
 * @returns The same object where nothing is over a limit.
 */
export function trimContent(
  content: readonly TerminalContentPart[],
  retainedChars: number,
  retainedParts: number
): readonly TerminalContentPart[] {
  let total = content.reduce((sum, part) => sum + partText(part).length, 0);
  if (total <= retainedChars && content.length <= retainedParts) {
    return content;
  }
  const targetChars = total > retainedChars ? Math.floor((retainedChars * 4) / 5) : retainedChars;
  const targetParts = Math.max(1, content.length > retainedParts ? Math.floor((retainedParts * 4) / 5) : retainedParts);
  const parts = [...content];
  while (parts.length > 1 && (parts.length > targetParts || total - partText(parts[0]).length >= targetChars)) {
    total -= partText(parts.shift()!).length;
  }
  const [first] = parts;
  if (total > targetChars && first.type === 'command') {
    parts[0] = { ...first, output: cutFront(first.output, total - targetChars) };
  } else if (total > targetChars && first.type === 'unclassified') {
    parts[0] = { ...first, value: cutFront(first.value, total - targetChars) };
  }
  return parts;
}

function withData(content: readonly TerminalContentPart[], data: string): readonly TerminalContentPart[] {
  const tail = content[content.length - 1] as TerminalContentPart | undefined;
  if (tail?.type === 'command' && !tail.isComplete) {
    return [...content.slice(0, -1), { ...tail, output: tail.output + data }];
  }
  if (tail?.type === 'unclassified') {
    return [...content.slice(0, -1), { ...tail, value: tail.value + data }];
  }
  return [...content, { type: 'unclassified', value: data }];
}

/** The members that have a value. */
function present<T extends object>(members: T): Partial<T> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null)) as Partial<T>;
}

function without<T extends object, K extends keyof T>(value: T, ...keys: K[]): Omit<T, K> {
  const rest = { ...value };
  keys.forEach(key => delete rest[key]);
  return rest;
}

/** Drop at least `excess` characters, up to a line start; else at a place outside an escape sequence and a surrogate pair. */
function cutFront(text: string, excess: number): string {
  const newline = text.indexOf('\n', excess - 1);
  if (newline >= 0 && newline < text.length - 1) {
    return text.slice(newline + 1);
  }
  const escape = text.slice(Math.max(0, excess - 64), excess).lastIndexOf('\x1b');
  let start = excess;
  if (escape >= 0) {
    const at = Math.max(0, excess - 64) + escape;
    let end = at + 2;
    while (end < text.length && end < at + 64 && !/[@-~]/.test(text[end])) {
      end += 1;
    }
    start = Math.max(excess, Math.min(end + 1, text.length));
  }
  return text.slice(/[\udc00-\udfff]/.test(text[start] ?? '') ? start + 1 : start);
}
