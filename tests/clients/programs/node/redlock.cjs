// Redlock: clients that contend for locks. The three databases stand for three servers.
"use strict";
const Redis = require("ioredis");
const Redlock = require("redlock");
const { assert, port, jobs, part, run } = require("./session.cjs");

const CONTENDERS = 8;
const connect = (db) => new Redis({ host: "127.0.0.1", port, db });

// Each contender increments a counter under the lock, by a read and a write that aren't atomic.
async function contend(count) {
  const shared = connect(0);
  await shared.set("counter", 0);
  let holders = 0;
  const contender = async (rounds) => {
    const servers = [connect(0), connect(1), connect(2)];
    const redlock = new Redlock(servers, { retryCount: -1, retryDelay: 3, retryJitter: 3 });
    for (let n = 0; n < rounds; n++) {
      let lock = await redlock.lock("resource", 30_000);
      holders += 1;
      assert.equal(holders, 1, "two holders");
      const before = Number(await shared.get("counter"));
      if (n % 10 === 0) lock = await lock.extend(60_000);
      await shared.set("counter", before + 1);
      holders -= 1;
      await lock.unlock();
    }
    for (const server of servers) server.disconnect();
  };
  const rounds = Math.ceil(count / CONTENDERS);
  await Promise.all(Array.from({ length: CONTENDERS }, () => contender(rounds)));
  assert.equal(Number(await shared.get("counter")), rounds * CONTENDERS);
  assert.equal(await shared.exists("resource"), 0);
  shared.disconnect();
}

// A lock ends by itself; its old holder can neither extend nor release the lock of the next one.
async function expiry(count) {
  const servers = [connect(0), connect(1), connect(2)];
  const redlock = new Redlock(servers, { retryCount: 0 });
  const patient = new Redlock(servers, { retryCount: -1, retryDelay: 10 });
  for (let n = 0; n < count; n++) {
    const old = await patient.lock([`a${n}`, `b${n}`], 200);
    const next = await patient.lock(`b${n}`, 30_000);
    await assert.rejects(redlock.lock(`b${n}`, 30_000), Redlock.LockError);
    await assert.rejects(old.extend(30_000), Redlock.LockError);
    await old.unlock().catch(() => {});
    assert.equal(await servers[0].get(`b${n}`), next.value);
    await next.unlock();
    assert.equal(await servers[0].exists(`a${n}`, `b${n}`), 0);
  }
  for (const server of servers) server.disconnect();
}

run(async () => {
  await part("contended lock", jobs, contend);
  await part("expiry", 5, expiry);
});
