// From readings of /state.json to rates. Counters only grow, except where the server restarts or CONFIG RESETSTAT runs.

/** The points that are kept for charts: five minutes of one a second. */
const POINTS = 300;
/** Between readings further apart than this, a chart has a gap. */
const GAP_S = 10;

export class Rates {
  constructor() {
    this.before = null;
    this.points = [];
  }

  /** Takes the next reading. Returns what it shows together with the one before it. */
  add(state) {
    const before = this.before;
    this.before = state;
    const isSameRun = before && before.server.run_id === state.server.run_id;
    if (before && !isSameRun) this.points = [];
    const passed = isSameRun ? (state.time_ms - before.time_ms) / 1000 : 0;
    const isReset = isSameRun && state.requests.total_commands_processed < before.requests.total_commands_processed;
    if (!(passed > 0) || isReset) {
      this.gap(state.time_ms);
      return new Step(null, state, 1);
    }
    if (passed > GAP_S) this.gap(state.time_ms - 1);
    const step = new Step(before, state, passed);
    this.push({ at: state.time_ms, rate: step.requests("total_commands_processed"), ...step.latency() });
    return step;
  }

  gap(at) {
    if (this.points.length > 0) this.push({ at });
  }

  push(point) {
    this.points.push(point);
    if (this.points.length > POINTS) this.points.shift();
  }
}

/** Two readings, or one if there is none to compare with: then all rates are undefined. */
class Step {
  constructor(before, now, seconds) {
    this.before = before;
    this.now = now;
    this.seconds = seconds;
  }

  /** The increase in a second. */
  per(before, now) {
    if (!this.before || typeof now !== "number") return undefined;
    return Math.max(0, now - (typeof before === "number" && before <= now ? before : 0)) / this.seconds;
  }

  requests(name) {
    return this.per(this.before?.requests[name], this.now.requests[name]);
  }

  /** The entry of an earlier list with the same name. */
  static same(list, entry, key = "name") {
    return list?.find((other) => other[key] === entry[key]);
  }

  /** Percentiles of the calls between the readings, in microseconds. */
  latency() {
    if (!this.before) return {};
    const counts = differences(this.before.latency.buckets, this.now.latency.buckets);
    const total = counts.reduce((sum, [, n]) => sum + n, 0);
    if (total === 0) return {};
    const at = (share) => {
      let left = Math.max(1, Math.ceil(total * share));
      for (const [top, n] of counts) {
        left -= n;
        if (left <= 0) return top / 1000;
      }
      return undefined;
    };
    return { p50: at(0.5), p99: at(0.99), p999: at(0.999) };
  }

  /** Commands with their calls in a second, and the share of a CPU that they use. */
  commands() {
    return this.now.commands.map((command) => {
      const old = Step.same(this.before?.commands, command);
      return { ...command, rate: this.per(old?.calls, command.calls), load: this.per(old?.seconds, command.seconds) };
    });
  }

  /** I/O threads with their share of a CPU and their rates. */
  ioThreads() {
    return this.now.io_threads.threads.map((thread) => {
      const old = Step.same(this.before?.io_threads.threads, thread);
      return {
        ...thread,
        used: this.per(old && old.cpu_user_s + old.cpu_system_s, thread.cpu_user_s + thread.cpu_system_s),
        rate: this.per(old?.requests, thread.requests),
        waits: this.per(old?.shard_waits, thread.shard_waits),
      };
    });
  }

  /** The other threads by name, those of one name together. */
  otherThreads() {
    const sum = (threads) => {
      const sums = new Map();
      for (const { name, cpu, cpu_user_s, cpu_system_s } of threads ?? []) {
        const one = sums.get(name) ?? { name, cpu, seconds: 0 };
        one.seconds += cpu_user_s + cpu_system_s;
        sums.set(name, one);
      }
      return sums;
    };
    const old = sum(this.before?.other_threads);
    return [...sum(this.now.other_threads).values()].map((thread) => ({
      ...thread,
      used: this.per(old.get(thread.name)?.seconds, thread.seconds),
    }));
  }

  /** CPUs with the shares of their time, and interrupts in a second. */
  cpus() {
    const interrupts = this.interrupts();
    return this.now.machine.cpus.map((cpu) => {
      const old = Step.same(this.before?.machine.cpus, cpu, "cpu");
      const parts = ["user_s", "system_s", "interrupt_s", "stolen_s", "idle_s"];
      const grown = parts.map((part) => (old ? Math.max(0, cpu[part] - old[part]) : 0));
      const total = grown.reduce((sum, n) => sum + n, 0);
      const [user, system, interrupt, stolen] = grown.map((n) => (total > 0 ? n / total : 0));
      return {
        ...cpu, user, system, interrupt, stolen,
        packets: this.per(old && old.net_rx + old.net_tx, cpu.net_rx + cpu.net_tx),
        interrupts: interrupts.get(cpu.cpu) ?? 0,
      };
    });
  }

  /** Interrupts of all interfaces in a second, by CPU. */
  interrupts() {
    const sums = new Map();
    for (const { byCpu } of this.interfaces()) {
      for (const [cpu, rate] of byCpu) sums.set(cpu, (sums.get(cpu) ?? 0) + rate);
    }
    return sums;
  }

  interfaces() {
    return this.now.machine.interfaces.map((one) => {
      const old = Step.same(this.before?.machine.interfaces, one);
      const counts = new Map(old?.interrupts ?? []);
      return {
        ...one,
        received: this.per(old?.received_bytes, one.received_bytes),
        sent: this.per(old?.sent_bytes, one.sent_bytes),
        byCpu: one.interrupts.map(([cpu, n]) => [cpu, this.per(counts.get(cpu), n)]).filter(([, rate]) => rate > 0),
      };
    });
  }
}

/** The calls in each bucket between two lists of [top, calls up to it]. */
function differences(before, now) {
  const single = (buckets) => {
    let sum = 0;
    return buckets.map(([top, n]) => {
      const own = n - sum;
      sum = n;
      return [top, own];
    });
  };
  const old = new Map(single(before));
  return single(now).map(([top, n]) => [top, Math.max(0, n - (old.get(top) ?? 0))]);
}
