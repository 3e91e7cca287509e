// Threads on CPUs, on memory nodes: which thread runs where, how much of a CPU it uses, and where interrupts arrive.

import { html, byId, setText, setAttribute, count, short, bytes, percent, clock, Table } from "./text.js";

/** More CPUs than this that do nothing for the server are shown as a number. */
const QUIET_SHOWN = 16;

const PARTS = ["user", "system", "interrupt", "stolen"];

export class Machine {
  constructor() {
    this.cards = new Map();
    this.nodes = new Map();
    const number = (name, label, cell) => ({ name, label, cell, number: true });
    this.io = new Table(byId("io-threads"), "h-io", [
      { name: "thread", label: "Thread", cell: (t) => t.name },
      { name: "state", label: "State", cell: (t) => (t.active ? "active" : "asleep") },
      { ...number("used", "CPU share", (t) => [percent(t.used), t.used]), share: (t) => t.used },
      number("cpu", "On CPU", (t) => t.cpu),
      number("node", "Node", (t) => t.node),
      { name: "cpus", label: "May use", cell: (t) => t.cpus },
      number("connections", "Connections", (t) => [count(t.connections), t.connections]),
      number("rate", "Requests/s", (t) => short(t.rate)),
      number("requests", "Requests", (t) => [count(t.requests), t.requests]),
      number("waits", "Shard waits/s", (t) => short(t.waits)),
    ], "No I/O threads.");
    this.others = new Table(byId("other-threads"), "h-others", [
      { name: "thread", label: "Thread", cell: (t) => t.name },
      { ...number("used", "CPU share", (t) => [percent(t.used), t.used]), share: (t) => t.used },
      number("cpu", "On CPU", (t) => t.cpu),
      number("seconds", "CPU seconds", (t) => t.seconds.toFixed(2)),
    ], "No other threads.");
    this.interfaces = new Table(byId("interfaces"), "h-interrupts", [
      { name: "interface", label: "Interface", cell: (i) => i.name },
      number("received", "In/s", (i) => bytes(i.received)),
      number("sent", "Out/s", (i) => bytes(i.sent)),
      { name: "on", label: "Interrupts/s by CPU", cell: onCpus },
    ], "No interface is visible.");
    this.changes = new Table(byId("changes"), "h-changes", [
      { name: "time", label: "Time", cell: (c) => clock(c.time_ms) },
      { name: "change", label: "Active", cell: (c) => (c.before === c.after ? `stays ${c.after}` : `${c.before} → ${c.after}`) },
      { name: "reason", label: "Reason", cell: (c) => c.reason },
    ], "The number of active threads has not changed since the start.");
  }

  show(step) {
    const { io_threads: io, thread_changes } = step.now;
    const threads = step.ioThreads();
    const others = step.otherThreads().sort((a, b) => (b.used ?? 0) - (a.used ?? 0) || a.name.localeCompare(b.name));
    this.io.show(threads.map((t) => ({ ...t, tone: t.active ? null : "asleep" })));
    this.others.show(others);
    const interfaces = step.interfaces().filter((i) => i.received_bytes + i.sent_bytes > 0);
    this.interfaces.show(interfaces);
    this.changes.show(thread_changes);
    const used = [...threads, ...others].reduce((sum, t) => sum + (t.used ?? 0), 0);
    const text = `${io.active} of ${io.configured} I/O threads are active. All threads of the server use ${used.toFixed(2)} CPUs.`;
    setText(byId("threads-summary"), text);
    this.showCpus(step.cpus(), threads, others);
  }

