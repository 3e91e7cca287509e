//! Behaviour that is visible only from outside a process: how it dies, forks and is named.
//!
//! The program runs itself again in the role of a child, named by an environment
//! variable, and looks at what the child leaves behind.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use weft_process::crash::{self, AfterPanic};
use weft_process::log::{self, Facility, Format, Level, Role, Timestamp};
use weft_process::signals::{self, StopSignal, StopSignals};
use weft_process::supervise::{self, Supervisor};
use weft_process::title::Title;
use weft_process::{daemon, log_debug, log_notice, log_verbose, log_warning};

const ROLE: &str = "WEFT_TEST_ROLE";
const LOG: &str = "WEFT_TEST_LOG";

/// Something that must never show up in a report.
const SECRET: &str = "hunter2-the-secret-value";

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        if let Some(path) = std::env::var_os(LOG) {
            log::set_file(Some(Path::new(&path))).unwrap();
        }
        return play(&role);
    }
    let tests: [(&str, fn()); 13] = [
        ("log_settings_take_effect_at_once", log_settings_take_effect_at_once),
        ("a_segfault_is_reported", a_segfault_is_reported),
        ("an_exhausted_stack_is_reported", an_exhausted_stack_is_reported),
        ("an_abort_is_reported", an_abort_is_reported),
        ("reports_can_be_turned_off", reports_can_be_turned_off),
        ("a_panic_is_reported_without_data", a_panic_is_reported_without_data),
        ("a_panic_may_unwind", a_panic_may_unwind),
        ("stop_signals_are_noted", stop_signals_are_noted),
        ("insisting_ends_the_process", insisting_ends_the_process),
        ("loading_ends_at_once", loading_ends_at_once),
        ("daemons_leave_their_parent", daemons_leave_their_parent),
        ("upstart_jobs_stop_themselves", upstart_jobs_stop_themselves),
        ("titles_show", titles_show),
    ];
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for (name, test) in tests {
        if wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            println!("test {name} ...");
            test();
        }
    }
    println!("\nall children behaved");
}

/// Plays the role of a child.
fn play(role: &str) {
    match role {
        "segfault" | "overflow" | "abort" | "unreported" => {
            crash::install("weft 1.2.3").unwrap();
            crash::set_enabled(role != "unreported");
            let role = role.to_owned();
            let thread = std::thread::Builder::new().name("io-7".into());
            thread.spawn(move || crash_on_purpose(&role)).unwrap().join().unwrap();
        }
        "panic" => {
            crash::install("weft 1.2.3").unwrap();
            crash::install_panic_hook(AfterPanic::Abort);
            crash::set_current_command(&"hgetall");
            assert_eq!(SECRET, "", "{SECRET}");
        }
        "unwind" => {
            crash::install_panic_hook(AfterPanic::Unwind);
            let caught = std::panic::catch_unwind(|| panic!("just so"));
            assert!(caught.is_err());
        }
        "stop" | "insist" | "loading" => wait_for_signals(role),
        "daemon" => {
            daemon::daemonize().unwrap();
            // SAFETY: these calls have no preconditions.
            let (session, parent) = unsafe { (libc::getsid(0), libc::getppid()) };
            println!("into the void");
            log_notice!("daemon {} {session} {parent}", std::process::id());
        }
        "log" => change_log_settings(),
        "upstart" => {
            let supervisor = Supervisor::start(supervise::Mode::Auto);
            log_notice!("continued under {}", supervisor.name());
        }
        "title" => {
            // SAFETY: the only thread; arguments are not read again; getenv's results
            // are not kept.
            let mut title = unsafe { Title::take_over() }.unwrap();
            let long = "weft-server *:6379 ".to_owned() + &"x".repeat(150);
            for text in ["weft-server *:6379", long.as_str()] {
                title.set(text);
                let shown = fs::read("/proc/self/cmdline").unwrap();
                let shown = String::from_utf8(shown).unwrap();
                assert_eq!(shown.trim_end_matches('\0'), text);
            }
            assert_eq!(std::env::var(ROLE).as_deref(), Ok("title"), "the environment survives");
            log_notice!("titles work");
        }
        other => panic!("unknown role {other}"),
    }
}

