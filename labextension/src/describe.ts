/** What the panel and the terminal view say about a terminal, as plain text. */
import type { LastCommand, TerminalDetails, TerminalInfo, TerminalState } from './protocol.generated';
import { exitCode, hasExited } from './reducers';

/** Who holds a terminal, from this page's point of view. */
export interface IHolder {
  readonly role: 'self' | 'person' | 'kernel' | 'session';
  readonly text: string;
}

export function detailsOf(terminal: TerminalInfo | TerminalState): TerminalDetails | undefined {
  return terminal._meta?.['x-terminal'] ?? undefined;
}

export function holderOf(terminal: TerminalInfo | TerminalState, clientId: string): IHolder {
  const { claim } = terminal;
  const named = detailsOf(terminal)?.holder;
  if (claim.kind === 'client' && claim.clientId === clientId) {
    return { role: 'self', text: 'this page' };
  }
  if (claim.kind === 'session') {
    return { role: 'session', text: named?.title ?? `agent session ${claim.session}` };
  }
  if (named?.role === 'kernel') {
    return { role: 'kernel', text: named.title };
  }
  return { role: 'person', text: named?.title || 'another client' };
}

/** A `file:` URI as a path; any other as it is. */
export function folderText(uri: string): string {
  const match = /^file:\/\/(?:localhost)?(\/.*)$/.exec(uri);
  try {
    return match ? decodeURIComponent(match[1]) : uri;
  } catch {
    return uri;
  }
}

export function durationText(ms: number): string {
  if (ms < 999.5) {
    return `${Math.round(ms)} ms`;
  }
  if (ms < 59_950) {
    return `${(ms / 1_000).toFixed(1)} s`;
  }
  const seconds = Math.round(ms / 1_000);
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${seconds % 60} s`;
}

/** How the last command ended. */
export function outcomeText(last: LastCommand): string {
  const code = last.exitCode === undefined || last.exitCode === null ? 'ended, exit code unknown' : `exit ${last.exitCode}`;
  return last.durationMs === undefined || last.durationMs === null ? code : `${code} after ${durationText(last.durationMs)}`;
}

/** How the terminal ended; empty while it runs. */
export function endText(terminal: TerminalInfo | TerminalState): string {
  if (!hasExited(terminal)) {
    return '';
  }
  const code = exitCode(terminal);
  return code === undefined ? 'ended without an exit code' : `ended, code ${code}`;
}
