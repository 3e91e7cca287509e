// The sections below the threads: commands, keys, memory, clients, nodes, saves.

import { html, svg, byId, setText, setAttribute, count, short, bytes, micros, percent, seconds, clock, facts, Table } from "./text.js";

const number = (name, label, cell) => ({ name, label, cell, number: true });

export class Commands {
  constructor() {
    const sorted = (column, sort) => ({ ...column, sort: (c) => sort(c) ?? -1 });
    this.table = new Table(byId("command-table"), "h-time", [
      { name: "command", label: "Command", cell: (c) => c.name },
      { ...sorted(number("load", "CPU share", (c) => [percent(c.load), c.load]), (c) => c.load), share: (c) => c.load },
      sorted(number("rate", "Calls/s", (c) => short(c.rate)), (c) => c.rate),
      sorted(number("calls", "Calls", (c) => [count(c.calls), c.calls]), (c) => c.calls),
      sorted(number("mean", "Mean", (c) => micros(c.calls ? (c.seconds / c.calls) * 1e6 : undefined)), (c) => c.seconds / c.calls),
      sorted(number("p50", "p50", (c) => micros(c.percentiles_us["50"])), (c) => c.percentiles_us["50"]),
      sorted(number("p99", "p99", (c) => micros(c.percentiles_us["99"])), (c) => c.percentiles_us["99"]),
      sorted(number("p999", "p99.9", (c) => micros(c.percentiles_us["99.9"])), (c) => c.percentiles_us["99.9"]),
      sorted(number("seconds", "Seconds", (c) => [c.seconds.toFixed(2), c.seconds]), (c) => c.seconds),
      sorted(number("failed", "Errors", (c) => [count(c.failed + c.rejected), c.failed + c.rejected]), (c) => c.failed + c.rejected),
    ], "No command has run yet.");
    this.table.sortBy(this.table.columns.find((column) => column.name === "seconds"));
    this.slow = new Table(byId("slow-log"), "h-slow", [
      { name: "command", label: "Command", cell: (e) => e.name ?? "unknown" },
      number("us", "Took", (e) => [micros(e.us), e.us]),
      number("time", "At", (e) => clock(e.time_s * 1000)),
      number("id", "Entry", (e) => e.id),
    ], "SLOWLOG is empty.");
  }

  show(step) {
    this.table.show(step.commands());
    this.slow.show([...step.now.slow_log].sort((a, b) => b.us - a.us));
  }
}

export class Keys {
  constructor() {
    this.hot = new Table(byId("hot-keys"), "h-hot", [
      { name: "key", label: "Key", cell: (k) => [k.cut ? `${k.key}…` : k.key, k.key] },
      { ...number("share", "Of requests", (k) => [`≈ ${percent(k.share)}`, k.share]), share: (k) => k.share },
      number("rate", "Requests/s", (k) => `≈ ${short(k.per_second)}`),
      number("bytes", "Key's bytes", (k) => count(k.bytes)),
      number("db", "Database", (k) => k.db),
    ], "No key was used in the last seconds.");
    this.databases = new Table(byId("databases"), "h-databases", [
      { name: "db", label: "Database", cell: (d) => d.number },
      number("keys", "Keys", (d) => [count(d.keys), d.keys]),
      number("expiring", "With expiry", (d) => [count(d.expiring), d.expiring]),
    ], "There are no keys.");
  }

  show(step, hot) {
    this.databases.show(step.now.databases);
    const note = byId("hot-note");
    if (!hot) return;
    setText(note, hot.keys ? `From ${count(Math.round(hot.samples))} sampled requests. Only the first key of a command counts.` : "Needs a user who may run MONITOR.");
    this.hot.show(hot.keys ?? []);
  }
}

