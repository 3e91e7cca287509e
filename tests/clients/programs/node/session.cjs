// Arguments, reports and the time limit that all programs share.
//
// usage: node PROGRAM.cjs PORT JOBS
"use strict";
const assert = require("node:assert/strict");

const port = Number(process.argv[2]);
const jobs = Number(process.argv[3]);
assert(port > 0 && jobs > 0, "usage: PROGRAM PORT JOBS");

// Runs one part. Prints its name, how many jobs it did, and its seconds.
async function part(name, count, run) {
  const begin = process.hrtime.bigint();
  await run(count);
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
  console.log(`${name}\t${count}\t${seconds.toFixed(3)}`);
}

// A promise that resolves when `isDone` returns true; `check` may be called at any time.
function condition(isDone) {
  let resolve;
  const promise = new Promise((r) => { resolve = r; });
  return { promise, check: () => { if (isDone()) resolve(); } };
}

// Counts how often each name occurs.
class Tally {
  counts = new Map();
  total = 0;
  add(name) {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    this.total += 1;
  }
  // Every name of 0 to count - 1 occurred once.
  assertOnce(count) {
    const wrong = [];
    for (let n = 0; n < count; n++) {
      const times = this.counts.get(n) ?? 0;
      if (times !== 1) wrong.push(`${n}: ${times} times`);
    }
    assert.deepEqual(wrong.slice(0, 10), [], `${wrong.length} of ${count} lost or repeated`);
    assert.equal(this.total, count);
  }
}

// Ends the process with `done`, or with an error, which includes a hang.
function run(main) {
  setTimeout(() => { console.error("timed out"); process.exit(1); }, 300_000).unref();
  process.on("unhandledRejection", (error) => { console.error(error); process.exit(1); });
  main().then(
    () => { console.log("done"); process.exit(0); },
    (error) => { console.error(error); process.exit(1); },
  );
}

module.exports = { assert, port, jobs, part, condition, Tally, run };
