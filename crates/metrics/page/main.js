// Reads the server once a second and shows it. A lost server is asked again until it returns.

import { html, byId, setText, setAttribute, count, short, bytes, micros, percent, seconds, clock, facts } from "./text.js";
import { Rates } from "./rates.js";
import { Chart } from "./chart.js";
import { Machine } from "./machine.js";
import { Commands, Keys, Memory, Clients, Nodes, Saves } from "./sections.js";

const TICK_MS = 1000;
/** A server that does not answer for so long is lost. */
const PATIENCE_MS = 5000;

const rates = new Rates();
const sections = [new Machine(), new Commands(), new Keys(), new Memory(), new Clients(), new Nodes(), new Saves()];
const charts = [
  new Chart(byId("chart-rate"), {
    title: "Requests", unit: "a second", format: short, area: true,
    lines: [{ name: "rate", label: "requests/s", tone: "t1" }],
  }),
  new Chart(byId("chart-latency"), {
    title: "Latency", unit: "in the server, log scale", format: micros, log: true,
    lines: [{ name: "p50", label: "p50", tone: "t1" }, { name: "p99", label: "p99", tone: "t2" }, { name: "p999", label: "p99.9", tone: "t3" }],
  }),
];

const TILES = [
  ["rate", "Requests/s"], ["p99", "Latency, p99"], ["connections", "Clients"], ["keys", "Keys"],
  ["memory", "Memory"], ["hits", "Hit rate"], ["traffic", "Network in, out"], ["cpu", "CPUs used"],
];
const tiles = new Map(TILES.map(([name, label]) => {
  const [value, note] = [html("data", { id: `tile-${name}` }, "–"), html("span", { class: "note" })];
  byId("tiles").append(html("div", { class: "tile" }, html("span", { class: "label" }, label), value, note));
  return [name, { value, note }];
}));

function tile(name, text, exact, note = "") {
  const { value, note: below } = tiles.get(name);
  setText(value, text);
  setAttribute(value, "value", exact ?? "");
  setText(below, note);
}

function showTiles(step) {
  const { requests: r, memory: m, clients, databases } = step.now;
  const point = rates.points.at(-1) ?? {};
  const keys = databases.reduce((sum, db) => sum + db.keys, 0);
  const used = [...step.ioThreads(), ...step.otherThreads()].reduce((sum, t) => sum + (t.used ?? 0), 0);
  const [hits, misses] = [step.requests("keyspace_hits"), step.requests("keyspace_misses")];
  const expiring = databases.reduce((sum, db) => sum + db.expiring, 0);
  tile("rate", short(point.rate), point.rate, `${count(r.total_commands_processed)} in all`);
  tile("p99", micros(point.p99), point.p99, point.p50 === undefined ? "no calls" : `p50 ${micros(point.p50)}`);
  tile("connections", count(clients.connected_clients), clients.connected_clients, `${count(clients.blocked_clients)} blocked`);
  tile("keys", count(keys), keys, `${count(expiring)} with expiry`);
  tile("memory", bytes(m.used_memory), m.used_memory, m.maxmemory > 0 ? `${percent(m.used_memory / m.maxmemory)} of the limit` : `peak ${bytes(m.used_memory_peak)}`);
  const looked = (hits ?? 0) + (misses ?? 0);
  tile("hits", looked > 0 ? percent(hits / looked) : "–", looked > 0 ? hits / looked : "", looked > 0 ? `${short(misses)} misses/s` : "no reads");
  const [input, output] = [step.requests("total_net_input_bytes"), step.requests("total_net_output_bytes")];
  tile("traffic", `${bytes(input)}/s`, input, `out ${bytes(output)}/s`);
  tile("cpu", step.before ? used.toFixed(2) : "–", used, `of ${step.now.machine.cpus.length}`);
}

