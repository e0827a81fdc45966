// A server of the current TypeScript SDK at http://127.0.0.1:PORT/mcp: sessions for the handshake era, one fresh
// server per request for the stateless era, plain JSON answers in both.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler } from '@modelcontextprotocol/server';

const STATELESS = '2026-07-28';

export function serveHttp(make, port) {
  const stateless = toNodeHandler(createMcpHandler(make, { legacy: 'reject' }));
  const sessions = new Map();

  async function open() {
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: true,
      onsessioninitialized: (id) => sessions.set(id, transport),
      onsessionclosed: (id) => sessions.delete(id),
    });
    await make().connect(transport);
    return transport;
  }

  async function answer(request, response) {
    if (request.headers['mcp-protocol-version'] === STATELESS) return stateless(request, response);
    const id = request.headers['mcp-session-id'];
    const transport = id === undefined ? await open() : sessions.get(id);
    if (transport === undefined) return response.writeHead(404).end();
    return transport.handleRequest(request, response);
  }

  createServer({ noDelay: true }, answer).listen(port, '127.0.0.1');
}
