/** Names of terminals: a name is fixed at creation and is the path of the terminal's URI. */
import { RequestRefused } from './connection';
import { type CreateTerminalParams, ErrorCode, type TerminalInfo } from './protocol.generated';

/** The name that a terminal's URI stands for. */
export function nameOf(uri: string): string {
  const path = uri.replace(/^[^:]*:\/*/, '');
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** The URI of a terminal's name. */
export function uriOf(name: string): string {
  return `ahp-terminal:/${encodeURIComponent(name)}`;
}

/** The first free name for a new terminal. */
function freeName(terminals: readonly TerminalInfo[], taken: ReadonlySet<string>): string {
  const uris = new Set(terminals.map(info => info.resource));
  for (let number = 1; ; number++) {
    const name = `terminal-${number}`;
    if (!uris.has(uriOf(name)) && !taken.has(name)) {
      return name;
    }
  }
}

/**
 * Make a terminal under the first free name, by `create`.
 *
 * Another page may take a name first; then the next one is tried.
 */
export async function createUnderFreeName<T>(
  terminals: () => readonly TerminalInfo[],
  create: (uri: string, creation: Pick<CreateTerminalParams, 'name'>) => Promise<T>
): Promise<T> {
  const taken = new Set<string>();
  for (;;) {
    const name = freeName(terminals(), taken);
    try {
      return await create(uriOf(name), { name });
    } catch (error) {
      if (!(error instanceof RequestRefused && error.code === ErrorCode.ALREADY_EXISTS)) {
        throw error;
      }
      taken.add(name);
    }
  }
}
