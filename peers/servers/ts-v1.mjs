// The echo tool on the first line of the TypeScript SDK: handshake era only.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';

const server = new McpServer({ name: 'ts-v1', version: '1' });
const description = 'Returns its message.';
server.registerTool('echo', { description, inputSchema: { message: z.string() } }, ({ message }) => ({
  content: [{ type: 'text', text: message }],
}));
await server.connect(new StdioServerTransport());
