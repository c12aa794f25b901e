// Calls the tools of `haft mcp serve` with version 2 of the official TypeScript SDK.
//
// Usage: typescript_sdk.mjs REVISION stdio COMMAND [ARGUMENT]...
//        typescript_sdk.mjs REVISION http URL [TOKEN]

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const KEY = 'typescript-sdk';
const TIMEOUT = 20_000;

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

async function checkCalls(client) {
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  for (const name of ['calculator', 'wait', 'was_cancelled']) {
    assert.ok(names.includes(name), names.join());
  }

  const product = await client.callTool({ name: 'calculator', arguments: { expression: '6 * 7' } });
  assert.deepEqual(product.structuredContent, { result: '42', exact: true });

  const invalid = await client.callTool({ name: 'calculator', arguments: { expresion: '6 * 7' } });
  assert.ok(invalid.isError && invalid.content[0].text.includes('expression'), invalid);

  await assert.rejects(client.callTool({ name: 'calculatr', arguments: {} }), {
    code: -32602,
    message: /calculatr/,
  });
}

async function checkCancellation(client) {
  const controller = new AbortController();
  const onprogress = (progress) => {
    assert.deepEqual(progress, { progress: 0, total: 60, message: 'waiting' });
    controller.abort();
  };
  const call = client.callTool(
    { name: 'wait', arguments: { key: KEY } },
    { onprogress, signal: controller.signal, timeout: TIMEOUT },
  );
  await assert.rejects(call, (error) => controller.signal.aborted && /abort/i.test(String(error)));

  const deadline = Date.now() + TIMEOUT;
  const wasCancelled = { name: 'was_cancelled', arguments: { key: KEY } };
  while ((await client.callTool(wasCancelled)).content[0].text !== 'true') {
    assert.ok(Date.now() < deadline, 'the call was not cancelled');
    await sleep(50);
  }
}

const [revision, kind, ...address] = process.argv.slice(2);
const client = new Client(
  { name: 'typescript-sdk', version: '1.0.0' },
  { versionNegotiation: { mode: 'auto' } },
);
await client.connect(openTransport(kind, address));
assert.equal(client.getNegotiatedProtocolVersion(), revision);
assert.equal(client.getServerVersion().name, 'haft');
await checkCalls(client);
await checkCancellation(client);
await client.close();
