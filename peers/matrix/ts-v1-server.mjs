// The matrix's tools on the first line of the TypeScript SDK: `node ts-v1-server.mjs stdio | http PORT | sse PORT`.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { FORM, WATCHED, count, linger, lingered, text } from './tools.mjs';

function make() {
  const server = new McpServer({ name: 'ts-v1', version: '1' }, { capabilities: { resources: { subscribe: true } } });
  const tool = (name, inputSchema, answer) => server.registerTool(name, { description: name, inputSchema }, answer);
  const reporter = ({ _meta, sendNotification }) => async (progress, total) => {
    if (_meta?.progressToken === undefined) return;
    const params = { progressToken: _meta.progressToken, progress, total };
    await sendNotification({ method: 'notifications/progress', params });
  };
  tool('echo', { message: z.string() }, ({ message }) => text(message));
  tool('count', {}, (_, extra) => count(reporter(extra)));
  tool('linger', {}, (_, extra) => linger(reporter(extra), extra.signal));
  tool('lingered', {}, lingered);
  tool('ask', {}, async () => {
    const { content } = await server.server.elicitInput({ message: 'Who are you?', requestedSchema: FORM });
    return text(`Hello, ${content.name}!`);
  });
  tool('think', {}, async () => {
    const messages = [{ role: 'user', content: { type: 'text', text: 'Which city?' } }];
    const { content } = await server.server.createMessage({ messages, maxTokens: 5 });
    return text(content.text);
  });
  tool('touch', {}, async () => {
    await server.server.sendResourceUpdated({ uri: WATCHED });
    return text('touched');
  });
  tool('grow', {}, () => {
    tool('grown', {}, () => text('here'));
    return text('grown');
  });
  server.server.setRequestHandler(SubscribeRequestSchema, () => ({}));
  server.server.setRequestHandler(UnsubscribeRequestSchema, () => ({}));
  server.registerResource('watched', WATCHED, {}, () => ({ contents: [{ uri: WATCHED, text: 'still water' }] }));
  server.registerPrompt('greeting', { argsSchema: { name: z.string() } }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}.` } }],
  }));
  return server;
}

const sessions = new Map();

async function answerHttp(request, response) {
  let transport = sessions.get(request.headers['mcp-session-id']);
  if (!transport) {
    const onsessioninitialized = (id) => sessions.set(id, transport);
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
    await make().connect(transport);
  }
  await transport.handleRequest(request, response);
}

async function answerSse(request, response) {
  const url = new URL(request.url, 'http://localhost');
  if (request.method === 'POST' && url.pathname === '/messages') {
    return sessions.get(url.searchParams.get('sessionId')).handlePostMessage(request, response);
  }
  if (request.method !== 'GET' || url.pathname !== '/sse') return response.writeHead(404).end();
  const transport = new SSEServerTransport('/messages', response);
  sessions.set(transport.sessionId, transport);
  await make().connect(transport);
}

const [way, port] = process.argv.slice(2);
const answer = { http: answerHttp, sse: answerSse }[way];
if (answer) createServer(answer).listen(Number(port), '127.0.0.1');
else await make().connect(new StdioServerTransport());
