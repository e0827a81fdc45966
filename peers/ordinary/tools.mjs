// What the JavaScript servers of this folder have in common.
export const STORY = 'story://one';
export const LEVELS = ['debug', 'info', 'warning', 'error'];
export const FORM = { type: 'object', properties: { name: { type: 'string', title: 'Name' } }, required: ['name'] };
export const MESSAGES = [{ role: 'user', content: { type: 'text', text: 'Which city?' } }];
export const ABOUT = {
  name: 'ordinary',
  title: 'An ordinary server',
  version: '1.2.3',
  websiteUrl: 'https://example.org/ordinary',
  icons: [{ src: 'https://example.org/icon.png', mimeType: 'image/png', sizes: ['48x48'] }],
};
export const DECLARED = {
  logging: {},
  resources: { subscribe: true },
  experimental: { 'org.example/trial': { depth: 2 } },
  extensions: { 'org.example/view': { mimeTypes: ['text/html'] } },
};

export const text = (words) => ({ content: [{ type: 'text', text: words }] });

export const cities = (start) => ['Basel', 'Bern', 'Brig', 'Chur'].filter((city) => city.startsWith(start));

/** Reports progress in three steps; some clients lose a report that comes together with the reply. */
export async function count(report) {
  for (const step of [1, 2, 3]) {
    await report(step, 4, `step ${step}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return text('counted');
}

let cancelled = 0;

/** Reports once, and then waits to be cancelled. */
export async function linger(report, signal) {
  signal.addEventListener('abort', () => {
    cancelled += 1;
  });
  await report(1, 100);
  await new Promise((resolve) => {
    signal.addEventListener('abort', resolve);
    setTimeout(resolve, 60_000).unref();
  });
  return text('lingered');
}

export const lingered = () => text(String(cancelled));
