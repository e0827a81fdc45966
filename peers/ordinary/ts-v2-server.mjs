// An ordinary server on the current line of the TypeScript SDK: `node ts-v2-server.mjs [http PORT] [modern]`,
// else on stdio.
//
// In both eras, or in the stateless one only. What a tool needs of its client it returns as a question (`greet`,
// `think`, `where`); for the handshake era the SDK makes a request of it. `greet_now` asks by a request in the middle
// of the call, which only the handshake era has.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import {
  McpServer,
  ResourceTemplate,
  completable,
  createMcpHandler,
  inputRequired,
  inputResponse,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { ABOUT, DECLARED, FORM, LEVELS, MESSAGES, STORY, cities, count, linger, lingered, text } from './tools.mjs';

const STATELESS = '2026-07-28';
let handler;

function make() {
  const server = new McpServer(ABOUT, { capabilities: DECLARED, instructions: 'Ask before you greet.' });
  const tool = (name, shape, answer) =>
    server.registerTool(name, { description: name, inputSchema: z.object(shape) }, answer);
  const reporter = ({ mcpReq }) => async (progress, total, message) => {
    if (mcpReq._meta?.progressToken === undefined) return;
    const params = { progressToken: mcpReq._meta.progressToken, progress, total, message };
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
  const who = { message: 'Who are you?', requestedSchema: FORM };
  asking('greet', inputRequired.elicit(who), ({ action, content }) => `${action}: ${content?.name}`);
  tool('greet_now', {}, async (_, { mcpReq }) => {
    const { action, content } = await mcpReq.elicitInput(who);
    return text(`${action}: ${content?.name}`);
  });
  asking('think', inputRequired.createMessage({ messages: MESSAGES, maxTokens: 5 }), ({ result }) => {
    return `${result.model}: ${result.content.text}`;
  });
  asking('where', inputRequired.listRoots(), ({ roots, result }) => JSON.stringify(roots ?? result.roots));
  tool('note', {}, async (_, { mcpReq }) => {
    for (const level of LEVELS) await mcpReq.log(level, { said: level }, 'notes');
    return text('noted');
  });
  tool('whoami', {}, () => {
    const client = server.server;
    return text(JSON.stringify({ info: client.getClientVersion(), capabilities: client.getClientCapabilities() }));
  });
  tool('touch', {}, async () => {
    // Over HTTP, streams of the stateless era are open at the handler, and not at the server of one request.
    if (handler) handler.notify.resourceUpdated(STORY);
    await server.server.sendResourceUpdated({ uri: STORY });
    return text('touched');
  });
  tool('grow', {}, () => {
    tool('grown', {}, () => text('here'));
    return text('grown');
  });
  const story = { title: 'A story', mimeType: 'text/plain' };
  server.registerResource('story', STORY, story, () => ({ contents: [{ uri: STORY, text: 'Once.' }] }));
  const cityTemplate = new ResourceTemplate('city://{name}', { list: undefined, complete: { name: cities } });
  server.registerResource('city', cityTemplate, {}, ({ href }) => ({ contents: [{ uri: href, text: href }] }));
  const argsSchema = z.object({ city: completable(z.string(), cities) });
  server.registerPrompt('travel', { title: 'Travel', argsSchema }, ({ city }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Travel to ${city}.` } }],
  }));
  return server;
}

function serveHttp(port, legacy) {
  handler = createMcpHandler(make, { legacy: 'reject' });
  const stateless = toNodeHandler(handler);
  const sessions = new Map();
  const answer = async (request, response) => {
    if (request.headers['mcp-protocol-version'] === STATELESS || legacy === 'reject') return stateless(request, response);
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
