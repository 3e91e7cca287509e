// rate-limiter-flexible: exact numbers of allowed requests, under concurrency.
"use strict";
const Redis = require("ioredis");
const { BurstyRateLimiter, RateLimiterRedis, RateLimiterRes } = require("rate-limiter-flexible");
const { assert, port, jobs, part, run } = require("./session.cjs");

const connect = () => new Redis({ host: "127.0.0.1", port, enableOfflineQueue: false, lazyConnect: true });

// Requests of several connections at once: [allowed, refused].
async function consume(limiters, key, count) {
  const results = await Promise.all(Array.from({ length: count }, async (_, n) => {
    try {
      await limiters[n % limiters.length].consume(key, 1);
      return true;
    } catch (refusal) {
      // An error of the server is an Error; a refusal is the limiter's result.
      if (refusal instanceof Error) throw refusal;
      assert(refusal instanceof RateLimiterRes || refusal.msBeforeNext !== undefined);
      return false;
    }
  }));
  const allowed = results.filter((is) => is).length;
  return [allowed, count - allowed];
}

run(async () => {
  const clients = Array.from({ length: 4 }, connect);
  await Promise.all(clients.map((client) => client.connect()));
  const limiters = (options) => clients.map((storeClient) => new RateLimiterRedis({ storeClient, ...options }));

  await part("limit", jobs, async (count) => {
    const own = limiters({ keyPrefix: "limit", points: 50, duration: 3600 });
    for (let n = 0; n < count; n += 100) assert.deepEqual(await consume(own, `user${n}`, 100), [50, 50]);
  });
  await part("block", jobs, async (count) => {
    const own = limiters({ keyPrefix: "block", points: 10, duration: 3600, blockDuration: 7200 });
    for (let n = 0; n < count; n += 100) {
      assert.deepEqual(await consume(own, `user${n}`, 100), [10, 90]);
      const state = await own[0].get(`user${n}`);
      assert.equal(state.remainingPoints, 0);
      assert(state.msBeforeNext > 3_600_000, "the block is longer than the limit's duration");
    }
  });
  await part("burst", jobs, async (count) => {
    const [steady, burst] = [limiters({ keyPrefix: "steady", points: 20, duration: 3600 }),
      limiters({ keyPrefix: "burst", points: 30, duration: 3600 })];
    const own = steady.map((limiter, n) => new BurstyRateLimiter(limiter, burst[n]));
    for (let n = 0; n < count; n += 100) assert.deepEqual(await consume(own, `user${n}`, 100), [50, 50]);
  });
  await part("penalty and reward", Math.ceil(jobs / 10), async (count) => {
    const [own] = limiters({ keyPrefix: "penalty", points: 5, duration: 3600 });
    for (let n = 0; n < count; n++) {
      await own.penalty(`user${n}`, 4);
      await own.reward(`user${n}`, 1);
      assert.deepEqual(await consume([own], `user${n}`, 4), [2, 2]);
      assert.equal(await own.delete(`user${n}`), true);
    }
  });
});
