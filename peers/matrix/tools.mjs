// What the JavaScript servers of the matrix have in common.

export const WATCHED = 'test://watched';
export const FORM = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };

export const text = (words) => ({ content: [{ type: 'text', text: words }] });

/** Reports progress in three steps; some clients lose a report that comes together with the reply. */
export async function count(report) {
  for (const step of [1, 2, 3]) {
    await report(step, 3);
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

/** How many calls were cancelled, of all sessions. */
export const lingered = () => text(String(cancelled));
