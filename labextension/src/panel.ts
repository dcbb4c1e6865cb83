/** The list of the server's terminals, live, in the left area. Names, folders and commands come from programs: only ever text. */
import { closeIcon, editIcon, LabIcon, stopIcon, terminalIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import type { Subscription } from './channel';
import type { ClientConnection } from './connection';
import { detailsOf, endText, folderText, holderOf, outcomeText } from './describe';
import { nameOf } from './names';
import type { RootState, TerminalInfo } from './protocol.generated';
import { hasExited } from './reducers';

/** The commands that the panel's buttons and keys stand for. */
export interface IPanelCommands {
  readonly createNew: string;
  readonly open: string;
  readonly close: string;
  readonly interrupt: string;
  readonly rename: string;
}

type Condition = 'running' | 'idle' | 'failed' | 'ended';

export class TerminalsPanel extends Widget {
  constructor(private readonly _options: TerminalsPanel.IOptions) {
    super();
    this.id = 'jupyter-ahp-panel';
    this.addClass('jp-AhpPanel');
    this.title.icon = terminalIcon;
    this.title.caption = 'Shared terminals';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Shared terminals');

    const heading = element('h2', 'jp-AhpPanel-heading', 'Shared Terminals');
    const header = element('div', 'jp-AhpPanel-header');
    const createNew = element('button', 'jp-AhpButton', 'New');
    createNew.type = 'button';
    createNew.title = 'New shared terminal';
    createNew.onclick = () => void _options.commands.execute(_options.ids.createNew);
    this._createNew = createNew;
    header.append(heading, createNew);
    this._notice.setAttribute('role', 'status');
    this._list.setAttribute('aria-label', 'Terminals');
    this._list.setAttribute('role', 'list');
    this.node.append(header, this._notice, this._list);

    this._root = _options.connection.subscribeRoot();
    this._root.changed.connect(this.update, this);
    this._root.statusChanged.connect(this.update, this);
    _options.connection.statusChanged.connect(this.update, this);
    this.update();
  }

  /** The list or the connection has changed. */
  readonly changed = new Signal<this, void>(this);

  /** The terminal whose row has the focus, or had it last. */
  get currentUri(): string | null {
    return this._rows.has(this._currentUri) ? this._currentUri : null;
  }

  get terminals(): readonly TerminalInfo[] {
    return this._root.state?.terminals ?? [];
  }

  dispose(): void {
    if (!this.isDisposed) {
      Signal.disconnectReceiver(this);
      this._root.dispose();
      super.dispose();
    }
  }

  handleEvent(event: Event): void {
    if (event.type === 'focusin') {
      this._onFocus(event.target as Node);
    } else if (event instanceof KeyboardEvent) {
      this._onKey(event);
    }
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._list.addEventListener('keydown', this);
    this._list.addEventListener('focusin', this);
  }

  protected onBeforeDetach(message: Message): void {
    this._list.removeEventListener('keydown', this);
    this._list.removeEventListener('focusin', this);
    super.onBeforeDetach(message);
  }

  protected onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    (this._rows.get(this._currentUri)?.openButton ?? this._createNew).focus();
  }

  protected onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    const { terminals } = this;
    const uris = new Set(terminals.map(info => info.resource));
    for (const [uri, row] of this._rows) {
      if (!uris.has(uri)) {
        const hadFocus = row.node.contains(document.activeElement);
        const next = (row.node.nextElementSibling ?? row.node.previousElementSibling)?.querySelector('button');
        row.node.remove();
        this._rows.delete(uri);
        if (hadFocus) {
          (next ?? this._createNew).focus();
        }
      }
    }
    terminals.forEach((info, index) => {
      let row = this._rows.get(info.resource);
      if (!row) {
        row = new Row(info.resource, this._options);
        this._rows.set(info.resource, row);
      }
      row.show(info, this._options.connection.clientId);
      if (this._list.children[index] !== row.node) {
        this._list.insertBefore(row.node, this._list.children[index] ?? null);
      }
    });
    if (!this._rows.has(this._currentUri)) {
      this._currentUri = terminals[0]?.resource ?? '';
    }
    this._rove();
    this._explain();
    this.changed.emit();
  }

  /** What there is instead of a list, or what is wrong with it. */
  private _explain(): void {
    const { connection, turnedOff } = this._options;
    const isLive = connection.status === 'live';
    let text = '';
    if (turnedOff) {
      text = 'Terminals are turned off on this server by its administrator.';
    } else if (connection.status === 'connecting') {
      text = 'Connecting…';
    } else if (!isLive) {
      text = connection.status === 'refused' ? connection.reason : `Off line: ${connection.reason} Trying again.`;
    } else if (this.terminals.length === 0) {
      text = 'No terminals yet. Make one here, or run a cell that begins with %%terminal.';
    }
    if (this._notice.textContent !== text) {
      this._notice.textContent = text;
    }
    this._notice.hidden = text === '';
    this._createNew.disabled = !isLive;
    this.toggleClass('jp-mod-offline', !isLive);
  }

  /** Tab goes to one row and through its buttons; the arrow keys go from row to row. */
  private _rove(): void {
    this._rows.forEach((row, uri) => row.setReachable(uri === this._currentUri));
  }

  private _onFocus(target: Node): void {
    for (const [uri, row] of this._rows) {
      if (row.node.contains(target)) {
        this._currentUri = uri;
        this._rove();
        return;
      }
    }
  }

  private _onKey(event: KeyboardEvent): void {
    const uris = this.terminals.map(info => info.resource);
    const at = uris.indexOf(this._currentUri);
    const target = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: uris.length - 1 }[event.key];
    if (target !== undefined) {
      this._rows.get(uris[target])?.openButton.focus();
    } else if (event.key === 'Delete') {
      void this._options.commands.execute(this._options.ids.close, { uri: this._currentUri });
    } else if (event.key === 'F2') {
      void this._options.commands.execute(this._options.ids.rename, { uri: this._currentUri });
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private readonly _root: Subscription<RootState>;
  private readonly _rows = new Map<string, Row>();
  private readonly _createNew: HTMLButtonElement;
  private readonly _notice = element('p', 'jp-AhpPanel-notice');
  private readonly _list = element('ul', 'jp-AhpPanel-list');
  private _currentUri = '';
}

