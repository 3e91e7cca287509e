//! INFO threads, a section of our own: how the work is divided among the I/O threads.
//!
//! `busy`: the share of about the last second in which the thread ran, in percent of a CPU.
//! `pressure`: the share if the thread got a CPU whenever it wanted one. It decides how many
//! threads are active (see [`weft_state::threads`]). Threads do not spin, so both count useful work.
//!
//! `slow_lane_jobs`: long commands that run in the slow lane or wait for one of its threads.
//! `script_restarts`: runs of scripts that were undone and began again.
//!
//! One line for each existing thread, counted from the start: CONFIG RESETSTAT leaves them alone,
//! so the balance can be judged over the server's life. CPU times are those of the thread's last
//! cron, at most 100 ms old while the thread is awake.

use crate::info::text::Text;
use weft_base::cpulist::CpuSet;
use weft_executor::dispatch::core::Core;
use weft_process::stats::{Whose, cpu_time};
use weft_state::stats::ThreadStats;

pub fn write(core: &mut Core, text: &mut Text) {
    core.publish();
    note_cpu_time(core);
    let threads = &core.srv.threads;
    text.field("io_threads", threads.configured());
    text.field("io_threads_active", threads.active());
    let (all, placement) = (&core.srv.process.hardware.allowed_cpus, core.srv.placement());
    let or_all = |cpus: &CpuSet| if cpus.is_empty() { all.to_string() } else { cpus.to_string() };
    text.field("allowed_cpus", all);
    text.field("bio_cpus", or_all(&placement.bio));
    text.field("slow_cpus", or_all(&placement.slow));
    text.field("slow_lane_jobs", core.srv.slow.jobs());
    let scripts = &core.srv.scripts;
    let restarts = scripts.cache.totals().restarts + scripts.functions.restarts();
    text.field("script_restarts", restarts);
    for (n, thread) in threads.iter().enumerate() {
        text.field(&format!("io_thread_{n}_cpus"), thread.cpus());
        text.field(&format!("io_thread_{n}"), line(n < threads.active(), &thread.stats));
    }
}

/// Publishes the CPU time of the calling thread, which owns `core`, and the CPU on which it runs.
pub fn note_cpu_time(core: &Core) {
    let used = cpu_time(Whose::Thread);
    let cpu = weft_base::topology::current_cpu();
    core.stats().load.last_cpu.set(cpu.map_or(0, |cpu| cpu as u64 + 1));
    core.stats().load.cpu_user_us.set(used.user_us);
    core.stats().load.cpu_system_us.set(used.system_us);
}

fn line(active: bool, thread: &ThreadStats) -> String {
    let requests: u64 = thread.commands.iter().map(|c| c.calls.get()).sum();
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    format!(
        "active={},connections={},requests={requests},turns={},reads={},writes={},parked={},\
         moves={},busy={}.{},pressure={}.{},cpu_user={},cpu_sys={}",
        u8::from(active),
        thread.network.connections.get(),
        thread.event_loop.turns.get(),
        thread.network.reads.get(),
        thread.network.writes.get(),
        thread.event_loop.parked.get(),
        thread.network.moved.get(),
        thread.load.busy.get() / 10,
        thread.load.busy.get() % 10,
        thread.load.pressure.get() / 10,
        thread.load.pressure.get() % 10,
        seconds(thread.load.cpu_user_us.get()),
        seconds(thread.load.cpu_system_us.get()),
    )
}
