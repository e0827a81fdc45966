// A browser, as far as a login needs one: it keeps cookies, follows redirects and fills in the two forms of the provider.
// Told an address and what the person does (`agrees`, `declines`, `is-fooled`: comes back with a state that is not ours),
// it prints the last page.

const [, , address, manner] = process.argv;
const jars = new Map();

async function visit(url, form) {
  const jar = jars.get(url.host) ?? new Map();
  jars.set(url.host, jar);
  const headers = { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') };
  const body = form && new URLSearchParams(form);
  const answer = await fetch(url, { method: form ? 'POST' : 'GET', headers, body, redirect: 'manual' });
  for (const cookie of answer.headers.getSetCookie()) {
    const [name, value] = cookie.split(';', 1)[0].split(/=(.*)/s);
    jar.set(name, value);
  }
  const next = answer.headers.get('location');
  if (next) {
    const place = new URL(next, url);
    if (manner === 'is-fooled' && place.searchParams.has('code')) place.searchParams.set('state', 'somebody-elses');
    return visit(place);
  }
  return { url, status: answer.status, text: await answer.text() };
}

let page = await visit(new URL(address));
while (page.url.pathname.startsWith('/interaction/')) {
  const [, target] = page.text.match(/<form[^>]*action="([^"]+)"/);
  const [, prompt] = page.text.match(/name="prompt" value="([^"]+)"/);
  if (manner === 'declines' && prompt === 'consent') {
    page = await visit(new URL(`${page.url.pathname}/abort`, page.url));
  } else {
    page = await visit(new URL(target, page.url), prompt === 'login' ? { prompt, login: 'ada', password: 'x' } : { prompt });
  }
}
console.log(JSON.stringify({ path: page.url.pathname, status: page.status, text: page.text }));
