// Calls the tools of `haft mcp serve` with version 1 of the official TypeScript SDK.
//
// Usage: typescript_sdk_v1.mjs REVISION stdio COMMAND [ARGUMENT]...
//        typescript_sdk_v1.mjs REVISION http URL [TOKEN]

import assert from 'node:assert/strict';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { checkCalls, checkCancellation } from './checks.mjs';

function openTransport(kind, [address, ...rest]) {
  if (kind === 'stdio') {
    return new StdioClientTransport({ command: address, args: rest });
  }
  const [token] = rest;
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  return new StreamableHTTPClientTransport(new URL(address), { requestInit: { headers } });
}

const [revision, kind, ...address] = process.argv.slice(2);
const client = new Client({ name: 'typescript-sdk-v1', version: '1.0.0' });
const transport = openTransport(kind, address);
await client.connect(transport);
// The SDK does not return the negotiated revision of a server on standard input and output.
assert.equal(transport.protocolVersion ?? revision, revision);
await client.ping();
await checkCalls(client);
await checkCancellation(client, 'typescript-sdk-v1', (params, options) =>
  client.callTool(params, undefined, options),
);
// Closing the transport leaves the session open: the SDK ends it on request.
await transport.terminateSession?.();
await client.close();
