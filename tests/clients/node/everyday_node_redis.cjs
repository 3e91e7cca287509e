// An application's use of node-redis. table.py has the arguments.
//
// usage: node everyday_node_redis.cjs PORT TLS_PORT CA CLUSTER_PORT
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const { createClient, createClientPool, createCluster, defineScript } = require("redis");
const { run, until } = require("./everyday.cjs");

const [port, tlsPort, ca, clusterPort] = process.argv.slice(2);
const add = defineScript({
  SCRIPT: "return redis.call('INCRBY', KEYS[1], ARGV[1])",
  NUMBER_OF_KEYS: 1,
  parseCommand(parser, key, n) { parser.pushKey(key); parser.push(String(n)); },
  transformReply: (reply) => reply,
});

async function connect(options) {
  const client = createClient({ socket: { port: Number(port), reconnectStrategy: () => 20 }, ...options });
  client.on("error", () => {});
  return client.connect();
}

async function main() {
  const client = await connect({ scripts: { add } });
  await run({
    async pool() {
      const pool = await createClientPool({ socket: { port: Number(port) } }, { maximum: 4, acquireTimeout: 60_000 }).connect();
      await Promise.all(Array.from({ length: 2000 }, () => pool.incr("pool")));
      assert.equal(await pool.get("pool"), "2000");
      pool.destroy();
    },
    async pipeline() {
      // Requests of one turn of the event loop are a pipeline.
      const replies = await Promise.all(Array.from({ length: 5000 }, (_, n) => client.set(`pipe:${n}`, n)));
      assert.ok(replies.every((reply) => reply === "OK"));
    },
    async transaction() {
      await client.set("account", 10);
      const buyer = await connect();
      await buyer.watch("account");
      await client.set("account", 5);
      await assert.rejects(buyer.multi().decr("account").exec(), /watched keys has been changed/);
      await buyer.watch("account");
      assert.deepEqual(await buyer.multi().decr("account").get("account").exec(), [4, "4"]);
      buyer.destroy();
    },
    async "blocking pop"() {
      const waiter = await connect();
      const popped = waiter.blPop("jobs", 60);
      await until(async () => /blocked_clients:1/.test(await client.info("clients")));
      await client.rPush("jobs", "work");
      assert.deepEqual({ ...(await popped) }, { key: "jobs", element: "work" });
      waiter.destroy();
    },
    async reconnection() {
      const victim = await connect();
      for (let n = 0; n < 20; n++) {
        const gone = new Promise((resolve) => { victim.once("reconnecting", resolve); });
        await client.sendCommand(["CLIENT", "KILL", "ID", String(await victim.clientId())]);
        await gone;
        await victim.incr("n");
      }
      assert.equal(await victim.get("n"), "20");
      victim.destroy();
    },
    async "lost subscription"() {
      const subscriber = await connect();
      const seen = [];
      await subscriber.subscribe("news", (message) => seen.push(message));
      await client.sendCommand(["CLIENT", "KILL", "TYPE", "pubsub"]);
      // It subscribes again by itself.
      await until(async () => (await client.publish("news", "two")) === 1);
      await until(() => seen[0] === "two");
      subscriber.destroy();
    },
    async streams() {
      for (let n = 0; n < 100; n++) await client.xAdd("events", "*", { n: String(n) });
      await client.xGroupCreate("events", "workers", "0");
      const seen = [];
      for (;;) {
        const batch = await client.xReadGroup("workers", "w1", { key: "events", id: ">" }, { COUNT: 16 });
        if (!batch) break;
        for (const { id, message } of batch[0].messages) {
          seen.push(Number(message.n));
          assert.equal(await client.xAck("events", "workers", id), 1);
        }
      }
      assert.deepEqual(seen, Array.from({ length: 100 }, (_, n) => n));
    },
    async scripts() {
      assert.equal(await client.add("script", 2), 2);
      // NOSCRIPT: the library sends the script.
      await client.scriptFlush();
      assert.equal(await client.add("script", 3), 5);
    },
    async "client-side caching"() {
      const cached = await connect({ RESP: 3, clientSideCache: { ttl: 0, maxEntries: 0, evictPolicy: "LRU" } });
      await client.set("cached", "old");
      assert.equal(await cached.get("cached"), "old");
      assert.equal(await cached.get("cached"), "old");
      await client.set("cached", "new");
      await until(async () => (await cached.get("cached")) === "new");
      cached.destroy();
    },
    async TLS() {
      const socket = { host: "localhost", port: Number(tlsPort), tls: true, ca: fs.readFileSync(ca) };
      const secure = await connect({ socket });
      await secure.set("tls", "x".repeat(1_000_000));
      assert.equal((await secure.get("tls")).length, 1_000_000);
      secure.destroy();
    },
    async cluster() {
      const cluster = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${clusterPort}` }] });
      cluster.on("error", () => {});
      await cluster.connect();
      for (let n = 0; n < 100; n++) await cluster.set(`key:${n}`, n);
      assert.equal(await cluster.get("key:99"), "99");
      cluster.destroy();
    },
  });
}

main();