function showTotals({ now: { requests: r } }) {
  const row = (name, label) => [`total-${name}`, label, [count(r[name]), r[name]]];
  facts(byId("totals"), [
    row("total_commands_processed", "Commands"),
    row("total_connections_received", "Connections"),
    row("rejected_connections", "Rejected connections"),
    row("total_error_replies", "Error replies"),
    row("keyspace_hits", "Hits"),
    row("keyspace_misses", "Misses"),
    row("expired_keys", "Expired keys"),
    row("evicted_keys", "Evicted keys"),
    ["total-net-input", "Received", [bytes(r.total_net_input_bytes), r.total_net_input_bytes]],
    ["total-net-output", "Sent", [bytes(r.total_net_output_bytes), r.total_net_output_bytes]],
  ]);
}

function showIdentity({ server: s, replication }) {
  const role = replication.role === "master" ? "primary" : "replica";
  const mode = s.cluster_enabled ? ", cluster" : "";
  const place = `${location.hostname}:${s.tcp_port}`;
  setText(byId("identity"), `${place} · ${role}${mode} · ${s.weft_version} · up ${seconds(s.uptime_in_seconds)}`);
  const title = `${place}, Weft`;
  if (document.title !== title) document.title = title;
}

/** The state of the connection: live, wait, busy, lost, paused. */
function setState(state, text) {
  setAttribute(byId("state"), "data-state", state);
  setText(byId("state"), text);
}

/** `changing` is a part that screen readers don't repeat each second. */
function notice(text, tone, changing = "") {
  const place = byId("notice");
  setAttribute(place, "hidden", text ? null : "");
  setAttribute(place, "data-tone", tone);
  setText(byId("notice-text"), text ?? "");
  setText(byId("notice-changing"), changing);
}

function showServer(server) {
  if (server.loading) {
    const share = server.loading_total_bytes > 0 ? server.loading_loaded_bytes / server.loading_total_bytes : undefined;
    setState("busy", "loading");
    return notice("The server loads its data. Most commands are refused until it is done.", "busy", share === undefined ? "" : percent(share));
  }
  setState("live", "live");
  notice(server.ready ? null : `Not ready: ${server.not_ready_because}`, "warn");
}

let hot = null;
let lost = null;
let paused = false;
let timer = null;
let reading = false;

async function read(path) {
  // With a name and password in its address, the page may not use relative addresses.
  const response = await fetch(location.origin + path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!response.ok) throw new Error(response.status === 401 || response.status === 403 ? (await response.text()).trim() : `HTTP ${response.status}`);
  return response.json();
}

function show(state) {
  lost = null;
  document.body.classList.remove("stale");
  const step = rates.add(state);
  showIdentity(state);
  showServer(state.server);
  showTiles(step);
  showTotals(step);
  charts.forEach((chart) => chart.show(rates.points));
  sections.forEach((section) => section.show(step, hot));
  setAttribute(document.body, "data-reading", state.time_ms);
}

function showLoss(error) {
  lost ??= { since: Date.now() };
  rates.gap(Date.now());
  document.body.classList.add("stale");
  setState("lost", "no answer");
  const why = error.name === "TypeError" || error.name === "TimeoutError" ? "" : ` (${error.message})`;
  const text = `No answer since ${clock(lost.since)}${why}. The figures are those of before. The page asks again each second.`;
  notice(text, "lost", `(${seconds((Date.now() - lost.since) / 1000)} ago)`);
}

async function tick() {
  clearTimeout(timer);
  timer = null;
  if (paused || document.hidden || reading) return;
  reading = true;
  try {
    const [state, keys] = await Promise.all([read("/state.json"), read("/keys.json").catch(() => null)]);
    hot = keys ?? hot;
    if (!paused) show(state);
  } catch (error) {
    if (!paused) showLoss(error);
  }
  reading = false;
  timer = setTimeout(tick, TICK_MS);
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  setAttribute(byId("pause"), "aria-pressed", paused);
  setText(byId("pause"), paused ? "Resume" : "Pause");
  if (paused) setState("paused", "paused");
  else tick();
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) tick();
});

tick();
