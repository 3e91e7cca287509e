//! From the command line to running threads, and from a stop request to the exit code.

use crate::failure;
use rustix::event::{PollFd, PollFlags, poll};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_admin::announce;
use weft_admin::commands::derived::{apply_derived, apply_log, apply_oom_score};
use weft_admin::restart;
use weft_admin::threads;
use weft_admin::tls;
use weft_admin::watchdog;
use weft_config::cli::{self, USAGE};
use weft_config::{Cli, Config, Id, LoadArgs, Permit};
use weft_durability::aof::aof;
use weft_durability::persistence::load;
use weft_executor::dispatch::absent;
use weft_executor::dispatch::core::Functions;
use weft_executor::slow;
use weft_net::listen::Listener;
use weft_process::errors::{Failure, words};
use weft_process::log::{self};
use weft_process::pidfile::{self, PidFile};
use weft_process::signals::{self, StopSignal, StopSignals};
use weft_process::supervise::{Mode, Supervisor};
use weft_process::title::Title;
use weft_process::{crash, daemon, limits, memory_policy};
use weft_process::{log_notice, log_warning};
use weft_replication_driver::hub;
use weft_replication_driver::positions;
use weft_state::bio::Bio;
use weft_state::command_table::CommandTable;
use weft_state::listening;
use weft_state::server::Server;
use weft_state::stop_state::Stop;
use weft_state::version::VERSION;

/// Runs the program. Returns the exit code of the process.
pub fn main() -> i32 {
    restart::note_call();
    let program = std::env::args_os().next().unwrap_or_default();
    let arguments = || std::env::args_os().skip(1);
    let linked = cli::by_name(&program, arguments());
    // The usage text shows the command line as it was given.
    let by = |option: &str| match &linked {
        Some(_) => program.to_string_lossy().into_owned(),
        None => format!("{} {option}", program.to_string_lossy()),
    };
    let wish = linked.clone().unwrap_or_else(|| cli::parse(arguments()));
    if !matches!(wish, Cli::Run(_)) {
        // If that fails, a closed output ends the process with more words.
        let _ = signals::end_at_closed_output();
    }
    match wish {
        Cli::Version => {
            println!(
                "Weft server v={VERSION} sha={} malloc=jemalloc bits={}",
                weft_state::version::COMMIT,
                usize::BITS
            );
            0
        }
        Cli::Help => {
            print!("{USAGE}");
            0
        }
        Cli::CheckAof(words) => weft_durability::aof::check::run(&by("--check-aof"), &words),
        Cli::CheckRdb(words) => {
            weft_durability::persistence::check::run(&by("--check-rdb"), &words)
        }
        Cli::InstallDocs(dir) => install_docs(&dir),
        Cli::Run(args) => start(&args),
    }
}

fn install_docs(dir: &Path) -> i32 {
    match weft_config::install_docs(dir) {
        Ok(paths) => {
            paths.iter().for_each(|path| println!("{}", path.display()));
            0
        }
        Err(e) => {
            eprintln!("Can't write below '{}': {}", dir.display(), words(&e));
            1
        }
    }
}

fn start(args: &LoadArgs) -> i32 {
    let mut commands = weft_admin::commands::table();
    let table = &mut commands.0;
    let config = match Config::load_and_rename(args, &mut |old, new| rename(table, old, new)) {
        Ok(config) => config,
        Err(e) => {
            failure::report_configuration_error(args, &e);
            return 1;
        }
    };
    let log_file = config.path(Id::LOGFILE);
    let code = run(config, commands).unwrap_or_else(|failure| {
        failure::tell(&failure, log_file.as_deref());
        pidfile::remove_held();
        1
    });
    if let Some(delay) = restart::wanted() {
        restart::again(delay);
        return 1;
    }
    code
}

/// Applies one `rename-command`. A command that this version lacks has no name to change.
fn rename(table: &mut CommandTable, old: &[u8], new: &[u8]) -> Result<(), &'static str> {
    if absent::command(old, false).is_some() { Ok(()) } else { table.rename(old, new) }
}