export class Memory {
  constructor() {
    this.types = new Table(byId("type-memory"), "h-types", [
      { name: "type", label: "Type", cell: (t) => t.type },
      { ...number("bytes", "Memory", (t) => [`≈ ${bytes(t.bytes)}`, t.bytes]), share: (t) => t.share },
      number("keys", "Keys", (t) => [`≈ ${short(t.keys)}`, t.keys]),
      number("mean", "Mean of a key", (t) => [bytes(t.mean), t.mean]),
      number("samples", "Samples", (t) => count(Math.round(t.samples))),
    ], "There are no keys.");
  }

  showTypes(types) {
    const all = types.reduce((sum, t) => sum + t.bytes, 0);
    this.types.show(types.map((t) => ({ ...t, share: t.bytes / all })).sort((a, b) => b.bytes - a.bytes));
  }

  show({ now: { memory: m } }, keys) {
    if (keys) this.showTypes(keys.types);
    const known = m.mem_clients_normal + m.mem_clients_slaves + m.mem_replication_backlog + m.used_memory_scripts + m.used_memory_startup;
    const parts = [
      ["Data", m.used_memory_dataset, "s1"],
      ["Tables of keys", Math.max(0, m.used_memory_overhead - known), "s2"],
      ["Client buffers", m.mem_clients_normal, "s3"],
      ["Replicas and backlog", m.mem_clients_slaves + m.mem_replication_backlog, "s4"],
      ["Scripts", m.used_memory_scripts, "s5"],
      ["Server at start", m.used_memory_startup, "s6"],
      ["Free in the allocator", Math.max(0, m.used_memory_rss - m.used_memory), "s7"],
    ];
    const total = parts.reduce((sum, [, n]) => sum + n, 0) || 1;
    const place = byId("memory-bar");
    if (!this.items) {
      this.bar = html("div", { class: "stack", role: "img" }, ...parts.map(([, , tone]) => html("i", { class: tone })));
      this.items = parts.map(([name, , tone]) => html("li", {}, html("i", { class: `key ${tone}` }), html("span", {}, name), html("data")));
      place.replaceChildren(this.bar, html("ul", { class: "legend memory-legend" }, ...this.items));
    }
    parts.forEach(([name, n], at) => {
      this.bar.children[at].style.setProperty("width", `${(100 * n) / total}%`);
      const value = this.items[at].lastElementChild;
      setText(value, `${bytes(n)} · ${percent(n / total)}`);
      setAttribute(value, "value", n);
      setAttribute(value, "data-part", name);
    });
    setAttribute(this.bar, "aria-label", parts.map(([name, n]) => `${name} ${bytes(n)}`).join(", "));
    const limit = m.maxmemory > 0 ? `${bytes(m.maxmemory)}, ${percent(m.used_memory / m.maxmemory)} used` : "none";
    facts(byId("memory-facts"), [
      ["memory-used", "Used", [bytes(m.used_memory), m.used_memory]],
      ["memory-peak", "Peak", [bytes(m.used_memory_peak), m.used_memory_peak]],
      ["memory-rss", "Resident", [bytes(m.used_memory_rss), m.used_memory_rss]],
      ["memory-limit", "Limit (maxmemory)", [limit, m.maxmemory], m.maxmemory > 0 && m.used_memory > 0.95 * m.maxmemory ? "warn" : null],
      ["memory-policy", "Policy", m.maxmemory_policy],
      ["memory-huge", "In huge pages", [bytes(m.huge_pages), m.huge_pages]],
      ["memory-machine", "Machine", [bytes(m.total_system_memory), m.total_system_memory]],
    ]);
  }
}

export class Clients {
  constructor() {
    this.table = new Table(byId("client-table"), "h-clients", [
      { name: "name", label: "Client", cell: (c) => c.name || `#${c.id}` },
      number("bytes", "Holds", (c) => [bytes(c.bytes), c.bytes]),
      { name: "address", label: "Address", cell: (c) => c.address },
      { name: "user", label: "User", cell: (c) => c.user },
      { name: "command", label: "Last command", cell: (c) => c.command },
      number("idle", "Idle", (c) => seconds(c.idle_s)),
      number("thread", "I/O thread", (c) => c.thread),
    ], "No clients are connected.");
  }

