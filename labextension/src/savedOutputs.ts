/** Has JupyterLab show the commands that a notebook has kept as they looked while they ran. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { RANK, rendererFactory } from './commandRenderer';

export const mimePlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-ahp:saved-outputs',
  description: 'Shows the commands that a notebook has kept.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  activate: (_: JupyterFrontEnd, registry: IRenderMimeRegistry) => {
    registry.addFactory(rendererFactory(mimeType => registry.createRenderer(mimeType)), RANK);
  }
};