fn run(config: Config, commands: (CommandTable, Functions)) -> Result<i32, Failure> {
    let called = std::env::args().next().unwrap_or_else(|| "weft-server".into());
    let title = take_title(&config);
    prepare_log(&config)?;
    let dir = config.path(Id::DIR).unwrap_or_else(|| ".".into());
    std::env::set_current_dir(&dir)
        .map_err(|e| format!("Can't chdir to '{}': {}", dir.display(), words(&e)))?;
    if config.bool(Id::DAEMONIZE) {
        daemon::daemonize().map_err(|e| format!("Can't become a daemon: {}", words(&e)))?;
    }
    free_pages_in_the_background();
    copy_in_original_arena();
    let supervisor = Supervisor::start(supervision(&config));
    crash::install("weft-server").map_err(|e| format!("Can't handle signals: {e}"))?;
    crash::install_panic_hook(crash::AfterPanic::Abort);
    crash::set_enabled(config.bool(Id::CRASH_LOG_ENABLED));
    let _stack = crash::second_stack();
    if config.bool(Id::DISABLE_THP) {
        let _ = memory_policy::disable_huge_pages();
    }
    let mut config = config;
    limit_clients(&mut config)?;
    let srv = crate::wiring::server(config, called, commands);
    let config = srv.config();
    weft_admin::commands::load_users(srv, &config)?;
    weft_admin::cluster::load_at_start(srv, &config)?;
    threads::prepare(srv, &config, threads::wanted(srv, &config))
        .map_err(|e| format!("Can't start: {e}"))?;
    tls::configure(srv, &config)
        .map_err(|why| format!("{why}\nFailed to configure TLS. Check logs for more info."))?;
    let listeners = listen(srv, &config)?;
    let for_metrics = listening::for_metrics(&config)
        .map_err(|e| format!("{e}\nFailed listening for metrics, aborting."))?;
    write_pidfile(&config);
    drop(config);
    let signals = StopSignals::install().map_err(|e| format!("Can't handle signals: {e}"))?;
    introduce(srv, title, &supervisor);
    let code = serve(srv, (listeners, for_metrics), signals, &supervisor)?;
    supervisor.stopping();
    pidfile::remove_held();
    log_warning!("Weft is now ready to exit, bye bye...");
    Ok(code)
}

/// Makes the allocator return freed pages on a background thread. Must come after the fork of a
/// daemon, which threads don't survive.
fn free_pages_in_the_background() {
    #[cfg(not(weft_sanitizer))]
    if let Err(e) = weft_memory::mallctl::number(b"background_thread", Some(1)) {
        log_warning!("Freed memory returns to the system with a delay: {e}");
    }
}

/// Allocates changed copies of large values in the arena of the original, whichever thread makes
/// them.
fn copy_in_original_arena() {
    #[cfg(not(weft_sanitizer))]
    // SAFETY: the global allocator is jemalloc, which owns these arenas, or a library that replaces
    // jemalloc with all of its functions.
    unsafe {
        weft_types::allocate_copies_by(weft_memory::mallctl::allocate_in_arena_of);
    }
}

/// Takes over the memory of the process title, if the configuration asks for a title.
fn take_title(config: &Config) -> Option<Title> {
    if !config.bool(Id::SET_PROC_TITLE) {
        return None;
    }
    // SAFETY: called once, from `run`, before the program has started a thread (the allocator's
    // background threads never read the environment). The arguments have been read and are not read
    // again, and no pointer returned by getenv is held.
    let title = unsafe { Title::take_over() };
    title.map_err(|e| log_warning!("The process title can't be set: {e}")).ok()
}

/// Applies settings that need the server, starts replication, and logs the banner.
fn introduce(srv: &'static Server, title: Option<Title>, supervisor: &Supervisor) {
    let config = srv.config();
    apply_derived(srv, &config);
    *srv.statistics.info.title() = title;
    let _ = srv.statistics.info.supervisor.set(supervisor.name());
    drop(config);
    hub(srv).begin(srv);
    let config = srv.config();
    // A refusal by the kernel has been logged, and the server can run without it.
    let _ = apply_oom_score(srv, &config);
    announce::banner(srv, &config);
    announce::apply_title(srv, &config);
}

