/** This page's label in claims: it outlives a reload, so that a reloaded page still holds its terminals. */
import { UUID } from '@lumino/coreutils';

const KEY = 'jupyter-ahp:client-id';

/** How long another page has to say that it uses the id. */
const ANSWER_MS = 100;

/**
 * The id of this tab. A browser copies a tab's session storage when the tab is duplicated; a page that finds its id in use by
 * another page takes a new one.
 */
export async function pageClientId(): Promise<string> {
  const stored = sessionStorage.getItem(KEY);
  if (stored === null) {
    return defend(newClientId());
  }
  return defend((await isInUse(stored)) ? newClientId() : stored);
}

/** A new id for this tab. */
export function newClientId(): string {
  const id = `lab-${UUID.uuid4()}`;
  sessionStorage.setItem(KEY, id);
  return id;
}

function isInUse(id: string): Promise<boolean> {
  return new Promise(resolve => {
    const channel = new BroadcastChannel(KEY);
    const settle = (inUse: boolean) => {
      channel.close();
      clearTimeout(timer);
      resolve(inUse);
    };
    const timer = setTimeout(() => settle(false), ANSWER_MS);
    channel.onmessage = event => event.data?.used === id && settle(true);
    channel.postMessage({ asked: id });
  });
}

/** Answer other pages that ask for this id. */
function defend(id: string): string {
  const channel = new BroadcastChannel(KEY);
  channel.onmessage = event => event.data?.asked === id && channel.postMessage({ used: id });
  return id;
}
