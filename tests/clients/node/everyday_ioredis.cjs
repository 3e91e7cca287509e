// An application's use of ioredis. table.py has the arguments.
//
// usage: node everyday_ioredis.cjs PORT TLS_PORT CA CLUSTER_PORT
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const { once } = require("node:events");
const Redis = require("ioredis");
const { run, until } = require("./everyday.cjs");

const [port, tlsPort, ca, clusterPort] = process.argv.slice(2);
const connect = (options) => new Redis({ port: Number(port), retryStrategy: () => 20, ...options });
const client = connect();

run({
  async pipeline() {
    const pipe = client.pipeline();
    for (let n = 0; n < 5000; n++) pipe.set(`pipe:${n}`, n);
    const replies = await pipe.exec();
    assert.ok(replies.length === 5000 && replies.every(([error, reply]) => !error && reply === "OK"));
    // Requests of one turn of the event loop become a pipeline.
    const automatic = connect({ enableAutoPipelining: true });
    const values = await Promise.all(Array.from({ length: 100 }, (_, n) => automatic.get(`pipe:${n}`)));
    assert.equal(values[99], "99");
    automatic.disconnect();
  },
  async transaction() {
    await client.set("account", 10);
    const buyer = connect();
    await buyer.watch("account");
    await client.set("account", 5);
    assert.equal(await buyer.multi().decr("account").exec(), null);
    await buyer.watch("account");
    assert.deepEqual(await buyer.multi().decr("account").get("account").exec(), [[null, 4], [null, "4"]]);
    buyer.disconnect();
  },
  async "blocking pop"() {
    const waiter = connect();
    const popped = waiter.blpop("jobs", 60);
    await until(async () => /blocked_clients:1/.test(await client.info("clients")));
    await client.rpush("jobs", "work");
    assert.deepEqual(await popped, ["jobs", "work"]);
    waiter.disconnect();
  },
  async reconnection() {
    const victim = connect();
    victim.on("error", () => {});
    for (let n = 0; n < 20; n++) {
      const ready = once(victim, "close");
      await client.client("KILL", "ID", await victim.client("ID"));
      await ready;
      await victim.incr("n");
    }
    assert.equal(await victim.get("n"), "20");
    victim.disconnect();
  },
  async "lost subscription"() {
    const subscriber = connect();
    subscriber.on("error", () => {});
    await subscriber.subscribe("news");
    await client.client("KILL", "TYPE", "pubsub");
    await once(subscriber, "ready");
    // It subscribes again by itself.
    await until(async () => (await client.pubsub("NUMSUB", "news"))[1] === 1);
    const message = once(subscriber, "message");
    await client.publish("news", "two");
    assert.deepEqual(await message, ["news", "two"]);
    subscriber.disconnect();
  },
  async streams() {
    for (let n = 0; n < 100; n++) await client.xadd("events", "MAXLEN", "~", 1000, "*", "n", n);
    await client.xgroup("CREATE", "events", "workers", 0);
    const seen = [];
    for (;;) {
      const batch = await client.xreadgroup("GROUP", "workers", "w1", "COUNT", 16, "STREAMS", "events", ">");
      if (!batch) break;
      for (const [id, fields] of batch[0][1]) {
        seen.push(Number(fields[1]));
        assert.equal(await client.xack("events", "workers", id), 1);
      }
    }
    assert.deepEqual(seen, Array.from({ length: 100 }, (_, n) => n));
  },
  async scripts() {
    client.defineCommand("add", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
    assert.equal(await client.add("script", 2), 2);
    // NOSCRIPT: the library sends the script.
    await client.script("FLUSH");
    assert.equal(await client.add("script", 3), 5);
  },
  async TLS() {
    const secure = connect({ host: "localhost", port: Number(tlsPort), tls: { ca: fs.readFileSync(ca) } });
    await secure.set("tls", "x".repeat(1_000_000));
    assert.equal((await secure.get("tls")).length, 1_000_000);
    secure.disconnect();
  },
  async cluster() {
    const cluster = new Redis.Cluster([{ host: "127.0.0.1", port: Number(clusterPort) }]);
    for (let n = 0; n < 100; n++) await cluster.set(`key:${n}`, n);
    assert.equal(await cluster.get("key:99"), "99");
    cluster.disconnect();
  },
});
