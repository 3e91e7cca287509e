//! INFO server: the program, the process and where it listens.

use super::text::Text;
use crate::dispatch::Core;
use crate::start::VERSION;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_config::Id;
use weft_process::stats;

/// The version of Redis whose behaviour clients may expect: the last one before Valkey left.
pub const COMPATIBLE_VERSION: &str = "7.2.4";

pub fn write(core: &mut Core, text: &mut Text) {
    let srv = core.srv;
    write_program(srv.config().bool(Id::EXTENDED_REDIS_COMPATIBILITY), text);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let uptime = srv.started.elapsed().as_secs();
    text.field("process_id", std::process::id());
    text.field("process_supervised", srv.info.supervisor.get().unwrap_or(&"no"));
    text.field("run_id", &srv.run_id);
    let config = srv.config();
    text.field("tcp_port", config.int(Id::PORT));
    text.field("server_time_usec", now.as_micros());
    text.field("uptime_in_seconds", uptime);
    text.field("uptime_in_days", uptime / 86_400);
    let hz = config.int(Id::HZ);
    ["hz", "configured_hz", "clients_hz"].into_iter().for_each(|name| text.field(name, hz));
    text.field("lru_clock", now.as_secs() & u64::from(weft_table::CLOCK_MAX));
    text.field("executable", &srv.executable);
    text.field("config_file", &srv.config_file);
    text.field("io_threads_active", srv.threads.active());
    text.field("availability_zone", config.str(Id::AVAILABILITY_ZONE));
    for (n, listener) in srv.info.listeners.get().into_iter().flatten().enumerate() {
        text.field(&format!("listener{n}"), listener);
    }
}

/// `as_redis`: with names of fields that Redis has, where the reference has changed them.
fn write_program(as_redis: bool, text: &mut Text) {
    text.field("redis_version", COMPATIBLE_VERSION);
    text.field("server_name", "weft");
    text.field("weft_version", VERSION);
    // Nobody knows from which commit a build is: zeros, as in the reference's releases.
    text.field("redis_git_sha1", "00000000");
    text.field("redis_git_dirty", 0);
    text.field(if as_redis { "redis_mode" } else { "server_mode" }, "standalone");
    text.field("os", stats::operating_system());
    text.field("arch_bits", stats::ARCH_BITS);
    text.field("monotonic_clock", "quanta (invariant TSC where there is one)");
    text.field("multiplexing_api", "epoll");
    text.field("rustc_version", stats::compiler_version());
}
