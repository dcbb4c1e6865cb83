/** The extension's plugins. */
import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Clipboard, ICommandPalette, showErrorMessage, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { type ITerminal, ITerminalTracker } from '@jupyterlab/terminal';
import { terminalIcon } from '@jupyterlab/ui-components';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import pkg from '../package.json';
import { newClientId, pageClientId } from './clientId';
import { closeTerminal, interruptTerminal, renameTerminal, takeOver } from './commands';
import { ClientConnection } from './connection';
import { detailsOf, holderOf } from './describe';
import { createUnderFreeName } from './names';
import { TerminalsPanel } from './panel';
import type { CreateTerminalParams, TerminalInfo } from './protocol.generated';
import { hasExited } from './reducers';
import { mimePlugin } from './savedOutputs';
import { TerminalView } from './terminalView';
import { serverLink } from './webSocketLink';
import { widgetsPlugin } from './widgets';

const CATEGORY = 'Shared Terminals';

const ids = {
  createNew: 'jupyter-ahp:create-new',
  open: 'jupyter-ahp:open',
  close: 'jupyter-ahp:close',
  interrupt: 'jupyter-ahp:interrupt',
  claim: 'jupyter-ahp:claim',
  rename: 'jupyter-ahp:rename',
  copy: 'jupyter-ahp:copy',
  paste: 'jupyter-ahp:paste'
};

const terminalsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-ahp:terminals',
  description: 'Terminals that this page shares with notebooks and agents: a panel, a view in the main area, commands.',
  autoStart: true,
  optional: [ILabShell, ICommandPalette, ILauncher, ILayoutRestorer, ITerminalTracker, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    labShell: ILabShell | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    restorer: ILayoutRestorer | null,
    stockTerminals: ITerminalTracker | null,
    settings: ISettingRegistry | null
  ) => {
    const { commands, serviceManager } = app;
    const { serverSettings } = serviceManager;
    const tracker = new WidgetTracker<TerminalView>({ namespace: 'jupyter-ahp' });
    const connection = new ClientConnection({
      clientInfo: { name: pkg.name, version: pkg.version, title: app.name },
      link: serverLink(serverSettings),
      renewClientId: newClientId
    });
    const turnedOff = !serviceManager.terminals.isAvailable();
    const panel = new TerminalsPanel({ connection, commands, ids, turnedOff });

    connection.rejected.connect((_, { uri, reason }) => {
      const view = views.get(uri);
      if (view) {
        view.notify(`Not accepted: ${reason}`);
      } else {
        void showErrorMessage('The server did not accept this', reason);
      }
    });

    // The row that was right-clicked, until its menu is done: a menu closes before it runs its command.
    let clickedUri: string | undefined;
    panel.node.addEventListener('contextmenu', event => (clickedUri = TerminalsPanel.uriAt(event.target as Element)));
    app.contextMenu.menu.aboutToClose.connect(() => setTimeout(() => (clickedUri = undefined)));

    /** The terminal a command is meant for: named, right-clicked, chosen in the panel, or in front. */
    const targetOf = (args: ReadonlyPartialJSONObject): TerminalInfo | undefined => {
      const named = (args.uri as string | undefined) ?? clickedUri;
      const isInPanel = panel.node.contains(document.activeElement);
      const uri = named ?? (isInPanel ? panel.currentUri : (tracker.currentWidget?.uri ?? panel.currentUri));
      return panel.terminals.find(info => info.resource === uri);
    };

    // The user's own terminal settings: font, theme, scrollback; none where Lab's terminals are disabled.
    const terminalSettings = settings?.load('@jupyterlab/terminal-extension:plugin').catch(() => undefined);

    const views = new Map<string, TerminalView>();
    const show = async (uri: string, creation?: TerminalView.IOptions['creation']): Promise<TerminalView> => {
      const terminalOptions = ((await terminalSettings)?.composite ?? {}) as Partial<ITerminal.IOptions>;
      const known = views.get(uri);
      if (known && !known.isGone && known.isAttached) {
        app.shell.activateById(known.id);
        return known;
      }
      known?.dispose(); // its name may be in use again, or a restored layout has left it out
      const view = new TerminalView({ uri, connection, serverSettings, terminalOptions, creation });
      views.set(uri, view);
      view.disposed.connect(() => views.get(uri) === view && views.delete(uri));
      void tracker.add(view); // before it is in the layout, which is saved at once and by the tracker's names
      // Notebook 7 has one main widget per page and ignores further ones.
      app.shell.add(view, labShell ? 'main' : 'down', { type: 'Terminal' });
      app.shell.activateById(view.id);
      try {
        await view.started;
      } catch (error) {
        view.dispose();
        throw error;
      }
      if (view.isVisible && (!labShell || labShell.currentWidget === view)) {
        view.activate(); // at the first time its terminal was not there yet to take the focus
      }
      // Themes, fonts and live settings; Lab neither saves nor restores what is injected.
      stockTerminals?.inject(view);
      return view;
    };

    const isLive = () => connection.status === 'live';
    const isRunning = (info: TerminalInfo | undefined) => info !== undefined && !hasExited(info);
    const isHeldElsewhere = (info: TerminalInfo | undefined) =>
      info !== undefined && !['self', 'session'].includes(holderOf(info, connection.clientId).role);
    const addForTarget = (
      id: string,
      label: string,
      isEnabled: (info: TerminalInfo | undefined) => boolean,
      execute: (info: TerminalInfo) => unknown
    ) =>
      commands.addCommand(id, {
        label,
        isEnabled: args => isLive() && isEnabled(targetOf(args)),
        execute: async args => {
          const info = targetOf(args);
          return info && (await execute(info));
        },
        describedBy: { args: { type: 'object', properties: { uri: { type: 'string', description: "The terminal's URI" } } } }
      });

    commands.addCommand(ids.createNew, {
      label: args => (args.isPalette ? 'New Shared Terminal' : 'Shared Terminal'),
      caption: 'A terminal that notebooks and agents can share',
      icon: terminalIcon,
      isEnabled: isLive,
      execute: async args => {
        const cwd = args.cwd as string | undefined;
        const shell = args.shell as string | undefined;
        const options: Omit<CreateTerminalParams, 'channel' | 'claim'> = {
          ...(cwd && { cwd }),
          ...(shell && { _meta: { 'x-terminal': { shell } } })
        };
        try {
          return await createUnderFreeName(
            () => panel.terminals,
            (uri, creation) => show(uri, { ...options, ...creation })
          );
        } catch (error) {
          await showErrorMessage('The terminal was not created', (error as Error).message);
          return undefined;
        }
      },
      describedBy: {
        args: {
          type: 'object',
          properties: {
            cwd: { type: 'string', description: 'The folder to start in, as a file: URI' },
            shell: { type: 'string', description: "The shell's name or path" }
          }
        }
      }
    });
    commands.addCommand(ids.open, {
      label: 'Open Terminal',
      isEnabled: args => typeof args.uri === 'string' || targetOf(args) !== undefined,
      execute: async args => {
        const uri = (args.uri as string | undefined) ?? targetOf(args)?.resource;
        return uri === undefined ? undefined : show(uri);
      },
      describedBy: { args: { type: 'object', properties: { uri: { type: 'string', description: "The terminal's URI" } } } }
    });
    addForTarget(
      ids.close,
      'Close Terminal…',
      info => info !== undefined,
      async info => {
        const view = views.get(info.resource);
        if (await closeTerminal(connection, info)) {
          view?.dispose();
        }
      }
    );
    addForTarget(
      ids.interrupt,
      'Interrupt Command',
      info => isRunning(info) && detailsOf(info!)?.running !== undefined,
      info => interruptTerminal(connection, info)
    );
    addForTarget(
      ids.claim,
      'Take Over Terminal',
      info => isRunning(info) && isHeldElsewhere(info),
      info => takeOver(connection, info.resource)
    );
    addForTarget(ids.rename, 'Rename Terminal…', isRunning, info => renameTerminal(connection, info));

    // Lab's own items for copy and paste stay grey on a view that is not its own.
    commands.addCommand(ids.copy, {
      label: 'Copy',
      isEnabled: () => tracker.currentWidget?.content.hasSelection() ?? false,
      execute: () => Clipboard.copyToSystem(tracker.currentWidget?.content.getSelection() ?? '')
    });
    commands.addCommand(ids.paste, {
      label: 'Paste',
      isEnabled: () => tracker.currentWidget !== null,
      execute: async () => tracker.currentWidget?.paste(await navigator.clipboard.readText())
    });

    const forTarget = [ids.open, ids.interrupt, ids.claim, ids.rename, ids.close];
    forTarget.forEach((command, rank) => {
      app.contextMenu.addItem({ command, selector: '.jp-AhpPanel-row', rank });
      palette?.addItem({ command, category: CATEGORY });
    });
    // Before Lab's own items, whose ranks begin at 1.
    [ids.copy, ids.paste, ...forTarget.slice(1)].forEach((command, index) =>
      app.contextMenu.addItem({ command, selector: '.jp-AhpTerminal .jp-Terminal', rank: index / 10 })
    );
    palette?.addItem({ command: ids.createNew, category: CATEGORY, args: { isPalette: true } });
    launcher?.add({ command: ids.createNew, category: 'Other', rank: 1 });

    const refresh = () => commands.notifyCommandChanged();
    connection.statusChanged.connect(refresh);
    panel.changed.connect(refresh);

    app.shell.add(panel, 'left', { rank: 900, type: 'Terminals' });
    if (restorer) {
      restorer.add(panel, panel.id);
      void restorer.restore(tracker, { command: ids.open, args: view => ({ uri: view.uri }), name: view => view.uri });
    }
    if (!turnedOff) {
      void pageClientId().then(clientId => connection.start(clientId));
    }
  }
};

export default [terminalsPlugin, widgetsPlugin, mimePlugin];
