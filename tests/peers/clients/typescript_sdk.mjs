// Calls the tools of `haft mcp serve` with version 2 of the official TypeScript SDK.
//
// Usage: typescript_sdk.mjs REVISION stdio COMMAND [ARGUMENT]...
//        typescript_sdk.mjs REVISION http URL [TOKEN]

import assert from 'node:assert/strict';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { checkCalls, checkCancellation } from './checks.mjs';

function openTransport(kind, [address, ...rest]) {
  if (kind === 'stdio') {
    return new StdioClientTransport({ command: address, args: rest });
  }
  const [token] = rest;
  return new StreamableHTTPClientTransport(
    new URL(address),
    token ? { authProvider: { token: async () => token } } : {},
  );
}

const [revision, kind, ...address] = process.argv.slice(2);
const client = new Client(
  { name: 'typescript-sdk', version: '1.0.0' },
  { versionNegotiation: { mode: 'auto' } },
);
await client.connect(openTransport(kind, address));
assert.equal(client.getNegotiatedProtocolVersion(), revision);
await checkCalls(client);
await checkCancellation(client, 'typescript-sdk', (params, options) =>
  client.callTool(params, options),
);
await client.close();
