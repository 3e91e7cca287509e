// TLS sessions of ioredis. tests/tests/tls/libraries.rs has the requests that it reads.
//
// usage: node tls.cjs FOLDER
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const readline = require("node:readline");
const Redis = require("ioredis");

const MESSAGES = 100;
const PATIENCE_MS = 60_000;
const file = (name) => fs.readFileSync(`${process.argv[2]}/${name}`);
let options, client;

// A client that tries again only after it was connected once.
async function open(more) {
  let isReady = false, failure;
  const opened = new Redis({
    ...options, ...more, maxRetriesPerRequest: null, lazyConnect: true,
    retryStrategy: () => (isReady ? 20 : null),
  });
  opened.on("error", (error) => { failure = error; });
  try {
    await opened.connect();
    isReady = true;
    return opened;
  } catch (error) {
    opened.disconnect();
    throw failure ?? error;
  }
}

async function connect(port, ca, certificate, username, password) {
  client?.disconnect();
  options = { host: "localhost", port: Number(port), tls: { ca: file(`${ca}.crt`) } };
  if (certificate !== "-") {
    options.tls.cert = file(`${certificate}.crt`);
    options.tls.key = file(`${certificate}.key`);
  }
  if (username !== "-") Object.assign(options, { username, password });
  client = await open({});
  return await client.acl("WHOAMI");
}

const write = (key) => client.set(key, "value");

async function session() {
  const pipe = client.pipeline();
  for (let n = 0; n < 1000; n++) pipe.rpush("ioredis:list", n);
  assert.deepEqual(await pipe.exec(), Array.from({ length: 1000 }, (_, n) => [null, n + 1]));
  const large = "0123456789abcdef".repeat(65536);
  assert.equal(await client.set("ioredis:large", large), "OK");
  assert.equal(await client.get("ioredis:large"), large);
  assert.deepEqual(await client.multi().incr("ioredis:n").incrby("ioredis:n", 41).exec(), [[null, 1], [null, 42]]);
  await subscribe();
  await block();
  await client.del("ioredis:list", "ioredis:large", "ioredis:n");
  return "OK";
}

async function subscribe() {
  const subscriber = await open({});
  assert.equal(await subscriber.subscribe("ioredis"), 1);
  const seen = [];
  const all = new Promise((resolve) => {
    subscriber.on("message", (_, message) => { if (seen.push(message) === MESSAGES) resolve(); });
  });
  for (let n = 0; n < MESSAGES; n++) assert.equal(await client.publish("ioredis", n), 1);
  await all;
  assert.deepEqual(seen, Array.from({ length: MESSAGES }, (_, n) => String(n)));
  subscriber.disconnect();
}

async function block() {
  const waiter = await open({ connectionName: "ioredis" });
  const popped = waiter.blpop("ioredis:queue", PATIENCE_MS / 1000);
  while (!/ name=ioredis .* flags=\w*b/.test(await client.client("LIST"))) { /* not blocked yet */ }
  await client.rpush("ioredis:queue", "element");
  assert.deepEqual(await popped, ["ioredis:queue", "element"]);
  waiter.disconnect();
}

const requests = { connect, set: write, session, again: () => write("again") };

async function main() {
  setTimeout(() => { console.error("timed out"); process.exit(1); }, 3 * PATIENCE_MS).unref();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...words] = line.split(" ");
    let reply;
    try {
      reply = await requests[name](...words);
    } catch (error) {
      reply = `error ${error.name} ${error.code ?? ""} ${error.message}`;
    }
    console.log(String(reply).replace(/\s+/g, " "));
  }
  client?.disconnect();
}

main();
