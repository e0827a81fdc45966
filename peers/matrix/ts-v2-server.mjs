// The matrix's tools on the current line of the TypeScript SDK: `node ts-v2-server.mjs stdio | http PORT [modern]`.
//
// In both eras, or in the stateless one only. What a tool wants to know it returns as a question; for the handshake
// era the SDK makes a request of it.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer, createMcpHandler, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { FORM, WATCHED, count, linger, lingered, text } from './tools.mjs';

const STATELESS = '2026-07-28';
let handler;

function make() {
  const capabilities = { resources: { subscribe: true } };
  const server = new McpServer({ name: 'ts-v2', version: '1' }, { capabilities });
  const tool = (name, shape, answer) =>
    server.registerTool(name, { description: name, inputSchema: z.object(shape) }, answer);
  const reporter = ({ mcpReq }) => async (progress, total) => {
    if (mcpReq._meta?.progressToken === undefined) return;
    const params = { progressToken: mcpReq._meta.progressToken, progress, total };
    await mcpReq.notify({ method: 'notifications/progress', params });
  };
  const asking = (name, question, use) =>
    tool(name, {}, (_, { mcpReq }) => {
      const answer = inputResponse(mcpReq.inputResponses, name);
      return answer.kind === 'missing' ? inputRequired({ inputRequests: { [name]: question } }) : text(use(answer));
    });
  tool('echo', { message: z.string() }, ({ message }) => text(message));
  tool('count', {}, (_, context) => count(reporter(context)));
  tool('linger', {}, (_, context) => linger(reporter(context), context.mcpReq.signal));
  tool('lingered', {}, lingered);
  asking('ask', inputRequired.elicit({ message: 'Who are you?', requestedSchema: FORM }), ({ content }) => {
    return `Hello, ${content.name}!`;
  });
  const messages = [{ role: 'user', content: { type: 'text', text: 'Which city?' } }];
  asking('think', inputRequired.createMessage({ messages, maxTokens: 5 }), ({ result }) => result.content.text);
  tool('touch', {}, async () => {
    // Over HTTP whoever listens does so at the handler, and not at a server that lives for one request.
    if (handler) handler.notify.resourceUpdated(WATCHED);
    else await server.server.sendResourceUpdated({ uri: WATCHED });
    return text('touched');
  });
  tool('grow', {}, () => {
    tool('grown', {}, () => text('here'));
    return text('grown');
  });
  server.registerResource('watched', WATCHED, {}, () => ({ contents: [{ uri: WATCHED, text: 'still water' }] }));
  server.registerPrompt('greeting', { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}.` } }],
  }));
  return server;
}

function serveHttp(port, legacy) {
  handler = createMcpHandler(make, { legacy: 'reject' });
  const stateless = toNodeHandler(handler);
  const sessions = new Map();
  const answer = async (request, response) => {
    const revision = request.headers['mcp-protocol-version'];
    if (revision === STATELESS || legacy === 'reject') return stateless(request, response);
    let transport = sessions.get(request.headers['mcp-session-id']);
    if (!transport) {
      const onsessioninitialized = (id) => sessions.set(id, transport);
      transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
      await make().connect(transport);
    }
    return transport.handleRequest(request, response);
  };
  createServer(answer).listen(port, '127.0.0.1');
}

const words = process.argv.slice(2);
const legacy = words.includes('modern') ? 'reject' : 'serve';
if (words[0] === 'http') serveHttp(Number(words[1]), legacy);
else serveStdio(make, { legacy });
