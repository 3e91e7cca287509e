// socket.io over two servers that share rooms by an adapter, the Pub/Sub or the streams one.
"use strict";
const http = require("node:http");
const { once } = require("node:events");
const { Server } = require("socket.io");
const { io } = require("socket.io-client");
const { createClient } = require("redis");
const pubSub = require("@socket.io/redis-adapter");
const streams = require("@socket.io/redis-streams-adapter");
const { assert, port, jobs, part, run } = require("./session.cjs");

const CLIENTS = 8;

async function start(adapter) {
  const server = new Server(http.createServer().listen(0, "127.0.0.1"), { adapter });
  server.on("connection", (socket) => {
    socket.on("join", (room, done) => { socket.join(room); done(); });
    socket.on("say", (room, text) => server.to(room).emit("said", text));
  });
  await once(server.httpServer, "listening");
  return server;
}

async function connect(server) {
  const socket = io(`http://127.0.0.1:${server.httpServer.address().port}`, { transports: ["websocket"] });
  await once(socket, "connect");
  socket.seen = [];
  socket.on("said", (text) => socket.seen.push(text));
  return socket;
}

async function until(isReached) {
  const end = Date.now() + 60_000;
  while (!(await isReached())) {
    assert.ok(Date.now() < end, "not reached");
    await new Promise((resolve) => { setTimeout(resolve, 10); });
  }
}

async function rooms(servers, count) {
  const clients = await Promise.all(Array.from({ length: CLIENTS }, (_, n) => connect(servers[n % 2])));
  await Promise.all(clients.map((client, n) => client.emitWithAck("join", `room${n % 4 < 2}`)));
  // The servers know the sockets of each other.
  await until(async () => (await servers[0].fetchSockets()).length === CLIENTS);
  for (let n = 0; n < count; n++) clients[0].emit("say", "roomtrue", n);
  const all = Array.from({ length: count }, (_, n) => n);
  await until(() => clients.every((client, n) => client.seen.length === (n % 4 < 2 ? count : 0)));
  clients.forEach((client, n) => assert.deepEqual(client.seen, n % 4 < 2 ? all : []));
  servers[1].in("roomfalse").disconnectSockets();
  await until(() => clients.every((client, n) => client.connected === n % 4 < 2));
  clients.forEach((client) => client.disconnect());
}

run(async () => {
  const open = async () => {
    const client = createClient({ socket: { port } });
    client.on("error", () => {});
    return client.connect();
  };
  const byPubSub = async () => start(pubSub.createAdapter(await open(), await open()));
  const byStreams = async () => start(streams.createAdapter(await open()));
  for (const [name, make] of [["Pub/Sub adapter", byPubSub], ["streams adapter", byStreams]]) {
    const servers = [await make(), await make()];
    await part(name, jobs, () => rooms(servers, jobs));
  }
});
