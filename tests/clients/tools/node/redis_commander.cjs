// redis-commander, driven over HTTP as its page does it. Prints each part that has passed.
//
// usage: node redis_commander.cjs PORT
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const { setTimeout: sleep } = require("node:timers/promises");

const port = process.argv[2];
const connection = `R:127.0.0.1:${port}:0`;
const PATIENCE_MS = 60_000;
let page;

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const free = server.address().port;
  server.close();
  await once(server, "close");
  return free;
}

// Starts the program and waits for its connection.
async function start(folder) {
  const own = await freePort();
  const program = require.resolve("redis-commander/bin/redis-commander.js");
  const words = ["--redis-host", "127.0.0.1", "--redis-port", port, "--address", "127.0.0.1", "--port", own, "--nosave"];
  const log = fs.openSync(path.join(folder, "log"), "w");
  const child = spawn(process.execPath, [program, ...words], { env: { ...process.env, HOME: folder }, stdio: ["ignore", log, log] });
  page = `http://127.0.0.1:${own}`;
  for (const end = Date.now() + PATIENCE_MS; ; await sleep(50)) {
    const said = fs.readFileSync(path.join(folder, "log"), "utf8");
    assert.ok(Date.now() < end && child.exitCode === null, said);
    if (said.includes(`Redis Connection 127.0.0.1:${port}`)) return child;
  }
}

async function ask(method, where, fields) {
  const body = fields && new URLSearchParams(fields);
  const response = await fetch(page + where, { method, body });
  const text = await response.text();
  assert.equal(response.status, 200, `${where}: ${text}`);
  try { return JSON.parse(text); } catch { return text; }
}

const key = (name) => ask("GET", `/apiv2/key/${connection}/${name}`);
const exec = async (cmd) => (await ask("POST", `/apiv2/exec/${connection}`, { cmd })).data;
const change = (method, where, fields) => ask(method, `/apiv2/${where}`, { connectionId: connection, ...fields });

const parts = {
  async "server info"() {
    assert.match(await ask("GET", "/"), /Redis Commander/);
    const { data: [server] } = await ask("GET", `/apiv2/server/${connection}/info`);
    const info = Object.fromEntries(server.info.map((line) => [line.key, line.value]));
    assert.equal(info["Tcp port"], port);
    assert.equal(info.Role, "master");
  },
  async terminal() {
    assert.equal(await exec("SET user:1 ann"), "OK");
    assert.deepEqual(await exec("MGET user:1 none"), ["ann", null]);
    assert.match(await exec("INCR user:1"), /not an integer/);
    assert.match(await exec("NOSUCH"), /unknown command/);
  },
  async "keys and types"() {
    await exec("RPUSH list a b c");
    await exec("SADD set a b");
    await exec("ZADD zset 1 a 2 b");
    await exec("HSET hash f v g w");
    await exec("XADD stream 1-1 n 1");
    for (let n = 0; n < 500; n++) await exec(`SET many:${n} ${n}`);
    const { data: tree } = await ask("GET", `/apiv2/keystree/${connection}`);
    assert.deepEqual(tree.map((node) => node.text.split(" ")[0]).sort(), ["hash", "list", "many:*", "set", "stream", "user:*", "zset"]);
    const { data: many } = await ask("GET", `/apiv2/keystree/${connection}/many:`);
    assert.equal(many.length, 500);
    assert.deepEqual(await ask("GET", `/apiv2/keys/${connection}/many:49*`).then(({ data }) => data.sort()),
      ["many:49", ...Array.from({ length: 10 }, (_, n) => `many:49${n}`)]);
    const found = await Promise.all(["list", "set", "zset", "hash", "stream"].map(key));
    assert.deepEqual(found.map((one) => one.type), ["list", "set", "zset", "hash", "stream"]);
    assert.deepEqual(found[0].items.map((item) => item.value), ["a", "b", "c"]);
    assert.deepEqual(found[1].members.sort(), ["a", "b"]);
    assert.deepEqual(found[3].data, { f: "v", g: "w" });
  },
  async edits() {
    await ask("POST", `/apiv2/key/${connection}/made`, { stringValue: "first", keyType: "string" });
    assert.equal((await key("made")).value, "first");
    await ask("PATCH", `/apiv2/key/${connection}/made`, { key: "renamed" });
    assert.deepEqual([await exec("GET renamed"), await exec("EXISTS made")], ["first", 0]);
    await change("POST", "list/value", { key: "list", value: "d", type: "rpush" });
    await change("PUT", "list/value", { key: "list", index: 0, value: "z" });
    assert.deepEqual(await exec("LRANGE list 0 -1"), ["z", "b", "c", "d"]);
    await change("DELETE", "list/value", { key: "list", index: 1, value: "REDISCOMMANDERTOMBSTONE" });
    assert.deepEqual(await exec("LRANGE list 0 -1"), ["z", "c", "d"]);
    await change("PUT", "set/member", { key: "set", value: "c", oldValue: "a" });
    assert.deepEqual((await exec("SMEMBERS set")).sort(), ["b", "c"]);
    await change("POST", "zset/member", { key: "zset", score: 3, value: "c" });
    assert.deepEqual(await exec("ZRANGE zset 0 -1 WITHSCORES"), ["a", "1", "b", "2", "c", "3"]);
    await change("PUT", "hash/field", { key: "hash", field: "f", value: "x" });
    assert.equal(await exec("HGET hash f"), "x");
    await change("POST", "xset/member", { key: "stream", timestamp: "2-1", field: "n", value: "2" });
    assert.deepEqual(await exec("XRANGE stream - +"), [{ id: "1-1", data: { n: "1" } }, { id: "2-1", data: { n: "2" } }]);
    await ask("POST", `/apiv2/keys/${connection}/many:*?action=delete`);
    assert.deepEqual(await exec("KEYS many:*"), []);
  },
  async "export and import"() {
    // The program can't export streams, and joins the items of lists.
    await exec("DEL stream list");
    const dump = await ask("GET", `/tools/export?connection=${connection}&type=redis`);
    assert.match(dump, /^HSET "hash" "f" "x"$/m);
    await exec("FLUSHALL");
    await ask("POST", "/tools/import", { connection, data: dump });
    assert.equal(await exec("DBSIZE"), 5);
    assert.equal(await exec("GET renamed"), "first");
    assert.deepEqual(await exec("HGETALL hash"), { f: "x", g: "w" });
  },
  async "lost connection"() {
    for (let n = 1; n <= 20; n++) {
      await exec("CLIENT KILL TYPE normal SKIPME no");
      assert.equal(await exec("INCR again"), n);
    }
  },
};

async function main() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "redis-commander-"));
  const child = await start(folder);
  try {
    for (const [name, part] of Object.entries(parts)) {
      await part();
      console.log(name);
    }
  } finally {
    child.kill();
    fs.rmSync(folder, { recursive: true });
  }
  console.log("done");
}

setTimeout(() => { console.error("timed out"); process.exit(1); }, 5 * PATIENCE_MS).unref();
main().then(() => process.exit(0), (error) => {
  console.error(error.stack, `\n${error.message.split("\n")[0]}`);
  process.exit(1);
});
