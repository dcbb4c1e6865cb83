import { until } from './dom';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { JSONObject } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';
import { COMMAND_MIME } from '../src/protocol.generated';
import { isReadable, rendererFactory } from '../src/commandRenderer';

class FakeModel implements IRenderMime.IMimeModel {
  constructor(readonly data: JSONObject, public metadata: JSONObject = {}) {}

  readonly trusted = false;

  setData(options: IRenderMime.IMimeModel.ISetDataOptions): void {
    this.metadata = (options.metadata ?? this.metadata) as JSONObject;
  }
}

class FakeRenderer extends Widget implements IRenderMime.IRenderer {
  constructor(private readonly _mimeType: string) {
    super();
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.node.textContent = `${this._mimeType}: ${model.data[this._mimeType] as string}`;
    return Promise.resolve();
  }
}

const factory = rendererFactory(mimeType => new FakeRenderer(mimeType));
const create = (): IRenderMime.IRenderer => factory.createRenderer({} as IRenderMime.IRendererOptions);

const command = (lines: number): JSONObject => ({
  commandId: 'c1',
  commandLine: 'seq',
  output: { head: Array.from({ length: lines }, (_, n) => [{ text: `${n}` }]), tail: [], omittedLines: 0, omittedBytes: 0 },
  timestamp: 1,
  isComplete: true,
  exitCode: 0
});
const bundle = (lines = 1, version = 1): JSONObject => ({ version, terminal: 'ahp-terminal:/t', title: 't', commands: [command(lines)] });

test('a bundle is rendered also in an untrusted notebook, and before its HTML', () => {
  assert.equal(factory.safe, true);
  assert.deepEqual(factory.mimeTypes, [COMMAND_MIME]);
  assert.ok(factory.defaultRank! < 50);
});

test('a bundle of this version is shown as the live view shows it', async () => {
  const renderer = create();
  await renderer.renderModel(new FakeModel({ [COMMAND_MIME]: bundle(), 'text/html': '<b>' }));
  assert.equal(renderer.node.querySelector('.jp-AhpCommand-output')!.textContent, '0\n');
  renderer.dispose();
});

test('a newer bundle is shown by its HTML, else by its text, else it says what is wrong', async () => {
  const renderer = create();
  await renderer.renderModel(new FakeModel({ [COMMAND_MIME]: bundle(1, 2), 'text/html': 'new', 'text/plain': 'x' }));
  assert.equal(renderer.node.textContent, 'text/html: new');
  await renderer.renderModel(new FakeModel({ [COMMAND_MIME]: bundle(1, 2), 'text/plain': 'x' }));
  assert.equal(renderer.node.textContent, 'text/plain: x');
  await renderer.renderModel(new FakeModel({ [COMMAND_MIME]: bundle(1, 2) }));
  assert.match(renderer.node.textContent!, /newer version/);
  await renderer.renderModel(new FakeModel({ [COMMAND_MIME]: bundle() }));
  assert.equal(renderer.node.querySelector('.jp-AhpCommand-output')!.textContent, '0\n');
  renderer.dispose();
});

test('what is no bundle is not taken for one', () => {
  const wrong: unknown[] = [null, undefined, 1, 'x', [], {}, { version: 1 }, { version: 1, commands: [null] }];
  wrong.push({ version: 1, commands: [{ commandLine: 'x', output: { head: [[{}]], tail: [] } }] });
  wrong.push({ version: 1, commands: [{ commandLine: 'x', output: { head: [['x']], tail: [] } }] });
  wrong.push({ version: 1, commands: [{ commandLine: 'x', output: null }] });
  for (const value of wrong) {
    assert.equal(isReadable(value), false, JSON.stringify(value));
  }
  assert.ok(isReadable(bundle()));
});

test('what is folded is kept in the output and in force when it is rendered again', async () => {
  const model = new FakeModel({ [COMMAND_MIME]: bundle(100) }, { other: 1 });
  const renderer = create();
  await renderer.renderModel(model);
  const rows = (widget: Widget): number => widget.node.querySelectorAll('.jp-AhpCommand-row').length;
  assert.equal(rows(renderer), 30);
  renderer.node.querySelector<HTMLButtonElement>('.jp-AhpCommand-fold')!.click();
  assert.deepEqual(model.metadata, { other: 1, [COMMAND_MIME]: { folded: { c1: false } } });
  await until(() => rows(renderer) === 100, 'all lines');
  const again = create();
  await again.renderModel(model);
  assert.equal(rows(again), 100);
  renderer.dispose();
  again.dispose();
});
