// Runs the parts of an everyday session one after another, and prints the name of each that has passed.
"use strict";
const { setTimeout: sleep } = require("node:timers/promises");

const PATIENCE_MS = 60_000;

// Waits for a state.
async function until(isReached) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await isReached())) {
    if (Date.now() > end) throw new Error("not reached");
    await sleep(10);
  }
}

async function run(parts) {
  try {
    for (const [name, part] of Object.entries(parts)) {
      await part();
      console.log(name);
    }
  } catch (error) {
    console.error(error.stack, `\n${error.message.split("\n")[0]}`);
    process.exit(1);
  }
  console.log("done");
  process.exit(0);
}

module.exports = { run, until };
