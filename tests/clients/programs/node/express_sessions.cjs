// express-session with connect-redis: logins, requests that change a session, logouts and expiry, over HTTP.
"use strict";
const http = require("node:http");
const express = require("express");
const session = require("express-session");
const { RedisStore } = require("connect-redis");
const { createClient } = require("redis");
const { assert, port, jobs, part, run } = require("./session.cjs");

const USERS = 16;
const agent = new http.Agent({ keepAlive: true, maxSockets: USERS });

function application(client, ttl) {
  const app = express();
  const store = new RedisStore({ client, prefix: `session${ttl}:`, ttl });
  app.use(session({ store, secret: "not a secret", resave: false, saveUninitialized: false }));
  app.get("/login", (request, response, next) => request.session.regenerate((error) => {
    if (error) return next(error);
    request.session.visits = 0;
    return response.json(0);
  }));
  app.get("/visit", (request, response) => {
    if (request.session.visits === undefined) return response.json(null);
    request.session.visits += 1;
    return response.json(request.session.visits);
  });
  app.get("/logout", (request, response, next) => request.session.destroy((error) => {
    if (error) return next(error);
    return response.json(true);
  }));
  return { app, store };
}

function request(server, path, cookie) {
  return new Promise((resolve, reject) => {
    const headers = cookie ? { cookie } : {};
    http.get({ port: server.address().port, path, headers, agent }, (response) => {
      const parts = [];
      response.on("data", (data) => parts.push(data));
      response.on("end", () => {
        const body = Buffer.concat(parts).toString();
        if (response.statusCode !== 200) return reject(new Error(body));
        const set = response.headers["set-cookie"];
        return resolve({ body: JSON.parse(body), cookie: set ? set[0].split(";")[0] : cookie });
      });
    }).on("error", reject);
  });
}

// One user: a login, visits that the session counts, and a logout.
async function visit(server, visits) {
  let { cookie } = await request(server, "/login");
  for (let n = 1; n <= visits; n++) {
    const { body } = await request(server, "/visit", cookie);
    assert.equal(body, n, "the session counts each visit");
  }
  await request(server, "/logout", cookie);
  const { body } = await request(server, "/visit", cookie);
  assert.equal(body, null, "the session has ended");
}

const listen = (app) => new Promise((resolve) => { const server = app.listen(0, "127.0.0.1", () => resolve(server)); });
const callback = (call) => new Promise((resolve, reject) => {
  call((error, value) => (error ? reject(error) : resolve(value)));
});

run(async () => {
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  client.on("error", (error) => { console.error(error); process.exit(1); });
  await client.connect();

  const long = application(client, 3600);
  const server = await listen(long.app);
  await part("visits", jobs, async (count) => {
    await Promise.all(Array.from({ length: USERS }, () => visit(server, Math.ceil(count / USERS))));
    assert.equal(await callback((done) => long.store.length(done)), 0);
  });

  const short = application(client, 1);
  const ending = await listen(short.app);
  await part("expiry", Math.ceil(jobs / 10), async (count) => {
    const cookies = [];
    for (let n = 0; n < count; n++) cookies.push((await request(ending, "/login")).cookie);
    while (await callback((done) => short.store.length(done)) > 0) await new Promise((later) => { setTimeout(later, 20); });
    for (const cookie of cookies) assert.equal((await request(ending, "/visit", cookie)).body, null);
  });

  await part("clear", Math.ceil(jobs / 10), async (count) => {
    for (let n = 0; n < count; n++) await request(server, "/login");
    assert.equal(await callback((done) => long.store.length(done)), count);
    assert.equal((await callback((done) => long.store.all(done))).length, count);
    await callback((done) => long.store.clear(done));
    assert.equal(await client.dbSize(), 0);
  });
});
