/** A page for tests of views: import it before whatever needs one. */
import { JSDOM } from 'jsdom';

const { window } = new JSDOM('<!DOCTYPE html><body></body>', { pretendToBeVisual: true });

/** What was put on the clipboard, in order. */
export const clipboard: string[] = [];

const NAMES = [
  ...['document', 'Node', 'Element', 'HTMLElement', 'HTMLAnchorElement', 'MutationObserver', 'Event', 'MouseEvent', 'KeyboardEvent'],
  ...['DocumentFragment', 'DOMParser', 'getComputedStyle', 'requestAnimationFrame', 'cancelAnimationFrame']
] as const;

for (const name of NAMES) {
  Object.defineProperty(globalThis, name, { value: window[name], configurable: true, writable: true });
}
Object.defineProperty(globalThis, 'window', { value: window, configurable: true });
Object.defineProperty(globalThis, 'navigator', {
  value: {
    platform: 'Linux',
    userAgent: 'test',
    clipboard: { writeText: (text: string) => Promise.resolve(void clipboard.push(text)) }
  },
  configurable: true
});
// jsdom has none.
Object.defineProperty(globalThis, 'DragEvent', { value: class DragEvent extends window.MouseEvent {}, configurable: true });

/** Wait for what a view draws later. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + 5_000;
  while (!condition()) {
    if (performance.now() > deadline) {
      throw new Error(`not seen in time: ${what}\n${document.body.innerHTML}`);
    }
    await new Promise(done => setTimeout(done, 10));
  }
}
