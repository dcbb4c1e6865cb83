/** Renders commands that a notebook has kept, as they looked while they ran. */
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { JSONObject } from '@lumino/coreutils';
import { PanelLayout, Widget } from '@lumino/widgets';
import { CommandView } from './commandView';
import { COMMAND_MIME, type CommandBundle, type SavedCommand } from './protocol.generated';

const VERSION = 1;

/** Before text/html, whose rank is 50, and whatever comes before that. */
export const RANK = 0;

/** Used for what this version cannot read, in this order. */
const FALLBACKS = ['text/html', 'text/plain'];

/** Whether a value is a bundle that this version can show. A notebook may come from anybody. */
export function isReadable(value: unknown): value is CommandBundle {
  const bundle = value as Partial<CommandBundle> | null | undefined;
  return bundle?.version === VERSION && Array.isArray(bundle.commands) && bundle.commands.every(isCommand);
}

function isCommand(value: unknown): boolean {
  const command = value as Partial<SavedCommand> | null;
  return (
    typeof command?.commandId === 'string' &&
    typeof command.commandLine === 'string' &&
    isLines(command.output?.head) &&
    isLines(command.output?.tail)
  );
}

function isLines(value: unknown): boolean {
  return Array.isArray(value) && value.every(line => Array.isArray(line) && line.every(isRun));
}

function isRun(value: unknown): boolean {
  return typeof (value as { text?: unknown } | null)?.text === 'string';
}

/** One output cell's renderer; it is asked again whenever the output changes. */
class CommandRenderer extends Widget implements IRenderMime.IRenderer {
  constructor(private readonly _fallback: (mimeType: string) => IRenderMime.IRenderer) {
    super();
    this.addClass('jp-AhpSavedOutput');
    this.layout = new PanelLayout();
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._model = model;
    const bundle = model.data[COMMAND_MIME];
    if (!isReadable(bundle)) {
      await this._renderOtherwise(model);
    } else if (this._view) {
      this._view.setBundle(bundle);
    } else {
      const kept = model.metadata[COMMAND_MIME] as JSONObject | undefined;
      const folded = kept?.folded as Record<string, boolean> | undefined;
      this._view = new CommandView({ bundle, folded, onFold: folded => this._keep(folded) });
      this._setOnly(this._view);
    }
  }

  private async _renderOtherwise(model: IRenderMime.IMimeModel): Promise<void> {
    const mimeType = FALLBACKS.find(type => model.data[type] !== undefined);
    this._view = null;
    if (mimeType === undefined) {
      this._setOnly(null);
      this.node.textContent = 'This output was made by a newer version of jupyter-ahp.';
    } else {
      const renderer = this._fallback(mimeType);
      this._setOnly(renderer);
      await renderer.renderModel(model);
    }
  }

  /** What is folded is saved with the notebook. */
  private _keep(folded: Readonly<Record<string, boolean>>): void {
    const { metadata } = this._model!;
    this._model!.setData({ metadata: { ...metadata, [COMMAND_MIME]: { folded: { ...folded } } } });
  }

  private _setOnly(child: Widget | null): void {
    const layout = this.layout as PanelLayout;
    [...layout.widgets].forEach(widget => widget.dispose());
    this.node.textContent = '';
    if (child) {
      layout.addWidget(child);
    }
  }

  private _model: IRenderMime.IMimeModel | null = null;
  private _view: CommandView | null = null;
}

/** A factory of renderers; `fallback` makes one for another MIME type. */
export function rendererFactory(fallback: (mimeType: string) => IRenderMime.IRenderer): IRenderMime.IRendererFactory {
  return {
    safe: true,
    mimeTypes: [COMMAND_MIME],
    defaultRank: RANK,
    createRenderer: () => new CommandRenderer(fallback)
  };
}
