//! How the server presents itself: the first lines of the log, the title in `ps`, and the listener
//! lines of INFO.

use std::io::IsTerminal;
use weft_config::{Config, Id, Status};
use weft_process::memory_policy;
use weft_process::title::{Variables, expand};
use weft_process::{log_notice, log_warning};
use weft_state::server::Server;
use weft_state::version::VERSION;

/// A picture of warp and weft, shown to users who start the server by hand.
const LOGO: &str = r"
      |   |   |   |   |   |
    --|-------|-------|------      Weft VERSION, BITS bit
      |   |   |   |   |   |
    ------|-------|-------|--      Running in MODE mode
      |   |   |   |   |   |        Port: PORT
    --|-------|-------|------      PID: NUMBER
      |   |   |   |   |   |        I/O threads: THREADS
";

/// Logs the version, the process, and warnings for the operator.
pub fn banner(srv: &Server, config: &Config) {
    let pid = std::process::id();
    log_notice!("oO0OoO0OoO0Oo Weft is starting oO0OoO0OoO0Oo");
    log_notice!(
        "Weft version={VERSION}, bits={}, pid={pid}, io-threads={}, cpus={}, just started",
        usize::BITS,
        srv.threads.configured(),
        srv.process.hardware.allowed_cpus,
    );
    match srv.process.config_file.as_str() {
        "" => log_warning!(
            "Warning: no config file specified, using the default config. In order to specify a \
             config file use weft-server /path/to/weft.conf"
        ),
        _ => log_notice!("Configuration loaded"),
    }
    if shows_logo(config) {
        let port = shown_port(config).to_string();
        let text = LOGO
            .replace("VERSION", VERSION)
            .replace("BITS", &usize::BITS.to_string())
            .replace("MODE", srv.nodes.cluster.mode())
            .replace("PORT", &port)
            .replace("NUMBER", &pid.to_string())
            .replace("THREADS", &srv.threads.configured().to_string());
        println!("{text}");
    } else {
        let mode = srv.nodes.cluster.mode();
        log_notice!("Running mode={mode}, port={}.", shown_port(config));
    }
    warnings(config);
}

/// The port for clients, which may be the one of TLS.
fn shown_port(config: &Config) -> i64 {
    match config.int(Id::PORT) {
        0 => config.int(Id::TLS_PORT),
        port => port,
    }
}

/// The logo is for terminals; a log file or syslog gets it only on request.
fn shows_logo(config: &Config) -> bool {
    let plain_log = config.bytes(Id::LOGFILE).is_empty() && !config.bool(Id::SYSLOG_ENABLED);
    let by_hand = plain_log && !config.bool(Id::DAEMONIZE) && std::io::stdout().is_terminal();
    config.bool(Id::ALWAYS_SHOW_LOGO) || by_hand
}

fn warnings(config: &Config) {
    warn_no_log(config);
    // Skip directives with the same reason as `appendonly`: one warning about it is enough.
    let told = |id: Id| id.directive().status == Id::APPENDONLY.directive().status;
    for (id, reason) in config.ineffective().into_iter().filter(|(id, _)| !told(*id)) {
        log_warning!("The directive '{}' has no effect in this version ({reason}).", id.name());
    }
    let overcommit = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
    // In mode 2, an allocation may fail although memory is free. The server never forks, so mode 0
    // does no harm.
    if overcommit.is_ok_and(|mode| mode.trim() == "2") {
        log_warning!(
            "WARNING The kernel is set to refuse memory beyond a fixed limit \
             (vm.overcommit_memory = 2). Large allocations may fail although memory is free; \
             'sysctl vm.overcommit_memory=1' lifts that."
        );
    }
    let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok();
    let somaxconn = somaxconn.and_then(|n| n.trim().parse::<i64>().ok());
    let backlog = config.int(Id::TCP_BACKLOG);
    if let Some(most) = somaxconn.filter(|most| *most < backlog) {
        log_warning!(
            "WARNING: The TCP backlog setting of {backlog} cannot be enforced because \
             /proc/sys/net/core/somaxconn is set to the lower value of {most}."
        );
    }
    if config.bool(Id::DISABLE_THP)
        && memory_policy::huge_pages_always()
        && !memory_policy::huge_pages_disabled()
    {
        log_notice!(
            "The kernel gives this process huge pages that it did not ask for, and is too old \
             to make an exception of those it did ask for. That is harmless here."
        );
    }
}

