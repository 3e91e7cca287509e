//! Programs that use scripts (job queues, locks, rate limiters, sessions) do the same work on the server
//! and on its reference: `tests/clients/programs/`.
//!
//! `.ci/clients` installs them, unchanged, and prints a folder of programs; set `CLIENTS_BIN` to it.
//! Each program checks its results: a lost or repeated job, two holders of a lock or a hang is an error.
//! The test prints seconds, jobs per second and the CPU time of the server; it requires nothing of them.
//!
//! `PROGRAM_PERCENT` is the size of the load; the sizes below are 100. `PROGRAM_IO_THREADS` is the number of
//! the server's I/O threads; the reference has one, its default.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use weft_testkit::{Server, skipped};
use weft_tests::scene::on_both;

/// Percent of the full load, for tests.
const PERCENT: &str = "10";
const IO_THREADS: &str = "2";

fn variable(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_string())
}

/// Runs a program on both servers, with this number of jobs at full size.
#[track_caller]
fn complete(program: &str, full: usize) {
    let Some(folder) = env::var_os("CLIENTS_BIN") else {
        skipped::note_here("no CLIENTS_BIN: .ci/clients installs programs that use scripts");
        return;
    };
    let path = Path::new(&folder).join(program);
    if !path.is_file() {
        skipped::note_here(&format!("no {program} in CLIENTS_BIN"));
        return;
    }
    let percent: usize = variable("PROGRAM_PERCENT", PERCENT).parse().expect("a number");
    let jobs = full * percent / 100;
    let threads = variable("PROGRAM_IO_THREADS", IO_THREADS);
    on_both(&["--save", ""], &["--io-threads", &threads], |server| {
        run(program, &path, jobs, server);
        assert!(server.is_alive(), "{} ended: {}", server.name(), server.log_tail());
    });
}

/// Runs a program on one server. It prints a line for each part, and `done` at the end.
#[track_caller]
fn run(program: &str, path: &Path, jobs: usize, server: &Server) {
    let errors = server.dir().join("program-errors");
    let mut child = Command::new(path)
        .args([server.port().to_string(), jobs.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&errors).expect("a file"))
        .spawn()
        .unwrap_or_else(|e| panic!("cannot run {}: {e}", path.display()));
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut cpu = server.process().cpu().total();
    let mut last = String::new();
    for line in output.lines() {
        last = line.expect("text");
        if let [part, count, seconds] = last.split('\t').collect::<Vec<_>>()[..] {
            let now = server.process().cpu().total();
            print_part(&format!("{program}: {part}"), server.name(), count, seconds, now - cpu);
            cpu = now;
        }
    }
    let status = child.wait().expect("it has ended");
    let said = std::fs::read_to_string(&errors).unwrap_or_default();
    let server = server.name();
    assert!(status.success() && last == "done", "{program} with {server}: {status}\n{said}");
}

fn print_part(part: &str, server: &str, count: &str, seconds: &str, cpu: f64) {
    let (jobs, elapsed): (f64, f64) =
        (count.parse().expect("a number"), seconds.parse().expect("a number"));
    let rate = jobs / elapsed.max(0.001);
    println!("{part:32} {server:6} {count:>6} jobs {elapsed:8.2} s {rate:9.0}/s {cpu:7.2} s CPU");
}

macro_rules! programs {
    ($($program:ident: $full:expr;)*) => {$(
        #[test]
        #[ignore = "long: cargo xtask test --all"]
        fn $program() {
            complete(stringify!($program), $full);
        }
    )*};
}

programs! {
    bee_queue: 10_000;
    bullmq: 10_000;
    celery: 2_000;
    dramatiq: 2_000;
    express_sessions: 10_000;
    huey: 2_000;
    locks: 2_000;
    rate_limits: 10_000;
    redisson: 4_000;
    redlock: 2_000;
    rq: 2_000;
    socket_io: 2_000;
    spring_data: 2_000;
    spring_session: 2_000;
}