export namespace TerminalsPanel {
  export interface IOptions {
    readonly connection: ClientConnection;
    readonly commands: CommandRegistry;
    readonly ids: IPanelCommands;
    /** The administrator has switched terminals off. */
    readonly turnedOff: boolean;
  }

  /** The terminal whose row a node of the panel lies in. */
  export function uriAt(node: Element): string | undefined {
    return node.closest<HTMLElement>('[data-ahp-terminal]')?.dataset.ahpTerminal;
  }
}

class Row {
  constructor(uri: string, { commands, ids }: TerminalsPanel.IOptions) {
    const run = (id: string) => () => void commands.execute(id, { uri });
    this.node.dataset.ahpTerminal = uri;
    this.openButton.type = 'button';
    this.openButton.onclick = run(ids.open);
    this._mark.setAttribute('aria-hidden', 'true');
    const words = element('span', 'jp-AhpPanel-words');
    words.append(this._name, this._command, this._where);
    this.openButton.append(this._mark, words);
    this._interrupt = this._iconButton(stopIcon, run(ids.interrupt));
    this._rename = this._iconButton(editIcon, run(ids.rename));
    this._close = this._iconButton(closeIcon, run(ids.close));
    const buttons = element('span', 'jp-AhpPanel-buttons');
    buttons.append(this._interrupt, this._rename, this._close);
    this.node.append(this.openButton, buttons);
  }

  readonly node = element('li', 'jp-AhpPanel-row');
  readonly openButton = element('button', 'jp-AhpPanel-open');

  show(info: TerminalInfo, clientId: string): void {
    const details = detailsOf(info);
    const end = endText(info);
    const { running, last } = details ?? {};
    const condition: Condition = hasExited(info) ? 'ended' : running ? 'running' : last?.exitCode ? 'failed' : 'idle';
    this.node.dataset.condition = condition;
    const name = nameOf(info.resource);
    const holder = holderOf(info, clientId).text;
    const folder = details?.cwd ? folderText(details.cwd) : '';
    const command = end || (running ? running.commandLine : last ? `last command: ${outcomeText(last)}` : 'at its prompt');
    set(this._name, info.title === name ? name : `${info.title} (${name})`);
    set(this._command, command);
    set(this._where, [holder, folder].filter(Boolean).join(' · '));
    const activity = running && !end ? `running ${running.commandLine}` : command;
    this.openButton.setAttribute('aria-label', `Open ${info.title}: ${activity}; held by ${holder}${folder && `; in ${folder}`}`);
    this.openButton.title = [
      this._name.textContent,
      `held by ${holder}`,
      folder,
      details && `shell: ${details.shell}${details.login ? ' (login)' : ''}`,
      details?.origin && `made for ${details.origin}`,
      running && `running since ${new Date(running.timestamp).toLocaleTimeString()}`,
      details && !['yes', 'pending'].includes(details.tracking) && `commands are not tracked: ${details.tracking}`,
      details?.cullAt && `closed at ${new Date(details.cullAt).toLocaleTimeString()} if nothing happens`
    ]
      .filter(Boolean)
      .join('\n');
    this._interrupt.hidden = condition !== 'running';
    this._rename.hidden = condition === 'ended';
    this._label(this._interrupt, `Interrupt the command in ${info.title}`);
    this._label(this._rename, `Rename ${info.title}`);
    this._label(this._close, `Close ${info.title}`);
  }

  setReachable(isReachable: boolean): void {
    [this.openButton, this._interrupt, this._rename, this._close].forEach(button => (button.tabIndex = isReachable ? 0 : -1));
  }

  private _iconButton(icon: LabIcon, onClick: () => void): HTMLButtonElement {
    const button = element('button', 'jp-AhpButton jp-mod-icon');
    button.type = 'button';
    button.onclick = onClick;
    icon.element({ container: button, stylesheet: 'toolbarButton' });
    return button;
  }

  private _label(button: HTMLButtonElement, text: string): void {
    button.title = text;
    button.setAttribute('aria-label', text);
  }

  private readonly _mark = element('span', 'jp-AhpPanel-mark');
  private readonly _name = element('span', 'jp-AhpPanel-name');
  private readonly _command = element('span', 'jp-AhpPanel-command');
  private readonly _where = element('span', 'jp-AhpPanel-where');
  private readonly _interrupt: HTMLButtonElement;
  private readonly _rename: HTMLButtonElement;
  private readonly _close: HTMLButtonElement;
}

function element<K extends keyof HTMLElementTagNameMap>(tag: K, className: string, text = ''): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

function set(node: HTMLElement, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}