/// Runs all threads until the server stops.
fn serve(
    srv: &'static Server,
    (listeners, for_metrics): (Vec<Listener>, Vec<Listener>),
    signals: StopSignals,
    supervisor: &Supervisor,
) -> Result<i32, Failure> {
    let failed = |e: std::io::Error| format!("Can't start a thread: {e}");
    Bio::start(&srv.process.background.bio, &srv.memory, srv.placement().bio.clone())
        .map_err(failed)?;
    slow::start(srv).map_err(failed)?;
    watch_signals(srv, signals).map_err(failed)?;
    log_notice!("Server initialized");
    let appends = srv.config().bool(Id::APPENDONLY);
    let log = if appends { weft_durability::aof::start::at_start(srv)? } else { None };
    // Clients that connect before the files are loaded must not write.
    srv.set_loading(log.is_some());
    let file = if appends { None } else { load::open(srv)? };
    let loads = log.is_some() || file.is_some();
    if !loads {
        hub(srv).go_on(srv, None);
        join_cluster(srv).map_err(failed)?;
    }
    if weft_cluster_driver::driver(srv).is_some() {
        weft_cluster_links::begin(srv).map_err(failed)?;
    }
    weft_metrics::start(srv, &for_metrics).map_err(failed)?;
    threads::start_prepared(srv, listeners).map_err(failed)?;
    if let Some(log) = log {
        let position = weft_durability::aof::start::load_at_start(srv, log)?;
        hub(srv).go_on(srv, position.as_ref().and_then(positions::of_log));
    }
    if let Some(file) = file {
        let origin = load::at_start(srv, file)?;
        // Replicas still have the keys that were skipped as expired, and get no DEL for them. So
        // the data no longer matches that replication history.
        let is_whole = srv.persistence.loading.keys_expired.load(Ordering::Relaxed) == 0;
        let found = positions::of_snapshot(&origin).filter(|_| is_whole);
        hub(srv).go_on(srv, found);
    }
    if loads {
        join_cluster(srv).map_err(failed)?;
    }
    // No client could write until now: the role was unknown, and the log was not running.
    if loads {
        weft_admin::cluster::take_over_slots_with_keys(srv)?;
        srv.set_loading(false);
    }
    for transport in announce::transports(&srv.config()) {
        log_notice!("Ready to accept connections {transport}");
    }
    let config = srv.config();
    let period = watchdog::possible_period(config.int(Id::WATCHDOG_PERIOD), &config);
    drop(config);
    weft_admin::watchdog::set_watchdog(srv, period).map_err(failed)?;
    supervisor.ready();
    threads::join(srv);
    weft_admin::stop::finish(srv);
    // Writes the rest of the log: the files record its end.
    hub(srv).end(srv);
    aof(srv).finish();
    if let Some(driver) = weft_cluster_driver::driver(srv) {
        driver.end();
    }
    Ok(srv.process.ending.exit_code.load(Ordering::SeqCst) as i32)
}

/// Takes the role that the store of the cluster says. Clients come when it is known, or when the store has not answered for a while.
fn join_cluster(srv: &'static Server) -> std::io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(3);
    if let Some(driver) = weft_cluster_driver::driver(srv) {
        driver.begin()?;
        driver.wait_until_ready(PATIENCE);
    }
    Ok(())
}

/// Starts the thread that waits for stop signals.
fn watch_signals(srv: &'static Server, signals: StopSignals) -> std::io::Result<()> {
    std::thread::Builder::new().name("weft-signals".into()).spawn(move || {
        loop {
            let _ = poll(&mut [PollFd::new(&signals, PollFlags::IN)], None);
            // The signal handler has logged the signal.
            let words = match signals.pending() {
                Some(StopSignal::Interrupt) => Id::SHUTDOWN_ON_SIGINT,
                Some(StopSignal::Terminate) => Id::SHUTDOWN_ON_SIGTERM,
                None => continue,
            };
            let config = srv.config();
            let has = |word| config.has_word(words, word);
            let save = if has("nosave") { Some(false) } else { has("save").then_some(true) };
            let stop = Stop { save, force: has("force"), now: has("now") };
            drop(config);
            signals.acknowledge();
            weft_admin::stopping::request_stop(srv, stop);
        }
    })?;
    Ok(())
}

