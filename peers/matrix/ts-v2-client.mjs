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

await run(async (target, { transport, mode }, { elicit, sample, updated, changed }) => {
  const versionNegotiation = mode in negotiation ? negotiation[mode] : { mode: { pin: mode } };
  const capabilities = { sampling: {}, elicitation: {} };
  const client = new Client({ name: 'ts-v2', version: '1' }, { capabilities, versionNegotiation });
  client.setRequestHandler('elicitation/create', elicit);
  client.setRequestHandler('sampling/createMessage', sample);
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => updated(params.uri));
  client.setNotificationHandler('notifications/tools/list_changed', changed);
  await client.connect(transports[transport](target));
  const protocol = () => client.getNegotiatedProtocolVersion();
  return {
    client,
    protocol,
    call: (name, params, options) => client.callTool({ name, arguments: params }, options),
    watch: (uri) =>
      protocol() === STATELESS ? client.listen({ resourceSubscriptions: [uri] }) : client.subscribeResource({ uri }),
    follow: async () => protocol() === STATELESS && client.listen({ toolsListChanged: true }),
  };
});