  showCpus(cpus, threads, others) {
    const here = new Map(cpus.map((cpu) => [cpu.cpu, []]));
    for (const thread of threads) here.get(thread.cpu)?.push({ ...thread, io: true });
    for (const thread of others) if (thread.used >= 0.005) here.get(thread.cpu)?.push(thread);
    const isQuiet = (cpu) => here.get(cpu.cpu).length === 0 && cpu.interrupts < 1 && cpu.user + cpu.system < 0.02;
    const quiet = cpus.length > QUIET_SHOWN ? cpus.filter(isQuiet) : [];
    for (const [id, node] of this.nodes) {
      const own = cpus.filter((cpu) => cpu.node === id);
      if (own.length === 0) {
        node.panel.remove();
        this.nodes.delete(id);
      }
    }
    for (const id of new Set(cpus.map((cpu) => cpu.node))) {
      const node = this.nodes.get(id) ?? this.addNode(id);
      const own = cpus.filter((cpu) => cpu.node === id);
      const idle = own.filter((cpu) => quiet.includes(cpu)).length;
      const busy = own.reduce((sum, cpu) => sum + cpu.user + cpu.system + cpu.interrupt, 0);
      setText(node.note, `${own.length} CPUs, ${busy.toFixed(1)} busy${idle ? `; ${idle} idle ones are not shown` : ""}`);
      const cards = own.filter((cpu) => !quiet.includes(cpu)).map((cpu) => this.card(cpu, here.get(cpu.cpu)));
      if (cards.length !== node.cards.children.length || cards.some((card, at) => node.cards.children[at] !== card)) {
        node.cards.replaceChildren(...cards);
      }
    }
  }

  addNode(id) {
    const [note, cards] = [html("span", { class: "note" }), html("ul", { class: "cpus" })];
    const panel = html("div", { class: "card node", "data-node": id }, html("h3", {}, `Node ${id} `, note), cards);
    byId("machine").append(panel);
    const node = { panel, note, cards };
    this.nodes.set(id, node);
    return node;
  }

  card(cpu, threads) {
    const card = this.cards.get(cpu.cpu) ?? this.addCard(cpu);
    const busy = cpu.user + cpu.system + cpu.interrupt;
    PARTS.forEach((part, at) => card.parts[at].style.setProperty("width", `${100 * cpu[part]}%`));
    setText(card.busy, percent(busy));
    const packets = cpu.packets >= 0.5 ? `${short(cpu.packets)}/s for packets` : "";
    const interrupts = cpu.interrupts >= 0.5 ? `${short(cpu.interrupts)}/s of interfaces` : "";
    setText(card.interrupts, packets || interrupts ? `Interrupts: ${[interrupts, packets].filter(Boolean).join(", ")}` : "");
    setAttribute(card.interrupts, "data-value", cpu.interrupts);
    while (card.threads.children.length > threads.length) card.threads.lastElementChild.remove();
    threads.forEach((thread, at) => {
      const chip = card.threads.children[at] ?? card.threads.appendChild(html("li", {}, html("span", { class: "name" }), html("span", { class: "detail" }), html("i", { "aria-hidden": "true" })));
      setText(chip.children[0], thread.name.replace(/^weft-/, ""));
      const connections = thread.io && thread.active ? ` · ${count(thread.connections)} conn.` : "";
      setText(chip.children[1], thread.io && !thread.active ? "asleep" : percent(thread.used) + connections);
      chip.children[2].style.setProperty("width", `${100 * Math.min(1, thread.used ?? 0)}%`);
      setAttribute(chip, "class", thread.io ? (thread.active ? "io" : "io asleep") : "other");
    });
    setAttribute(card.element, "aria-label", `CPU ${cpu.cpu}: ${percent(busy)} busy`);
    return card.element;
  }

  addCard(cpu) {
    const parts = PARTS.map((_, at) => html("i", { class: `k${at + 1}` }));
    const [busy, interrupts, threads] = [html("b"), html("p", { class: "interrupts" }), html("ul")];
    const name = html("span", {}, `CPU ${cpu.cpu}`, cpu.allowed ? "" : " (not ours)");
    const bar = html("div", { class: "meter", "aria-hidden": "true" }, ...parts);
    const element = html("li", { class: "cpu", "data-cpu": cpu.cpu }, html("p", { class: "head" }, name, busy), bar, threads, interrupts);
    const card = { element, parts, busy, interrupts, threads };
    this.cards.set(cpu.cpu, card);
    return card;
  }
}

function onCpus(one) {
  if (one.byCpu.length === 0) return one.interrupts.length === 0 ? "none of its own" : "quiet";
  const most = [...one.byCpu].sort((a, b) => b[1] - a[1]).slice(0, 8);
  const rest = one.byCpu.length - most.length;
  return most.map(([cpu, rate]) => `CPU ${cpu}: ${short(rate)}`).join(", ") + (rest ? ` and ${rest} more` : "");
}