  show({ now: { clients } }) {
    const blocked = clients.blocked_clients ? `, ${count(clients.blocked_clients)} blocked` : "";
    const listed = clients.largest ? "" : ". Listing them needs a user who may run CLIENT LIST";
    setText(byId("clients-note"), `${count(clients.connected_clients)} of at most ${count(clients.maxclients)} connected${blocked}${listed}.`);
    this.table.show(clients.largest ?? []);
  }
}

export class Nodes {
  constructor() {
    this.replicas = new Table(byId("replicas"), "h-replication", [
      { name: "replica", label: "Replica", cell: (r) => `${r.ip}:${r.port}` },
      { name: "state", label: "State", cell: (r) => r.state },
      number("lead", "Bytes behind", (r) => [bytes(r.lead), r.lead]),
      number("lag", "Last heard", (r) => `${count(r.lag_s)} s ago`),
      number("offset", "Position", (r) => [count(r.offset), r.offset]),
    ], "");
    this.nodes = new Table(byId("cluster-nodes"), "h-cluster", [
      { name: "node", label: "Node", cell: (n) => (n.name || n.id.slice(0, 8)) + (n.me ? " (this one)" : "") },
      { name: "address", label: "Address", cell: (n) => (n.ip ? `${n.ip}:${n.port}` : "") },
      { name: "role", label: "Role", cell: (n) => (n.primary ? "primary" : "replica") },
      { name: "health", label: "Health", cell: (n) => n.health },
      { ...number("slots", "Slots", (n) => [count(n.slots), n.slots]), share: (n) => n.slots / 16384 },
      { name: "shard", label: "Shard", cell: (n) => n.shard.slice(0, 8) },
    ], "");
  }

  show({ now: { replication: r, cluster } }) {
    const isReplica = r.role !== "master";
    const up = r.master_link_status === "up";
    facts(byId("replication-facts"), [
      ["role", "Role", isReplica ? "replica" : "primary"],
      isReplica && ["primary", "Primary", `${r.master_host}:${r.master_port}`],
      isReplica && ["link", "Link", r.master_sync_in_progress ? "full sync runs" : up ? "up" : "down", up ? "good" : "warn"],
      isReplica && up && ["link-heard", "Last heard", `${count(r.master_last_io_seconds_ago)} s ago`],
      ["position", "Position", [count(isReplica ? r.slave_repl_offset : r.master_repl_offset), isReplica ? r.slave_repl_offset : r.master_repl_offset]],
      ["replica-count", "Replicas", [count(r.connected_slaves), r.connected_slaves]],
      ["backlog", "Backlog", [bytes(r.repl_backlog_histlen), r.repl_backlog_histlen]],
    ]);
    this.replicas.show(r.replicas.map((one) => ({ ...one, lead: Math.max(0, r.master_repl_offset - one.offset), tone: one.state === "online" ? null : "warn" })));
    setAttribute(byId("cluster"), "hidden", cluster ? null : "");
    if (cluster) this.showCluster(cluster);
  }

