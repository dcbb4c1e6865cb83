/**
 * The live view of a run in a cell: the model and the view of the kernel's `CommandWidget`.
 *
 * Its state comes by comm, as the same actions that AHP carries, and is held by the model: two views of one model share it.
 * Nothing of the output is widget state. A page that was reloaded misses what the kernel then puts into the cell; so the kernel
 * also says it by comm, and the page puts it there.
 */
import {
  DOMWidgetModel,
  DOMWidgetView,
  IJupyterWidgetRegistry,
  type ISerializers,
  type WidgetModel
} from '@jupyter-widgets/base';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { type ICodeCellModel, isCodeCellModel } from '@jupyterlab/cells';
import type { IMimeBundle, IOutput } from '@jupyterlab/nbformat';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { JSONObject } from '@lumino/coreutils';
import { PanelLayout } from '@lumino/widgets';
import pkg from '../package.json';
import { CommandView } from './commandView';
import { CommSubscription, type KernelMessage } from './commSubscription';
import { COMMAND_MIME, type CommandBundle } from './protocol.generated';

const VIEW_MIME = 'application/vnd.jupyter.widget-view+json';

/** How long after its model a view's output may come; a page that was reloaded gets the model alone. */
const DISPLAY_WITHIN_MS = 1_500;

const DISCONNECTED = 'No longer connected: the kernel has restarted or is gone.';

export class CommandModel extends DOMWidgetModel {
  static serializers: ISerializers = { ...DOMWidgetModel.serializers };

  /** The notebooks of this page; none in a page without notebooks. */
  static notebooks: INotebookTracker | null = null;

  defaults(): Backbone.ObjectHash {
    return {
      ...super.defaults(),
      _model_name: 'CommandModel',
      _model_module: pkg.name,
      _model_module_version: pkg.version,
      _view_name: 'CommandView',
      _view_module: pkg.name,
      _view_module_version: pkg.version,
      terminal: '',
      title: '',
      cell_id: '',
      display_id: '',
      run_id: '',
      ended: false
    };
  }

  initialize(attributes: Backbone.ObjectHash, options: Parameters<DOMWidgetModel['initialize']>[1]): void {
    super.initialize(attributes, options);
    this.subscription = new CommSubscription(
      () => this.get('terminal') as string,
      content => this.send(content, {})
    );
    this.listenTo(this, 'msg:custom', this._onMessage);
    this.listenTo(this, 'comm_live_update', this._onCommLive);
    this.listenTo(this, 'comm:close', () => this.subscription.end(DISCONNECTED));
    this._onCommLive();
    setTimeout(() => this._restore(), DISPLAY_WITHIN_MS);
  }

  /** Ask the kernel for the state; it answers every page. */
  request(viewId: string): void {
    if (this.comm_live) {
      this.send({ method: 'snapshot', viewId }, {});
    }
  }

  interrupt(): void {
    this.send({ method: 'x-terminal/signal', params: { signal: 'interrupt' } }, {});
  }

  private _onMessage(message: KernelMessage): void {
    if (message.method === 'bundle') {
      this._placeBundle(message.mimebundle);
    } else {
      this.subscription.receive(message);
    }
  }

  private _onCommLive(): void {
    if (!this.comm_live) {
      this.subscription.end(DISCONNECTED);
    }
  }

  /** Put what the run has left into its cell: in place of the live view, or where the file has less of this cell. */
  private _placeBundle(data: IMimeBundle): void {
    const output: IOutput = { output_type: 'display_data', data, metadata: {} };
    for (const cell of this._cells()) {
      const at = this._indexIn(cell);
      if (at >= 0) {
        cell.outputs.set(at, output);
      } else if (this._isRestored) {
        this._placeMissed(cell, output, data);
      }
    }
  }

  /** The update came while no page listened. A later run's bundle stays; so does any other output. */
  private _placeMissed(cell: ICodeCellModel, output: IOutput, data: IMimeBundle): void {
    const started = (value: unknown) => (value as CommandBundle | undefined)?.commands?.[0]?.timestamp ?? 0;
    for (let index = 0; index < cell.outputs.length; index++) {
      const kept = cell.outputs.get(index).data[COMMAND_MIME] as CommandBundle | undefined;
      if (kept) {
        if (started(kept) < started(data[COMMAND_MIME])) {
          cell.outputs.set(index, output);
        }
        return;
      }
    }
    if (cell.outputs.length === 0) {
      cell.outputs.add(output);
    }
  }

  /** A page that was reloaded gets the model from the kernel, and not what was sent while it was away. */
  private _restore(): void {
    if (!this.comm_live) {
      return;
    }
    if (this.get('ended')) {
      this._isRestored = true;
      this.request('');
    } else {
      this._restoreView();
    }
  }

  /** A run that goes on is shown in its cell also where the file was saved before its output came. */
  private _restoreView(): void {
    const view = { version_major: 2, version_minor: 0, model_id: this.model_id };
    const data = { [VIEW_MIME]: view, 'text/plain': `A command is running in the terminal ${this.get('title') as string}.` };
    for (const cell of this._cells()) {
      if (this._indexIn(cell) >= 0) {
        continue;
      }
      if (cell.outputs.length === 0) {
        // A notebook that is not trusted shows no widgets. What is in this cell is only ours; elsewhere it would trust the rest.
        cell.trusted = true;
      }
      cell.outputs.add({ output_type: 'display_data', data, metadata: {} });
    }
  }

  /** The run's cell in each open notebook that has it. */
  private _cells(): ICodeCellModel[] {
    const found: ICodeCellModel[] = [];
    CommandModel.notebooks?.forEach(panel => {
      for (const cell of panel.content.model?.cells ?? []) {
        if (cell.id === this.get('cell_id') && isCodeCellModel(cell)) {
          found.push(cell);
        }
      }
    });
    return found;
  }

  /** Where the cell shows this model; -1 where it does not. */
  private _indexIn(cell: ICodeCellModel): number {
    for (let index = 0; index < cell.outputs.length; index++) {
      const view = cell.outputs.get(index).data[VIEW_MIME] as JSONObject | undefined;
      if (view?.model_id === this.model_id) {
        return index;
      }
    }
    return -1;
  }

  subscription!: CommSubscription;
  private _isRestored?: boolean; // no initialiser: the base constructor already runs initialize()
}

export class CommandWidgetView extends DOMWidgetView {
  render(): void {
    const model = this.model as CommandModel;
    this.el.classList.add('jp-AhpWidget');
    const layout = new PanelLayout();
    layout.addWidget(new CommandView({ subscription: model.subscription, onInterrupt: () => model.interrupt() }));
    this.luminoWidget.layout = layout;
    void this.displayed.then(() => model.request(this.cid));
  }
}

export const widgetsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-ahp:widgets',
  description: 'The live view of a command in a notebook cell.',
  autoStart: true,
  // Without the widget manager the rest of the extension lives on; the token's package has its own copy of Lumino's types.
  optional: [IJupyterWidgetRegistry as unknown as typeof INotebookTracker, INotebookTracker],
  activate: (_: JupyterFrontEnd, registry: IJupyterWidgetRegistry | null, notebooks: INotebookTracker | null) => {
    CommandModel.notebooks = notebooks;
    registry?.registerWidget({
      name: pkg.name,
      version: pkg.version,
      exports: { CommandModel: CommandModel as typeof WidgetModel, CommandView: CommandWidgetView }
    });
  }
};
