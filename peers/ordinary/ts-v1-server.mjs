// An ordinary server on the first line of the TypeScript SDK, as its documentation shows how to write one.
// `node ts-v1-server.mjs [http PORT]`, else on stdio. The tools are the same in each server of this folder.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { ABOUT, DECLARED, FORM, LEVELS, MESSAGES, STORY, cities, count, linger, lingered, text } from './tools.mjs';

function make() {
  const server = new McpServer(ABOUT, { capabilities: DECLARED, instructions: 'Ask before you greet.' });
  const tool = (name, inputSchema, answer) => server.registerTool(name, { description: name, inputSchema }, answer);
  const reporter = ({ _meta, sendNotification }) => async (progress, total, message) => {
    if (_meta?.progressToken === undefined) return;
    const params = { progressToken: _meta.progressToken, progress, total, message };
    await sendNotification({ method: 'notifications/progress', params });
  };
  tool('echo', { message: z.string() }, ({ message }) => text(message));
  tool('count', {}, (_, extra) => count(reporter(extra)));
  tool('linger', {}, (_, extra) => linger(reporter(extra), extra.signal));
  tool('lingered', {}, lingered);
  tool('greet', {}, async () => {
    const { action, content } = await server.server.elicitInput({ message: 'Who are you?', requestedSchema: FORM });
    return text(`${action}: ${content?.name}`);
  });
  tool('think', {}, async () => {
    const { content, model } = await server.server.createMessage({ messages: MESSAGES, maxTokens: 5 });
    return text(`${model}: ${content.text}`);
  });
  tool('note', {}, async (_, { sessionId }) => {
    // Over HTTP a level belongs to a session.
    for (const level of LEVELS) {
      await server.sendLoggingMessage({ level, logger: 'notes', data: { said: level } }, sessionId);
    }
    return text('noted');
  });
  tool('where', {}, async () => text(JSON.stringify((await server.server.listRoots()).roots)));
  tool('whoami', {}, () => {
    const client = server.server;
    return text(JSON.stringify({ info: client.getClientVersion(), capabilities: client.getClientCapabilities() }));
  });
  tool('touch', {}, async () => {
    await server.server.sendResourceUpdated({ uri: STORY });
    return text('touched');
  });
  tool('grow', {}, () => {
    tool('grown', {}, () => text('here'));
    return text('grown');
  });
  server.server.setRequestHandler(SubscribeRequestSchema, () => ({}));
  server.server.setRequestHandler(UnsubscribeRequestSchema, () => ({}));
  const story = { title: 'A story', mimeType: 'text/plain' };
  server.registerResource('story', STORY, story, () => ({ contents: [{ uri: STORY, text: 'Once.' }] }));
  const cityTemplate = new ResourceTemplate('city://{name}', { list: undefined, complete: { name: cities } });
  server.registerResource('city', cityTemplate, {}, ({ href }) => ({ contents: [{ uri: href, text: href }] }));
  const argsSchema = { city: completable(z.string(), cities) };
  server.registerPrompt('travel', { title: 'Travel', argsSchema }, ({ city }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Travel to ${city}.` } }],
  }));
  return server;
}

// A server for each session, as the SDK's documentation shows.
const sessions = new Map();

async function answer(request, response) {
  let transport = sessions.get(request.headers['mcp-session-id']);
  if (!transport) {
    const onsessioninitialized = (id) => sessions.set(id, transport);
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
    await make().connect(transport);
  }
  await transport.handleRequest(request, response);
}

const [way, port] = process.argv.slice(2);
if (way === 'http') createServer(answer).listen(Number(port), '127.0.0.1');
else await make().connect(new StdioServerTransport());
