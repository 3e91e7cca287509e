// Bee-Queue: jobs, retries and delays, with several workers of one queue.
"use strict";
const Queue = require("bee-queue");
const { assert, port, jobs, part, condition, Tally, run } = require("./session.cjs");

const WORKERS = 4;
const redis = { host: "127.0.0.1", port };

// `count` jobs with `options` on a queue, processed by several workers. Every job fails `failures` times first.
async function process(name, count, failures, options) {
  const workers = Array.from({ length: WORKERS }, () => new Queue(name, {
    redis, activateDelayedJobs: true, removeOnSuccess: false, getEvents: false, sendEvents: true,
  }));
  const sender = new Queue(name, { redis, isWorker: false });
  const done = new Tally(), heard = new Tally(), attempts = new Map();
  const all = condition(() => heard.total >= count);
  sender.on("job succeeded", (_, result) => { heard.add(result); all.check(); });
  await Promise.all([sender, ...workers].map((queue) => queue.ready()));
  for (const worker of workers) {
    worker.process(5, async (job) => {
      const before = attempts.get(job.data.n) ?? 0;
      attempts.set(job.data.n, before + 1);
      if (before < failures) throw new Error("not yet");
      done.add(job.data.n);
      return job.data.n;
    });
  }
  for (let n = 0; n < count; n += 100) {
    const bulk = [];
    for (let i = n; i < Math.min(n + 100, count); i++) bulk.push(options(sender.createJob({ n: i })));
    const errors = await sender.saveAll(bulk);
    assert.equal(errors.size, 0);
  }
  await all.promise;
  done.assertOnce(count);
  heard.assertOnce(count);
  const health = await sender.checkHealth();
  const { succeeded, waiting, active, failed, delayed } = health;
  assert.deepEqual([succeeded, waiting, active, failed, delayed], [count, 0, 0, 0, 0]);
  for (const queue of [sender, ...workers]) await queue.close(10_000);
}

run(async () => {
  await part("process", jobs, (count) => process("plain", count, 0, (job) => job));
  const retrying = (job) => job.retries(3).backoff("fixed", 20);
  await part("retries", Math.ceil(jobs / 5), (count) => process("retries", count, 2, retrying));
  const delayed = (job) => job.delayUntil(Date.now() + 300 + (job.data.n * 7919) % 500);
  await part("delayed", Math.ceil(jobs / 5), (count) => process("delayed", count, 0, delayed));
});
