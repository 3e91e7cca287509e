// ioredis as a client of a cluster that changes. tests/tests/nodes/clients.rs has the orders that it takes.
//
// usage: node cluster.cjs PORT...
"use strict";
const assert = require("node:assert/strict");
const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");

const WORKERS = 3;
const KEYS = 60;
const PAUSE_MS = 10;
const PATIENCE_MS = 90_000;
// Lost writes of a worker that it prints.
const REPORTED = 3;
const state = { strict: true, over: false };
const failures = [];

function connect() {
  const nodes = process.argv.slice(2).map((port) => ({ host: "127.0.0.1", port: Number(port) }));
  const cluster = new Redis.Cluster(nodes, { redisOptions: { commandTimeout: 5000 } });
  // Errors of connections; those of requests reach their callers.
  cluster.on("error", () => {});
  return cluster;
}

class Worker {
  constructor(number) {
    Object.assign(this, { number, redis: connect(), rounds: 0, failed: 0, lost: 0 });
    this.acknowledged = new Map();
    this.sent = new Map();
  }

  async run() {
    while (!state.over) {
      try {
        await this.step();
        this.rounds++;
      } catch (error) {
        this.failed++;
        if (state.strict || error instanceof assert.AssertionError) {
          failures.push(`worker ${this.number}: ${error.message} ${error.lastNodeError ?? ""}`);
        }
      }
      await sleep(PAUSE_MS);
    }
  }

  async step() {
    const key = `ioredis:${this.number}:${Math.floor(Math.random() * KEYS)}`;
    const tag = `{${key}}`;
    const value = (this.sent.get(key) ?? 0) + 1;
    this.sent.set(key, value);
    await this.redis.zadd(key, "GT", value, "m");
    this.acknowledged.set(key, value);
    await this.check(key);
    // The keys of a pipeline must be on one node.
    const pipe = this.redis.pipeline();
    for (let n = 0; n < 10; n++) pipe.set(`${tag}:${n}`, n);
    for (const [error, reply] of await pipe.exec()) {
      if (error) throw error;
      assert.equal(reply, "OK");
    }
    assert.equal(await this.redis.mset(`${tag}a`, 1, `${tag}b`, 2), "OK");
    assert.deepEqual(await this.redis.mget(`${tag}a`, `${tag}b`), ["1", "2"]);
    assert.equal(await this.redis.eval("return server.call('get', KEYS[1])", 1, `${tag}a`), "1");
    await this.redis.spublish(key, "message");
  }

  async check(key) {
    const score = Number((await this.redis.zscore(key, "m")) ?? 0);
    if (score < this.acknowledged.get(key)) {
      this.lost++;
      if (this.lost <= REPORTED) console.error(`lost: ${key}: ${score}, not ${this.acknowledged.get(key)}`);
      this.acknowledged.set(key, score);
    }
  }
}

async function settle(workers) {
  const before = workers.map((worker) => worker.rounds);
  const end = Date.now() + PATIENCE_MS;
  while (workers.some((worker, i) => worker.rounds < before[i] + 3)) {
    if (Date.now() > end) return failures.push("no progress");
    await sleep(10);
  }
}

async function finish(workers, running) {
  state.over = true;
  await Promise.all(running);
  for (const worker of workers) {
    for (const key of worker.acknowledged.keys()) await worker.check(key);
  }
}

async function main() {
  const workers = Array.from({ length: WORKERS }, (_, number) => new Worker(number));
  const running = workers.map((worker) => worker.run());
  for await (const order of readline.createInterface({ input: process.stdin })) {
    if (order === "strict" || order === "lenient") {
      state.strict = order === "strict";
      console.log("ok");
      continue;
    }
    await (order === "settled" ? settle(workers) : finish(workers, running));
    const sum = (name) => workers.reduce((all, worker) => all + worker[name], 0);
    const totals = `${order} ${sum("rounds")} ${sum("failed")} ${sum("lost")}`;
    console.log(failures.length ? `failed ${failures.slice(0, 5).join("; ").replace(/\s+/g, " ")}` : totals);
  }
  process.exit(0);
}

main();
