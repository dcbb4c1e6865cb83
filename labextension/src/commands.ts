/** What can be done with a terminal from the page; each returns once the host has answered. */
import { Dialog, InputDialog, Notification, showDialog, showErrorMessage } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import type { ClientConnection } from './connection';
import { detailsOf, holderOf } from './describe';
import type { SignalResult, Survivor, TerminalClaim, TerminalInfo } from './protocol.generated';
import { hasExited } from './reducers';

/**
 * End a terminal, after asking if something would be lost, and name what goes on all the same.
 *
 * @returns Whether it was closed.
 */
export async function closeTerminal(connection: ClientConnection, info: TerminalInfo): Promise<boolean> {
  const { running } = detailsOf(info) ?? {};
  const holder = holderOf(info, connection.clientId);
  const reasons = [
    running && `It runs: ${running.commandLine}`,
    holder.role !== 'self' && `It is held by ${holder.text}.`
  ].filter((reason): reason is string => Boolean(reason));
  if (!hasExited(info) && reasons.length > 0) {
    const { button } = await showDialog({
      title: `Close ${info.title}?`,
      body: textBody(...reasons, 'Closing it ends its processes.'),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: 'Close Terminal' })]
    });
    if (!button.accept) {
      return false;
    }
  }
  if (holder.role === 'kernel' && !hasExited(info)) {
    takeOver(connection, info.resource);
  }
  return attempt(`${info.title} was not closed`, async () => {
    const { survivors } = await connection.request<SignalResult>('x-terminal/close', { channel: info.resource });
    if (survivors.length > 0) {
      await showDialog({
        title: `${info.title} is closed; these processes go on`,
        body: textBody(survivorsText(survivors), "They left the terminal's session on purpose, so closing it does not end them."),
        buttons: [Dialog.okButton()]
      });
    }
  });
}

/** Interrupt the running command; never the shell. */
export async function interruptTerminal(connection: ClientConnection, info: TerminalInfo): Promise<void> {
  await attempt(`${info.title} was not interrupted`, async () => {
    const params = { channel: info.resource, signal: 'interrupt' };
    const { survivors } = await connection.request<SignalResult>('x-terminal/signal', params);
    if (survivors.length > 0) {
      Notification.warning(`Still running in ${info.title}: ${survivorsText(survivors)}`);
    }
  });
}

/** Give a terminal a name that programs cannot overwrite. */
export async function renameTerminal(connection: ClientConnection, info: TerminalInfo): Promise<void> {
  const { value } = await InputDialog.getText({
    title: 'Rename Terminal',
    label: 'Name',
    text: info.title,
    okLabel: 'Rename'
  });
  const title = value?.trim();
  if (!title || title === info.title) {
    return;
  }
  const isKernels = holderOf(info, connection.clientId).role === 'kernel';
  if (isKernels) {
    takeOver(connection, info.resource);
  }
  connection.dispatch(info.resource, { type: 'terminal/titleChanged', title });
  if (isKernels) {
    claim(connection, info.resource, info.claim);
  }
}

/** Ask to be the holder. */
export function takeOver(connection: ClientConnection, uri: string): void {
  claim(connection, uri, { kind: 'client', clientId: connection.clientId });
}

function claim(connection: ClientConnection, uri: string, holder: TerminalClaim): void {
  connection.dispatch(uri, { type: 'terminal/claimed', claim: holder });
}

function textBody(...paragraphs: string[]): Widget {
  const body = new Widget();
  paragraphs.forEach(text => body.node.appendChild(document.createElement('p')).append(text));
  return body;
}

function survivorsText(survivors: readonly Survivor[]): string {
  return survivors.map(({ pid, name }) => `${name} (${pid})`).join(', ');
}

async function attempt(failure: string, action: () => Promise<void>): Promise<boolean> {
  try {
    await action();
    return true;
  } catch (error) {
    await showErrorMessage(failure, (error as Error).message);
    return false;
  }
}