/// Logs one line under each of many settings; see `log_settings_take_effect_at_once`.
fn change_log_settings() {
    let path = std::env::var_os(LOG).unwrap();
    let path = Path::new(&path);
    log_verbose!("too detailed");
    log_notice!("first {}", 1);
    fs::rename(path, path.with_extension("moved")).unwrap();

    log::set_level(Level::Debug);
    log::set_role(Role::Replica);
    log::set_timestamp(Timestamp::Milliseconds);
    log_debug!("after\nrotation");
    log::set_format(Format::Logfmt);
    log_warning!("say \"hi\"");

    log::set_level(Level::Nothing);
    assert_eq!(log::level(), Level::Nothing);
    log_warning!("unheard");
    log::write(Level::Nothing, format_args!("unheard"));

    assert!(log::set_file(Some(Path::new("missing/weft.log"))).is_err());
    assert!(log::set_file(Some(Path::new("a\0b"))).is_err());
    assert!(log::set_syslog(Some(("a\0b", Facility::User))).is_err());
    log::set_syslog(Some(("weft", Facility::Local(0)))).unwrap();
    log::set_level(Level::Notice);
    log::set_format(Format::Legacy);
    log_notice!("failed changes keep the old file");
    log::set_syslog(None).unwrap();
}

fn crash_on_purpose(role: &str) {
    let _stack = crash::install_thread().unwrap();
    crash::set_current_command(&"zunionstore");
    let secret = std::hint::black_box(SECRET.to_owned());
    match role {
        "overflow" => {
            std::hint::black_box(exhaust_the_stack(std::hint::black_box(1)));
        }
        // SAFETY: abort has no preconditions.
        "abort" => unsafe { libc::abort() },
        _ => {
            let nowhere = std::ptr::without_provenance_mut::<u8>(0x10);
            // SAFETY: none. The fault is the purpose, in a process that ends with it.
            unsafe { std::ptr::write_volatile(std::hint::black_box(nowhere), 1) };
        }
    }
    drop(secret);
}

#[expect(unconditional_recursion, reason = "that is the purpose")]
fn exhaust_the_stack(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    frame[0] + exhaust_the_stack(depth + 1)
}