  showCluster(cluster) {
    facts(byId("cluster-facts"), [
      ["cluster-state", "State", cluster.state, cluster.state === "ok" ? "good" : "warn"],
      ["cluster-slots", "Slots with a node", [`${count(cluster.slots_assigned)} of 16,384`, cluster.slots_assigned]],
      ["cluster-epoch", "Epoch", [count(cluster.epoch), cluster.epoch]],
      typeof cluster.lease_left_ms === "number" && ["lease", "Lease left", `${(cluster.lease_left_ms / 1000).toFixed(1)} s`, cluster.lease_left_ms > 0 ? "good" : "warn"],
    ]);
    this.nodes.show(cluster.nodes.map((node) => ({ ...node, tone: node.health === "ok" ? null : "warn" })));
    const key = JSON.stringify(cluster.slot_runs);
    if (key === this.runs) return;
    this.runs = key;
    const owners = cluster.nodes.filter((node) => node.slots > 0);
    const tone = (at) => `s${1 + (owners.indexOf(cluster.nodes[at]) % 7)}`;
    const label = (at) => cluster.nodes[at].name || cluster.nodes[at].id.slice(0, 8);
    const rects = (cluster.slot_runs ?? []).map(([first, last, owner]) =>
      svg("rect", { x: first, y: 0, width: last - first + 1, height: 10, class: tone(owner), "data-first": first, "data-last": last }, svg("title", {}, `${first} to ${last}: ${label(owner)}`)));
    const map = svg("svg", { class: "slots", viewBox: "0 0 16384 10", preserveAspectRatio: "none", role: "img", "aria-label": `The 16,384 slots by node: ${owners.map((node) => `${node.slots} of ${node.name || node.id.slice(0, 8)}`).join(", ")}` }, svg("rect", { x: 0, y: 0, width: 16384, height: 10, class: "none" }), ...rects);
    const legend = owners.map((node) => html("li", {}, html("i", { class: `key ${tone(cluster.nodes.indexOf(node))}` }), node.name || node.id.slice(0, 8)));
    byId("slots").replaceChildren(map, html("p", { class: "ends" }, html("span", {}, "slot 0"), html("span", {}, "16383")), html("ul", { class: "legend" }, ...legend));
  }
}

export class Saves {
  show({ now: { saves: s, time_ms } }) {
    const saving = s.rdb_bgsave_in_progress === 1;
    const rewriting = s.aof_rewrite_in_progress === 1;
    const done = s.current_save_keys_total > 0 ? s.current_save_keys_processed / s.current_save_keys_total : 0;
    this.progress ??= html("progress", { max: 1, "aria-label": "The running snapshot" });
    setAttribute(this.progress, "value", done);
    byId("save-progress").replaceChildren(...(saving ? [this.progress] : []));
    const keys = `${count(s.current_save_keys_processed)} of ${count(s.current_save_keys_total)} keys`;
    const ok = (text) => (text === "ok" ? "good" : "warn");
    facts(byId("rdb-facts"), [
      ["save-state", "Now", saving ? `saving, ${percent(done)}` : "no save runs", saving ? "busy" : null],
      saving && ["save-keys", "Saved", keys],
      saving && ["save-running", "Runs for", seconds(s.rdb_current_bgsave_time_sec)],
      ["save-last", "Last save or start", [`${clock(s.rdb_last_save_time * 1000)}, ${seconds(time_ms / 1000 - s.rdb_last_save_time)} ago`, s.rdb_last_save_time]],
      ["save-status", "Last result", s.rdb_last_bgsave_status, ok(s.rdb_last_bgsave_status)],
      s.rdb_last_bgsave_time_sec >= 0 && ["save-took", "It took", seconds(s.rdb_last_bgsave_time_sec)],
      ["save-changes", "Changes since", [count(s.rdb_changes_since_last_save), s.rdb_changes_since_last_save]],
      s.cuts > 0 && ["save-cut", "Threads stopped for", micros(s.last_cut_us)],
    ]);
    const aof = s.aof_enabled === 1;
    facts(byId("aof-facts"), [
      ["aof-state", "Now", aof ? (rewriting ? "on, being rewritten" : "on") : "off", rewriting ? "busy" : null],
      aof && ["aof-size", "Size", [bytes(s.aof_current_size), s.aof_current_size]],
      aof && ["aof-base", "After the last rewrite", [bytes(s.aof_base_size), s.aof_base_size]],
      aof && ["aof-status", "Last write", s.aof_last_write_status, ok(s.aof_last_write_status)],
      aof && ["aof-rewrite", "Last rewrite", s.aof_last_bgrewrite_status, ok(s.aof_last_bgrewrite_status)],
      aof && ["aof-unread", "Not written yet", [bytes(s.aof_unread_bytes), s.aof_unread_bytes]],
      ["log-unread", "Effects not read yet", [bytes(s.log_unread_bytes), s.log_unread_bytes]],
    ]);
  }
}