/// Warns that there is no append-only file although the configuration asks for one.
pub fn warn_no_log(config: &Config) {
    let works = Id::APPENDONLY.directive().status == Status::Effective;
    if config.bool(Id::APPENDONLY) && !works {
        log_warning!(
            "No append-only file: 'appendonly' has no effect in this version; writes since the \
             last snapshot are lost if the server crashes."
        );
    }
}

/// The transports on which the server accepts connections, by their names in the log: `tcp`,
/// `unix`, `tls`.
pub fn transports(config: &Config) -> Vec<&'static str> {
    let listens = |port| config.int(port) != 0 && !config.list(Id::BIND).is_empty();
    let unix = !config.bytes(Id::UNIXSOCKET).is_empty();
    let all = [(listens(Id::PORT), "tcp"), (unix, "unix"), (listens(Id::TLS_PORT), "tls")];
    all.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect()
}

/// The `listener` lines of INFO, with their numbers: as in Valkey, each transport has its own.
pub fn listener_lines(config: &Config) -> Vec<(usize, String)> {
    let line = |transport: &&'static str| match *transport {
        "unix" => (1, format!("name=unix,bind={}", config.str(Id::UNIXSOCKET))),
        tcp => {
            let addresses = config.list(Id::BIND).iter();
            let binds: Vec<String> =
                addresses.map(|a| format!("bind={}", String::from_utf8_lossy(a))).collect();
            let (number, port) = if tcp == "tls" { (2, Id::TLS_PORT) } else { (0, Id::PORT) };
            (number, format!("name={tcp},{},port={}", binds.join(","), config.int(port)))
        }
    };
    transports(config).iter().map(line).collect()
}

/// Sets the process title from the configuration, if the title may be set.
pub fn apply_title(srv: &Server, config: &Config) {
    let mut title = srv.statistics.info.title();
    let Some(title) = title.as_mut() else { return };
    let socket = config.str(Id::UNIXSOCKET);
    let port = config.int(Id::PORT) as u16;
    let address = match (port, config.list(Id::BIND).first()) {
        (0, _) | (_, None) => socket.to_string(),
        (port, Some(first)) => format!("{}:{port}", String::from_utf8_lossy(first)),
    };
    let variables = Variables {
        title: &srv.process.called,
        listen_addr: &address,
        server_mode: if srv.nodes.cluster.is_enabled() { "[cluster]" } else { "" },
        port,
        tls_port: config.int(Id::TLS_PORT) as u16,
        unix_socket: &socket,
        config_file: &srv.process.config_file,
    };
    if let Some(text) = expand(&config.str(Id::PROC_TITLE_TEMPLATE), &variables) {
        title.set(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> Config {
        let mut config = Config::default();
        let permit = weft_config::Permit { protected: true, loading: false };
        for (name, value) in pairs {
            let pair = (name.as_bytes(), value.as_bytes());
            config.set(&[pair], permit, &mut |_, _| Ok(())).unwrap();
        }
        config
    }

    #[test]
    fn listeners_of_a_configuration() {
        let two = config(&[("bind", "127.0.0.1 -::1"), ("port", "7000")]);
        let line = "name=tcp,bind=127.0.0.1,bind=-::1,port=7000";
        assert_eq!(listener_lines(&two), [(0, line.to_string())]);
        assert!(listener_lines(&config(&[("port", "0")])).is_empty());
        assert_eq!(transports(&two), ["tcp"]);
    }
}