fn prepare_log(config: &Config) -> Result<(), Failure> {
    apply_log(config);
    let file = config.path(Id::LOGFILE);
    log::set_file(file.as_deref()).map_err(|e| {
        let path = file.unwrap_or_default();
        format!("Can't open the log file '{}': {}", path.display(), words(&e))
    })?;
    if config.bool(Id::SYSLOG_ENABLED) {
        let ident = config.str(Id::SYSLOG_IDENT).into_owned();
        log::set_syslog(Some((&ident, facility(config.word(Id::SYSLOG_FACILITY)))))
            .map_err(|e| format!("Can't log to syslog: {e}"))?;
    }
    Ok(())
}

fn facility(word: &str) -> log::Facility {
    match word.strip_prefix("local").and_then(|n| n.parse().ok()) {
        Some(n) => log::Facility::Local(n),
        None => log::Facility::User,
    }
}

fn supervision(config: &Config) -> Mode {
    match config.word(Id::SUPERVISED) {
        "systemd" => Mode::Systemd,
        "upstart" => Mode::Upstart,
        "auto" => Mode::Auto,
        _ => Mode::No,
    }
}

/// Raises the limit of open files for `maxclients`, or lowers `maxclients` to that limit.
///
/// # Errors
/// The limit leaves no file descriptor for a client.
fn limit_clients(config: &mut Config) -> Result<(), Failure> {
    let wanted = config.int(Id::MAXCLIENTS) as u32;
    let possible = limits::raise_open_files(wanted, threads::descriptors(config))
        .map_err(|e| e.to_string())?;
    if possible < wanted {
        let value = possible.to_string();
        let permit = Permit { protected: true, loading: false };
        let pair = (&b"maxclients"[..], value.as_bytes());
        if config.set(&[pair], permit, &mut |_, _| Ok(())).is_err() {
            log_warning!("maxclients can't be lowered to {possible}");
        }
    }
    Ok(())
}

/// Opens all listening sockets of the configuration.
fn listen(srv: &Server, config: &Config) -> Result<Vec<Listener>, Failure> {
    let backlog = config.int(Id::TCP_BACKLOG) as i32;
    let mut listeners = listening::begin(&srv.process.listening, config).map_err(|failed| {
        let (port, transport) = failed.port();
        format!("{failed}\nFailed listening on port {port} ({transport}), aborting.")
    })?;
    if let Some(path) = config.path(Id::UNIXSOCKET) {
        let mode = config.int(Id::UNIXSOCKETPERM) as u32;
        let listener = Listener::unix(&path, mode, backlog).map_err(|e| {
            format!("Failed opening Unix socket '{}': {}", path.display(), words(&e))
        })?;
        set_group(&path, &config.str(Id::UNIXSOCKETGROUP))?;
        listeners.push(listener);
    }
    if listeners.is_empty() {
        return Err("Configured to not listen anywhere, exiting.".into());
    }
    Ok(listeners)
}

fn set_group(path: &Path, group: &str) -> Result<(), Failure> {
    if group.is_empty() {
        return Ok(());
    }
    let gid = group_id(group).ok_or_else(|| format!("No such group: {group}"))?;
    std::os::unix::fs::chown(path, None, Some(gid)).map_err(|e| {
        let path = path.display();
        format!("Can't give the Unix socket '{path}' to group {group}: {}", words(&e))
    })
}

/// Resolves a group: a number, or a name in /etc/group.
fn group_id(group: &str) -> Option<u32> {
    if let Ok(id) = group.parse() {
        return Some(id);
    }
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Writes a pid file if one is configured, or for a daemon. It is removed when the process ends.
fn write_pidfile(config: &Config) {
    let default = || config.bool(Id::DAEMONIZE).then(|| "/var/run/weft.pid".into());
    // A failure to write has been logged.
    if let Some(path) = config.path(Id::PIDFILE).or_else(default)
        && let Ok(file) = PidFile::create(&path)
    {
        file.hold();
    }
}
