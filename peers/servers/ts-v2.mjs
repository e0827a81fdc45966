// The echo tool on the current line of the TypeScript SDK: both eras, or `node ts-v2.mjs modern` for one.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const options = process.argv[2] === 'modern' ? { legacy: 'reject' } : {};
serveStdio(() => {
  const server = new McpServer({ name: 'ts-v2', version: '1' });
  const inputSchema = z.object({ message: z.string() });
  server.registerTool('echo', { description: 'Returns its message.', inputSchema }, ({ message }) => ({
    content: [{ type: 'text', text: message }],
  }));
  return server;
}, options);
