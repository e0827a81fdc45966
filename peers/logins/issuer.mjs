// An OpenID provider that people sign in to, with the addresses that our login expects. Told where its package is, it
// prints its own address. Tokens last so shortly that each is renewed before it is used, and a renewal is good once.

import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

// It warns at length that it is set up for tests.
console.info = console.warn = () => {};

const { Provider } = await import(pathToFileURL(process.argv[2]));

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'gladhand-test',
      application_type: 'native',
      grant_types: ['authorization_code', 'refresh_token'],
      redirect_uris: ['http://localhost:1455/auth/callback'],
      token_endpoint_auth_method: 'none',
    },
  ],
  pkce: { required: () => true },
  routes: { authorization: '/oauth/authorize', token: '/oauth/token' },
  scopes: ['openid', 'profile', 'email', 'offline_access'],
  claims: { openid: ['sub', 'https://api.openai.com/auth'] },
  conformIdTokenClaims: false,
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, 'https://api.openai.com/auth': { chatgpt_account_id: `account-of-${id}` } }),
  }),
  issueRefreshToken: () => true,
  rotateRefreshToken: () => true,
  features: {
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'urn:models',
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: 'profile', accessTokenFormat: 'jwt', accessTokenTTL: 30 }),
    },
  },
});
for (const event of ['server_error', 'grant.error']) {
  provider.on(event, (_context, error) => console.error(event, error.message, error.error_detail ?? ''));
}
server.on('request', provider.callback());
console.log(JSON.stringify({ issuer }));
