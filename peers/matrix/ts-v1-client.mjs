// The first line of the TypeScript SDK as a client of ours: see session.mjs.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { run } from './session.mjs';

const transports = {
  stdio: ([command, ...args]) => new StdioClientTransport({ command, args }),
  http: (url) => new StreamableHTTPClientTransport(new URL(url)),
  sse: (url) => new SSEClientTransport(new URL(url)),
};

await run(async (target, { transport: kind, declares }, answers) => {
  const { elicit, sample, roots, updated, changed, logged } = answers;
  const capabilities = { sampling: {}, elicitation: {}, ...declares };
  const client = new Client({ name: 'ts-v1', title: 'A client', version: '1' }, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, elicit);
  client.setRequestHandler(CreateMessageRequestSchema, sample);
  if (capabilities.roots) client.setRequestHandler(ListRootsRequestSchema, roots);
  if (logged) client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => logged(params));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => updated(params.uri));
  client.setNotificationHandler(ToolListChangedNotificationSchema, changed);
  const transport = transports[kind](target);
  let version;
  const agreed = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (revision) => {
    version = revision;
    agreed?.(revision);
  };
  await client.connect(transport);
  return {
    client,
    protocol: () => version,
    call: (name, params, options) => client.callTool({ name, arguments: params }, undefined, options),
    watch: (uri) => client.subscribeResource({ uri }),
    follow: async () => {},
  };
});
