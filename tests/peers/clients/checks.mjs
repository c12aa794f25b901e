// The checks of the TypeScript clients.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

// The timeout of a call, in milliseconds.
const TIMEOUT = 20_000;

export async function checkCalls(client) {
  assert.equal(client.getServerVersion().name, 'haft');
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

// Cancels a call of the tool `wait` after its progress notification. `call` starts a call with the
// given parameters and options.
export async function checkCancellation(client, key, call) {
  const controller = new AbortController();
  const onprogress = (progress) => {
    assert.deepEqual(progress, { progress: 0, total: 60, message: 'waiting' });
    controller.abort();
  };
  const options = { onprogress, signal: controller.signal, timeout: TIMEOUT };
  await assert.rejects(
    call({ name: 'wait', arguments: { key } }, options),
    (error) => controller.signal.aborted && /abort/i.test(String(error)),
  );

  const deadline = Date.now() + TIMEOUT;
  const wasCancelled = { name: 'was_cancelled', arguments: { key } };
  while ((await client.callTool(wasCancelled)).content[0].text !== 'true') {
    assert.ok(Date.now() < deadline, 'the call was not cancelled');
    await sleep(50);
  }
}
