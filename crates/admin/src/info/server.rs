//! INFO server: the program, the process and where it listens.

use crate::info::text::Text;
use sha1::{Digest, Sha1};
use std::time::{SystemTime, UNIX_EPOCH};
use weft_config::Id;
use weft_executor::dispatch::core::Core;
use weft_process::stats;
use weft_state::version::VERSION;

/// The Redis version whose behaviour clients may expect: the last one before Valkey forked.
pub const COMPATIBLE_VERSION: &str = "7.2.4";

/// The Valkey version whose behaviour this server has. Exporters and dashboards use it as a label.
const VALKEY_VERSION: &str = "9.1.0";

pub fn write(core: &mut Core, text: &mut Text) {
    let srv = core.srv;
    let as_redis = srv.config().bool(Id::EXTENDED_REDIS_COMPATIBILITY);
    let build = *srv.statistics.info.build.get_or_init(|| build_id(&srv.process.executable));
    write_program(as_redis, srv.nodes.cluster.mode(), build, text);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let uptime = srv.process.started.elapsed().as_secs();
    text.field("process_id", std::process::id());
    text.field("process_supervised", srv.statistics.info.supervisor.get().unwrap_or(&"no"));
    text.field("run_id", &srv.process.run_id);
    let config = srv.config();
    text.field("tcp_port", config.int(Id::PORT));
    text.field("server_time_usec", now.as_micros());
    text.field("uptime_in_seconds", uptime);
    text.field("uptime_in_days", uptime / 86_400);
    let hz = config.int(Id::HZ);
    ["hz", "configured_hz", "clients_hz"].into_iter().for_each(|name| text.field(name, hz));
    text.field("lru_clock", now.as_secs() & u64::from(weft_table::CLOCK_MAX));
    text.field("executable", &srv.process.executable);
    text.field("config_file", &srv.process.config_file);
    text.field("io_threads_active", srv.threads.active());
    text.field("availability_zone", config.str(Id::AVAILABILITY_ZONE));
    for (n, listener) in crate::announce::listener_lines(&config) {
        text.field(&format!("listener{n}"), listener);
    }
    if let Some(until_ms) = srv.process.ending.attempts.waits_until() {
        text.field("shutdown_in_milliseconds", until_ms - srv.mono_ms());
    }
}

/// `as_redis`: use Redis's names for the fields that the reference renamed.
fn write_program(as_redis: bool, mode: &str, build_id: u64, text: &mut Text) {
    text.field("redis_version", COMPATIBLE_VERSION);
    text.field("server_name", "weft");
    text.field("weft_version", VERSION);
    text.field("valkey_version", VALKEY_VERSION);
    text.field("valkey_release_stage", "ga");
    text.field("redis_git_sha1", weft_state::version::COMMIT);
    text.field("redis_git_dirty", 0);
    text.field("redis_build_id", format_args!("{build_id:x}"));
    text.field(if as_redis { "redis_mode" } else { "server_mode" }, mode);
    text.field("os", stats::operating_system());
    text.field("arch_bits", stats::ARCH_BITS);
    text.field("monotonic_clock", "quanta (invariant TSC where there is one)");
    text.field("multiplexing_api", "epoll");
    // The reference reports this when another compiler built it.
    text.field("gcc_version", "0.0.0");
    text.field("rustc_version", stats::compiler_version());
}

/// Identifies a build without reading the whole program: a hash of its version, its compiler, its
/// length and its modification time.
fn build_id(executable: &str) -> u64 {
    let file = std::fs::metadata(executable);
    let (len, at) = file.map_or((0, None), |file| (file.len(), file.modified().ok()));
    let at = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let facts = format!("{VERSION} {} {len} {}", stats::compiler_version(), at.as_nanos());
    let digest = Sha1::digest(facts.as_bytes());
    digest[..8].iter().fold(0, |id, byte| id << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_have_different_ids() {
        let dir = tempfile::tempdir().expect("create a folder");
        let path = dir.path().join("program");
        let id = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("write the program");
            build_id(path.to_str().expect("text"))
        };
        let first = id(b"one");
        assert_eq!(first, build_id(path.to_str().expect("text")), "the id stays");
        assert_ne!(first, id(b"another"));
    }
}
