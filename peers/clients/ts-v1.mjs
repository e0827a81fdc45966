// The first line of the TypeScript SDK as a client: node ts-v1.mjs COMMAND ARGS…
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { report } from './session.mjs';

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'ts-v1', version: '1' });
const transport = new StdioClientTransport({ command, args });
let version;
transport.setProtocolVersion = (agreed) => {
  version = agreed;
};
await client.connect(transport);
const call = (name, params, options) => client.callTool({ name, arguments: params }, undefined, options);
await report({ client, call, protocol: () => version });
