// Two clients of memcached for Node, as their documentation shows them: memjs (binary protocol) and memcached (text). usage: memcached_clients.js PORT
"use strict";
const assert = require("node:assert");
const { promisify } = require("node:util");
const memjs = require("memjs");
const Memcached = require("memcached");

const server = `127.0.0.1:${process.argv[2]}`;

async function binary() {
  const c = memjs.Client.create(server, { retries: 0, timeout: 60, conntimeout: 60 });
  assert.strictEqual(await c.set("k", "value", { expires: 600 }), true);
  const got = await c.get("k");
  assert.strictEqual(got.value.toString(), "value");
  assert.strictEqual((await c.get("none")).value, null);
  assert.strictEqual(await c.add("k", "x", {}), false);
  assert.strictEqual(await c.add("added", "x", {}), true);
  assert.strictEqual(await c.replace("none", "x", {}), false);
  assert.strictEqual(await c.replace("added", "y", {}), true);
  assert.strictEqual(await c.append("added", "!"), true);
  assert.strictEqual((await c.get("added")).value.toString(), "y!");
  assert.deepStrictEqual(await c.increment("n", 5, { initial: 7 }), { success: true, value: 7 });
  assert.deepStrictEqual(await c.increment("n", 5, { initial: 7 }), { success: true, value: 12 });
  assert.deepStrictEqual(await c.decrement("n", 2, { initial: 7 }), { success: true, value: 10 });
  assert.strictEqual(await c.touch("k", 100), true);
  assert.strictEqual(await c.touch("none", 100), false);
  assert.strictEqual(await c.delete("k"), true);
  assert.strictEqual(await c.delete("k"), false);
  const bytes = Buffer.alloc(900000, Uint8Array.from({ length: 256 }, (_, i) => i));
  assert.strictEqual(await c.set("big", bytes, {}), true);
  assert.ok((await c.get("big")).value.equals(bytes));
  const many = Array.from({ length: 200 }, (_, i) => `many:${i}`);
  await Promise.all(many.map((name) => c.set(name, name, {})));
  const values = await Promise.all(many.map((name) => c.get(name)));
  assert.deepStrictEqual(values.map(({ value }) => value.toString()), many);
  const stats = await promisify((done) => c.stats((error, _server, stats) => done(error, stats)))();
  assert.ok(Number(stats.curr_items) > 200);
  assert.ok(await c.flush());
  assert.strictEqual((await c.get("big")).value, null);
  c.quit();
}

async function text() {
  const c = new Memcached(server, { timeout: 60000, retries: 0 });
  const call = (name, ...args) => promisify(c[name]).call(c, ...args);
  // Of what type a value is its flags tell.
  for (const value of ["text", 5, { a: [1, 2] }, Buffer.from([0, 13, 10, 255])]) {
    assert.strictEqual(await call("set", "k", value, 600), true);
    assert.deepStrictEqual(await call("get", "k"), value);
  }
  assert.strictEqual(await call("get", "none"), undefined);
  await assert.rejects(call("add", "k", "x", 0), /not stored/);
  await assert.rejects(call("replace", "none", "x", 0), /not stored/);
  assert.strictEqual(await call("replace", "k", "new", 0), true);
  const { cas } = await call("gets", "k");
  assert.strictEqual(await call("cas", "k", "newer", cas, 0), true);
  assert.strictEqual(await call("cas", "k", "newest", cas, 0), false);
  assert.strictEqual(await call("append", "k", "!"), true);
  assert.strictEqual(await call("prepend", "k", "?"), true);
  assert.strictEqual(await call("get", "k"), "?newer!");
  assert.strictEqual(await call("set", "n", 5, 0), true);
  assert.strictEqual(await call("incr", "n", 3), 8);
  assert.strictEqual(await call("decr", "n", 2), 6);
  assert.strictEqual(await call("incr", "none", 2), false);
  assert.strictEqual(await call("touch", "k", 100), true);
  const names = Array.from({ length: 200 }, (_, i) => `many:${i}`);
  await Promise.all(names.map((name) => call("set", name, name, 0)));
  const got = await call("getMulti", [...names, "none"]);
  assert.deepStrictEqual(got, Object.fromEntries(names.map((name) => [name, name])));
  assert.strictEqual(await call("set", "big", "y".repeat(900000), 0), true);
  assert.strictEqual(await call("get", "big"), "y".repeat(900000));
  assert.strictEqual(await call("del", "k"), true);
  assert.strictEqual(await call("del", "k"), false);
  const [stats] = await call("stats");
  assert.ok(stats.curr_items > 200);
  const [version] = await call("version");
  assert.strictEqual(version.version, "1.6.18");
  assert.deepStrictEqual(await call("flush"), [true]);
  assert.strictEqual(await call("get", "big"), undefined);
  c.end();
}

(async () => {
  await binary();
  await text();
  console.log("all passed");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
