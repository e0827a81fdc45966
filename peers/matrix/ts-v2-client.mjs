// The current line of the TypeScript SDK as a client of ours: see session.mjs. Modes: default, auto, or a revision.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { run } from './session.mjs';

const STATELESS = '2026-07-28';
const transports = {
  stdio: ([command, ...args]) => new StdioClientTransport({ command, args }),
  http: (url) => new StreamableHTTPClientTransport(new URL(url)),
  sse: (url) => new SSEClientTransport(new URL(url)),
};
const negotiation = { default: undefined, auto: { mode: 'auto' } };

await run(async (target, { transport, mode, declares }, { elicit, sample, roots, updated, changed, logged }) => {
  const versionNegotiation = mode in negotiation ? negotiation[mode] : { mode: { pin: mode } };
  const capabilities = { sampling: {}, elicitation: {}, ...declares };
  const about = { name: 'ts-v2', title: 'A client', version: '1' };
  const client = new Client(about, { capabilities, versionNegotiation });
  client.setRequestHandler('elicitation/create', elicit);
  client.setRequestHandler('sampling/createMessage', sample);
  if (capabilities.roots) client.setRequestHandler('roots/list', roots);
  if (logged) client.setNotificationHandler('notifications/message', ({ params }) => logged(params));
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => updated(params.uri));
  client.setNotificationHandler('notifications/tools/list_changed', changed);
  await client.connect(transports[transport](target));
  const protocol = () => client.getNegotiatedProtocolVersion();
  return {
    client,
    protocol,
    call: (name, params, options, _meta) => client.callTool({ name, arguments: params, _meta }, options),
    watch: (uri) =>
      protocol() === STATELESS ? client.listen({ resourceSubscriptions: [uri] }) : client.subscribeResource({ uri }),
    follow: async () => protocol() === STATELESS && client.listen({ toolsListChanged: true }),
  };
});
