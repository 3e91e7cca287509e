// BullMQ: a queue with eight workers, retries, delays, priorities, schedulers and flows.
"use strict";
const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");
const Redis = require("ioredis");
const { assert, port, jobs, part, condition, Tally, run } = require("./session.cjs");

const connection = { host: "127.0.0.1", port };
const WORKERS = 8;

// Runs `count` processors of `queue` until `body` ends. A failure that no retry mends is an error.
async function withWorkers(queue, count, processor, body) {
  const failed = [];
  const workers = Array.from({ length: count }, () => new Worker(queue, processor, { connection, concurrency: 4 }));
  for (const worker of workers) {
    worker.on("error", (error) => failed.push(error));
    worker.on("failed", (job, error) => { if (job.attemptsMade >= (job.opts.attempts ?? 1)) failed.push(error); });
  }
  await body(workers);
  await Promise.all(workers.map((worker) => worker.close()));
  assert.deepEqual(failed, []);
}

async function addAll(queue, count, options = () => ({})) {
  for (let n = 0; n < count; n += 200) {
    const bulk = [];
    for (let i = n; i < Math.min(n + 200, count); i++) bulk.push({ name: "job", data: { n: i }, opts: options(i) });
    await queue.addBulk(bulk);
  }
}

// Waits for `count` completed jobs, by the workers' own events.
async function completed(workers, count) {
  let seen = 0;
  const all = condition(() => seen >= count);
  for (const worker of workers) worker.on("completed", () => { seen += 1; all.check(); });
  await all.promise;
}

async function assertCounts(queue, expected) {
  const counts = await queue.getJobCounts();
  const zero = Object.fromEntries(Object.keys(counts).map((state) => [state, 0]));
  assert.deepEqual(counts, { ...zero, ...expected });
}

async function addAndProcess(count) {
  const queue = new Queue("plain", { connection });
  const tally = new Tally(), heard = new Tally();
  const events = new QueueEvents("plain", { connection });
  const all = condition(() => heard.total >= count);
  events.on("completed", ({ returnvalue }) => { heard.add(returnvalue); all.check(); });
  await events.waitUntilReady();
  await withWorkers("plain", WORKERS, async (job) => { tally.add(job.data.n); return job.data.n; }, async (workers) => {
    await Promise.all([addAll(queue, count), completed(workers, count), all.promise]);
  });
  tally.assertOnce(count);
  heard.assertOnce(count);
  await assertCounts(queue, { completed: count });
  await events.close();
  await queue.close();
}

async function retries(count) {
  const queue = new Queue("retries", { connection });
  const done = new Tally();
  let failures = 0;
  const processor = async (job) => {
    if (job.data.n % 2 === 0 && job.attemptsMade === 0) { failures += 1; throw new Error("first attempt"); }
    done.add(job.data.n);
  };
  await withWorkers("retries", WORKERS, processor, async (workers) => {
    const options = () => ({ attempts: 3, backoff: { type: "fixed", delay: 20 }, removeOnComplete: true });
    await Promise.all([addAll(queue, count, options), completed(workers, count)]);
  });
  done.assertOnce(count);
  assert.equal(failures, Math.ceil(count / 2));
  await assertCounts(queue, {});
  await queue.close();
}

async function delayed(count) {
  const queue = new Queue("delayed", { connection });
  const tally = new Tally();
  await addAll(queue, count, (n) => ({ delay: 500 + (n * 7919) % 500 }));
  await withWorkers("delayed", WORKERS, async (job) => tally.add(job.data.n), (workers) => completed(workers, count));
  tally.assertOnce(count);
  await assertCounts(queue, { completed: count });
  await queue.close();
}

async function priorities(count) {
  const queue = new Queue("priorities", { connection });
  await queue.pause();
  await addAll(queue, count, (n) => ({ priority: 1 + (n * 7919) % 10 }));
  const order = [];
  const all = condition(() => order.length >= count);
  const worker = new Worker("priorities", async (job) => { order.push(job.opts.priority); }, { connection });
  worker.on("completed", all.check);
  await queue.resume();
  await all.promise;
  await worker.close();
  assert.deepEqual(order, [...order].sort((a, b) => a - b));
  await assertCounts(queue, { completed: count });
  await queue.close();
}

async function scheduler(count) {
  const queue = new Queue("scheduled", { connection });
  await withWorkers("scheduled", WORKERS, async (job) => job.data.what, async (workers) => {
    const all = completed(workers, count);
    await queue.upsertJobScheduler("tick", { every: 50, limit: count }, { name: "job", data: { what: "tick" } });
    assert.equal(await queue.getJobSchedulersCount(), 1);
    await all;
  });
  await queue.removeJobScheduler("tick");
  assert.equal(await queue.getJobSchedulersCount(), 0);
  await assertCounts(queue, { completed: count });
  await queue.close();
}

// Parents with five children each: a parent runs after its children, with their results.
async function flows(count) {
  const flow = new FlowProducer({ connection });
  const parents = Math.ceil(count / 6);
  const sums = new Tally(), children = new Tally();
  const child = async (job) => { children.add(job.data.n); return job.data.n; };
  const parent = async (job) => {
    const values = Object.values(await job.getChildrenValues());
    const expected = Array.from({ length: 5 }, (_, i) => job.data.n * 5 + i);
    assert.deepEqual(values.sort((a, b) => a - b), expected);
    sums.add(job.data.n);
  };
  await withWorkers("children", WORKERS / 2, child, () => withWorkers("parents", WORKERS / 2, parent, async (workers) => {
    const all = completed(workers, parents);
    for (let n = 0; n < parents; n++) {
      const own = Array.from({ length: 5 }, (_, i) => ({ name: "child", queueName: "children", data: { n: n * 5 + i } }));
      await flow.add({ name: "parent", queueName: "parents", data: { n }, children: own });
    }
    await all;
  }));
  sums.assertOnce(parents);
  children.assertOnce(parents * 5);
  for (const [name, expected] of [["parents", parents], ["children", parents * 5]]) {
    const queue = new Queue(name, { connection });
    await assertCounts(queue, { completed: expected });
    await queue.close();
  }
  await flow.close();
}

// A queue that is drained, cleaned and removed leaves no key.
async function removal(count) {
  const queue = new Queue("removed", { connection });
  await addAll(queue, count, (n) => (n % 2 ? { delay: 3_600_000 } : {}));
  await queue.drain();
  await assertCounts(queue, { delayed: Math.floor(count / 2) });
  await queue.obliterate({ force: true });
  const client = new Redis(connection);
  assert.deepEqual(await client.keys("bull:removed:*"), []);
  client.disconnect();
  await queue.close();
}

run(async () => {
  await part("add and process", jobs, addAndProcess);
  await part("retries", Math.ceil(jobs / 5), retries);
  await part("delayed", Math.ceil(jobs / 5), delayed);
  await part("priorities", Math.ceil(jobs / 10), priorities);
  await part("scheduler", 20, scheduler);
  await part("flows", Math.ceil(jobs / 5), flows);
  await part("removal", Math.ceil(jobs / 5), removal);
});
