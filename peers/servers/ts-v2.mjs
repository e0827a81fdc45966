// The echo tool on the current line of the TypeScript SDK: both eras, or `node ts-v2.mjs modern` for one;
// `node ts-v2.mjs http PORT` serves both over HTTP.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const [mode, port] = process.argv.slice(2);

function echo() {
  const server = new McpServer({ name: 'ts-v2', version: '1' });
  const inputSchema = z.object({ message: z.string() });
  server.registerTool('echo', { description: 'Returns its message.', inputSchema }, ({ message }) => ({
    content: [{ type: 'text', text: message }],
  }));
  return server;
}

if (mode === 'http') {
  const { serveHttp } = await import('./http.mjs');
  serveHttp(echo, Number(port));
} else {
  serveStdio(echo, mode === 'modern' ? { legacy: 'reject' } : {});
}
