// What ioredis's documentation shows of pipelines, transactions and messages, and client-side caching by a second connection. usage: ioredis.js PORT
"use strict";
const assert = require("node:assert");
const { once } = require("node:events");
const Redis = require("ioredis");

const port = Number(process.argv[2]);
const connect = () => new Redis(port, "127.0.0.1", { commandTimeout: 60000 });

async function pipelines(redis) {
  assert.deepStrictEqual(await redis.pipeline().set("foo", "bar").get("foo").del("foo").exec(), [
    [null, "OK"],
    [null, "bar"],
    [null, 1],
  ]);
}

async function transactions(redis) {
  assert.deepStrictEqual(await redis.multi().set("foo", "bar").get("foo").exec(), [[null, "OK"], [null, "bar"]]);
  await redis.multi({ pipeline: false });
  assert.strictEqual(await redis.set("foo", "baz"), "QUEUED");
  assert.strictEqual(await redis.get("foo"), "QUEUED");
  assert.deepStrictEqual(await redis.exec(), [[null, "OK"], [null, "baz"]]);
  // What is refused while it is queued, and what fails while it runs.
  await assert.rejects(redis.multi().set("foo").set("foo", "new value").exec(), /EXECABORT/);
  const [[, ok], [error]] = await redis.multi().set("foo", "text").incr("foo").exec();
  assert.strictEqual(ok, "OK");
  assert.match(error.message, /not an integer/);
  // A watched key that somebody changes.
  const other = connect();
  await redis.watch("foo");
  await other.set("foo", "changed");
  assert.strictEqual(await redis.multi().set("foo", "mine").exec(), null);
  assert.strictEqual(await redis.get("foo"), "changed");
  await other.quit();
}

async function messages(publisher) {
  const subscriber = connect();
  assert.strictEqual(await subscriber.subscribe("my-channel-1", "my-channel-2"), 2);
  const heard = [];
  subscriber.on("message", (channel, message) => heard.push([channel, message]));
  for (let i = 0; i < 10; i++) {
    assert.strictEqual(await publisher.publish(`my-channel-${1 + (i % 2)}`, JSON.stringify({ i })), 1);
  }
  while (heard.length < 10) await once(subscriber, "message");
  heard.forEach(([channel, message], i) => {
    assert.strictEqual(channel, `my-channel-${1 + (i % 2)}`);
    assert.deepStrictEqual(JSON.parse(message), { i });
  });
  await assert.rejects(subscriber.set("k", "v"), /subscriber mode/);
  assert.strictEqual(await subscriber.unsubscribe("my-channel-1", "my-channel-2"), 0);
  assert.strictEqual(await subscriber.set("k", "v"), "OK");
  // Patterns, and what lies in a message as bytes.
  assert.strictEqual(await subscriber.psubscribe("pat?ern"), 1);
  const next = once(subscriber, "pmessageBuffer");
  assert.strictEqual(await publisher.publish("pattern", Buffer.from([0, 255, 13, 10])), 1);
  const [pattern, channel, message] = await next;
  assert.deepStrictEqual([String(pattern), String(channel), [...message]], ["pat?ern", "pattern", [0, 255, 13, 10]]);
  // A connection that is lost is made again, and subscribes again.
  const again = once(subscriber, "ready");
  await publisher.client("KILL", "TYPE", "pubsub");
  await again;
  while ((await publisher.pubsub("NUMPAT")) !== 1);
  const after = once(subscriber, "pmessage");
  assert.strictEqual(await publisher.publish("pattern", "still here"), 1);
  assert.deepStrictEqual(await after, ["pat?ern", "pattern", "still here"]);
  subscriber.disconnect();
}

// RESP2 has no pushes: one connection has its invalidations sent to another.
async function caching(writer) {
  const [reader, invalidated] = [connect(), connect()];
  const id = await invalidated.client("ID");
  await invalidated.subscribe("__redis__:invalidate");
  assert.strictEqual(await reader.client("TRACKING", "ON", "REDIRECT", id), "OK");
  await writer.set("cached", "1");
  assert.strictEqual(await reader.get("cached"), "1");
  const told = once(invalidated, "message");
  await writer.set("cached", "2");
  const [channel, keys] = await told;
  assert.strictEqual(channel, "__redis__:invalidate");
  assert.deepStrictEqual([keys].flat().map(String), ["cached"]);
  assert.strictEqual(await reader.get("cached"), "2");
  reader.disconnect();
  invalidated.disconnect();
}

async function main() {
  const redis = connect();
  for (const part of [pipelines, transactions, messages, caching]) await part(redis);
  await redis.quit();
  console.log("all passed");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
