// The current line of the TypeScript SDK as a client: node ts-v2.mjs default|auto|REVISION COMMAND ARGS…
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { report } from './session.mjs';

const [mode, command, ...args] = process.argv.slice(2);
const negotiation = { default: undefined, auto: { mode: 'auto' } };
const versionNegotiation = mode in negotiation ? negotiation[mode] : { mode: { pin: mode } };
const client = new Client({ name: 'ts-v2', version: '1' }, { versionNegotiation });
await client.connect(new StdioClientTransport({ command, args }));
const call = (name, params, options) => client.callTool({ name, arguments: params }, options);
await report({ client, call, protocol: () => client.getNegotiatedProtocolVersion() });