fn wait_for_signals(role: &str) {
    let stop = StopSignals::install().unwrap();
    assert_eq!(stop.pending(), None);
    signals::set_loading(role == "loading");
    log_notice!("waiting");
    wait_readable(&stop);
    let first = stop.pending();
    if role == "stop" {
        assert_eq!(first, Some(StopSignal::Terminate));
        stop.clear();
        assert_eq!(stop.pending(), None);
        log_notice!("cleared");
        wait_readable(&stop);
        assert_eq!(stop.pending(), Some(StopSignal::Interrupt));
        log_notice!("stopping");
    } else {
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}

fn wait_readable(stop: &StopSignals) {
    use std::os::fd::{AsFd, AsRawFd};
    let mut poll = libc::pollfd { fd: stop.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry. Interruption by the signal itself restarts the loop.
    while unsafe { libc::poll(&raw mut poll, 1, -1) } != 1 {}
}

/// A child under observation.
struct Observed {
    child: Child,
    folder: tempfile::TempDir,
}

impl Observed {
    fn start(role: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .env(ROLE, role)
            .env(LOG, folder.path().join("log"))
            .env("UPSTART_JOB", "weft")
            .env_remove("NOTIFY_SOCKET")
            // Roles that die need no core file.
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until the log contains `text`.
    fn wait_for(&self, text: &str) -> String {
        for _ in 0..3_000 {
            let log = self.log();
            if log.contains(text) {
                return log;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("never logged {text:?}, but:\n{}", self.log());
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).unwrap();
        // SAFETY: kill has no preconditions, and the child has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let log = self.log();
        assert!(!log.contains(SECRET), "data in the log:\n{log}");
        (status, log)
    }
}

fn assert_contains(log: &str, texts: &[&str]) {
    for text in texts {
        assert!(log.contains(text), "{text:?} is missing in:\n{log}");
    }
}

fn log_settings_take_effect_at_once() {
    let mut child = Observed::start("log");
    let pid = child.child.id();
    let moved = child.folder.path().join("log.moved");
    assert_eq!(child.child.wait().unwrap().code(), Some(0));
    let first = fs::read_to_string(moved).unwrap();
    assert!(first.starts_with(&format!("{pid}:M ")), "{first}");
    assert!(first.ends_with(" * first 1\n"), "{first}");
    assert_eq!(first.lines().count(), 1, "{first}");

    let (_, log) = child.end();
    let lines: Vec<&str> = log.lines().collect();
    let [second, third, fourth] = lines[..] else {
        panic!("{log}");
    };
    assert!(second.starts_with(&format!("{pid}:S 1")), "{second}");
    assert!(second.ends_with(" . after rotation"), "{second}");
    assert!(third.starts_with(&format!("pid={pid} role=replica timestamp=\"1")), "{third}");
    assert!(third.ends_with("\" level=warning message=\"say 'hi'\""), "{third}");
    assert!(fourth.ends_with(" * failed changes keep the old file"), "{fourth}");
}

const START: &str = "=== WEFT BUG REPORT START";
const END: &str = "=== WEFT BUG REPORT END";

fn a_segfault_is_reported() {
    let (status, log) = Observed::start("segfault").end();
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
    assert_contains(
        &log,
        &[
            START,
            "weft 1.2.3 crashed by signal: 11 (SIGSEGV), si_code: 1",
            "Accessing address: 0x10\n",
            " io-7\n",
            "Command: zunionstore\n",
            "PC:0x",
            "#0 0x",
            "crash_on_purpose",
            "children.rs:",
            "STACK TRACE DONE",
            END,
        ],
    );
    assert_eq!(log.matches(START).count(), 1);
}

fn an_exhausted_stack_is_reported() {
    let (status, log) = Observed::start("overflow").end();
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
    assert_contains(&log, &[START, "the stack may be exhausted", "exhaust_the_stack", END]);
}

fn an_abort_is_reported() {
    let (status, log) = Observed::start("abort").end();
    assert_eq!(status.signal(), Some(libc::SIGABRT));
    assert_contains(&log, &[START, "signal: 6 (SIGABRT)", "crash_on_purpose", END]);
    assert!(!log.contains("Accessing address"));
}

fn reports_can_be_turned_off() {
    let (status, log) = Observed::start("unreported").end();
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
    assert_eq!(log, "");
}

fn a_panic_is_reported_without_data() {
    let (status, log) = Observed::start("panic").end();
    assert_eq!(status.signal(), Some(libc::SIGABRT));
    assert_contains(
        &log,
        &[
            START,
            "weft 1.2.3 panicked: assertion `left == right` failed\n",
            "children.rs:",
            "Command: hgetall\n",
            "play",
            END,
        ],
    );
    assert_eq!(log.matches(START).count(), 1, "the abort is not reported again:\n{log}");
}

fn a_panic_may_unwind() {
    let (status, log) = Observed::start("unwind").end();
    assert_eq!(status.code(), Some(0));
    assert_contains(&log, &[START, "panicked: just so\n", "Command: none\n", END]);
}

fn stop_signals_are_noted() {
    let child = Observed::start("stop");
    child.wait_for("waiting");
    child.signal(libc::SIGHUP);
    child.signal(libc::SIGPIPE);
    child.signal(libc::SIGTERM);
    child.wait_for("cleared");
    child.signal(libc::SIGINT);
    let (status, log) = child.end();
    assert_eq!(status.code(), Some(0));
    assert_contains(
        &log,
        &[
            ":signal-handler (",
            ") Received SIGTERM scheduling shutdown...\n",
            ") Received SIGINT scheduling shutdown...\n",
            "stopping",
        ],
    );
}

fn insisting_ends_the_process() {
    let child = Observed::start("insist");
    child.wait_for("waiting");
    child.signal(libc::SIGTERM);
    child.wait_for("Received SIGTERM");
    child.signal(libc::SIGINT);
    let (status, log) = child.end();
    assert_eq!(status.code(), Some(1));
    assert_contains(&log, &[") You insist... exiting now.\n"]);
}

fn loading_ends_at_once() {
    let child = Observed::start("loading");
    child.wait_for("waiting");
    child.signal(libc::SIGTERM);
    let (status, log) = child.end();
    assert_eq!(status.code(), Some(0));
    assert_contains(&log, &[") Received shutdown signal during loading, exiting now.\n"]);
}

fn daemons_leave_their_parent() {
    let mut child = Observed::start("daemon");
    assert_eq!(child.child.wait().unwrap().code(), Some(0));
    let log = child.wait_for("daemon ");
    let words: Vec<i64> = log
        .rsplit_once("daemon ")
        .unwrap()
        .1
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    let [daemon, session, parent] = words[..] else {
        panic!("{log}");
    };
    let (started, own) = (i64::from(child.child.id()), i64::from(std::process::id()));
    assert!(daemon != started && parent != own, "{log}");
    assert_ne!(session, daemon, "a session leader could get a terminal again");
    // SAFETY: getsid has no preconditions.
    assert_ne!(session, i64::from(unsafe { libc::getsid(0) }));
}

fn upstart_jobs_stop_themselves() {
    let child = Observed::start("upstart");
    let pid = i32::try_from(child.child.id()).unwrap();
    let mut status = 0;
    // SAFETY: `status` is writable, and stopping does not reap the child.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) };
    assert!(waited == pid && libc::WIFSTOPPED(status), "{status:#x}");
    assert!(!child.log().contains("continued"));
    child.signal(libc::SIGCONT);
    let (status, log) = child.end();
    assert_eq!(status.code(), Some(0));
    assert_contains(&log, &["Upstart supervision detected.", "continued under upstart"]);
}

fn titles_show() {
    let (status, log) = Observed::start("title").end();
    assert_eq!(status.code(), Some(0), "{log}");
    assert_contains(&log, &["titles work"]);
}
