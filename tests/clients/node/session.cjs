// Typical uses of ioredis: values, transactions, pub/sub, streams. Prints `done` on success.
//
// usage: node session.cjs PORT
"use strict";
const assert = require("node:assert/strict");
const Redis = require("ioredis");

const port = Number(process.argv[2]);
let protocol;
const connect = () => new Redis({ host: "127.0.0.1", port, protocol, maxRetriesPerRequest: 1 });

async function values(redis) {
  assert.equal(await redis.set("k", "v", "EX", 1000), "OK");
  assert.equal(await redis.get("k"), "v");
  assert.deepEqual(await redis.mget("k", "none"), ["v", null]);
  await redis.hset("h", { one: "1", two: "2" });
  assert.deepEqual(await redis.hgetall("h"), { one: "1", two: "2" });
  const results = await redis.multi().incr("n").incr("n").lpush("n", "x").exec();
  assert.deepEqual(results.slice(0, 2), [[null, 1], [null, 2]]);
  assert.match(String(results[2][0]), /WRONGTYPE/);
  const found = [];
  for await (const keys of redis.scanStream({ match: "*", count: 2 })) found.push(...keys);
  assert.deepEqual(found.sort(), ["h", "k", "n"]);
}

// The next `count` events of these names.
function events(redis, names, count) {
  return new Promise((resolve, reject) => {
    const seen = [];
    const late = setTimeout(() => reject(new Error(`only ${JSON.stringify(seen)}`)), 60_000);
    for (const name of names) {
      redis.on(name, (...what) => {
        seen.push([name, ...what]);
        if (seen.length === count) { clearTimeout(late); resolve(seen); }
      });
    }
  });
}

async function pubsub(redis) {
  const subscriber = connect();
  assert.equal(await subscriber.subscribe("news", "sport"), 2);
  assert.equal(await subscriber.psubscribe("n*"), 3);
  const seen = events(subscriber, ["message", "pmessage"], 3);
  assert.equal(await redis.publish("news", "hello"), 2);
  assert.equal(await redis.publish("sport", "goal"), 1);
  assert.deepEqual(await seen, [
    ["message", "news", "hello"],
    ["pmessage", "n*", "news", "hello"],
    ["message", "sport", "goal"],
  ]);
  assert.deepEqual((await redis.pubsub("CHANNELS")).sort(), ["news", "sport"]);
  assert.equal(await subscriber.unsubscribe("news", "sport"), 1);
  assert.equal(await subscriber.punsubscribe("n*"), 0);
  assert.equal(await subscriber.get("k"), "v");
  assert.equal(await subscriber.ssubscribe("shard"), 1);
  const sharded = events(subscriber, ["smessage"], 1);
  assert.equal(await redis.spublish("shard", "of one"), 1);
  assert.deepEqual(await sharded, [["smessage", "shard", "of one"]]);
  subscriber.disconnect();
}

async function streams(redis) {
  for (let n = 1; n <= 5; n++) assert.equal(await redis.xadd("s", `${n}-0`, "n", n), `${n}-0`);
  assert.deepEqual(await redis.xrange("s", "(2-0", "+", "COUNT", 2), [["3-0", ["n", "3"]], ["4-0", ["n", "4"]]]);
  assert.equal(await redis.xgroup("CREATE", "s", "g", "0"), "OK");
  const first = await redis.xreadgroup("GROUP", "g", "one", "COUNT", 2, "STREAMS", "s", ">");
  assert.deepEqual(first, [["s", [["1-0", ["n", "1"]], ["2-0", ["n", "2"]]]]]);
  assert.equal(await redis.xack("s", "g", "1-0"), 1);
  assert.deepEqual(await redis.xpending("s", "g"), [1, "2-0", "2-0", [["one", "1"]]]);
  const claimed = await redis.xautoclaim("s", "g", "two", 0, "0");
  assert.deepEqual(claimed, ["0-0", [["2-0", ["n", "2"]]], []]);
  assert.equal(await redis.xtrim("s", "MAXLEN", 2), 3);

  const waiter = connect();
  const read = waiter.xread("BLOCK", 60_000, "STREAMS", "t", "$");
  while (!/cmd=xread/.test(await redis.client("LIST"))) { /* not blocked yet */ }
  await redis.xadd("t", "7-7", "hello", "there");
  assert.deepEqual(await read, [["t", [["7-7", ["hello", "there"]]]]]);
  waiter.disconnect();
}

// Client-side caching in RESP2: invalidations are redirected to a subscriber.
async function caching(redis) {
  const ear = connect(), other = connect();
  const id = await ear.client("ID");
  await ear.subscribe("__redis__:invalidate");
  assert.equal(await redis.call("CLIENT", "TRACKING", "ON", "REDIRECT", String(id)), "OK");
  assert.equal(await redis.call("CLIENT", "GETREDIR"), id);
  for (let round = 0; round < 5; round++) {
    await redis.mget("a", "b");
    const told = events(ear, ["message"], 1);
    await other.set("b", String(round));
    assert.deepEqual(await told, [["message", "__redis__:invalidate", "b"]]);
  }
  assert.equal(await redis.call("CLIENT", "TRACKING", "OFF"), "OK");
  ear.disconnect();
  other.disconnect();
}

async function main() {
  for (protocol of [2, 3]) {
    const redis = connect();
    const parts = [values, pubsub, streams];
    // In RESP3 the library does not deliver these pushes as messages.
    if (protocol === 2) parts.push(caching);
    for (const part of parts) await part(redis);
    assert.equal(await redis.flushall(), "OK");
    redis.disconnect();
  }
  console.log("done");
}

main().catch((error) => { console.error(error); process.exit(1); });
