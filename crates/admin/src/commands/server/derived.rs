//! Parts of the server that keep a copy of directives.

use weft_config::{Config, Id};
use weft_process::crash;
use weft_process::log::{self, Level};
use weft_process::memory_policy::OomMode;
use weft_state::commandlog::LogKind;
use weft_state::server::Server;

/// Applies the log directives that may change while the server runs.
pub fn apply_log(config: &Config) {
    log::set_level(match config.word(Id::LOGLEVEL) {
        "debug" => Level::Debug,
        "verbose" => Level::Verbose,
        "warning" => Level::Warning,
        "nothing" => Level::Nothing,
        _ => Level::Notice,
    });
    log::set_format(match config.word(Id::LOG_FORMAT) {
        "logfmt" => log::Format::Logfmt,
        "json" => log::Format::Json,
        _ => log::Format::Legacy,
    });
    log::set_timestamp(match config.word(Id::LOG_TIMESTAMP_FORMAT) {
        "iso8601" => log::Timestamp::Iso8601,
        "milliseconds" => log::Timestamp::Milliseconds,
        _ => log::Timestamp::Legacy,
    });
}

/// Passes directives to the parts of the server that keep a copy of them. Runs after the start and
/// after each CONFIG SET.
pub fn apply_derived(srv: &Server, config: &Config) {
    apply_log(config);
    crash::set_enabled(config.bool(Id::CRASH_LOG_ENABLED));
    let max = |id| config.int(id).max(0) as usize;
    srv.statistics.commandlog.set_max(LogKind::Slow, max(Id::COMMANDLOG_SLOW_EXECUTION_MAX_LEN));
    srv.statistics
        .commandlog
        .set_max(LogKind::LargeRequest, max(Id::COMMANDLOG_LARGE_REQUEST_MAX_LEN));
    srv.statistics.commandlog.set_max(LogKind::LargeReply, max(Id::COMMANDLOG_LARGE_REPLY_MAX_LEN));
    srv.statistics.latency.set_threshold(config.int(Id::LATENCY_MONITOR_THRESHOLD));
}

/// Sets the kernel's preference for killing this process when memory runs out (`oom-score-adj`).
///
/// # Errors
/// Those of the file in /proc, also logged.
pub fn apply_oom_score(srv: &Server, config: &Config) -> std::io::Result<()> {
    let mode = match config.word(Id::OOM_SCORE_ADJ) {
        "no" => OomMode::No,
        "absolute" => OomMode::Absolute,
        _ => OomMode::Relative,
    };
    let [primary, ..] = config.oom_score_adj_values();
    srv.statistics.info.oom_score().apply(mode, primary)
}
