//! `plan`, `apply`, `verify` and `revert` on real servers of this machine: every thread gets its
//! CPUs, and then its old mask again, even if `apply` is killed in the middle.
//!
//! Interrupts are not changed here (`--irq none`), since they belong to the whole machine. Writing
//! and restoring them is tested on files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;
use weft_testkit::{Server, skip_without};

/// Servers under test and a place for files.
struct Setup {
    servers: Vec<Server>,
    folder: TempDir,
}

/// The other server on the machine.
enum Peer {
    Redis,
    Valkey,
}

/// Masks of all threads of a process, by thread id, as the kernel lists them.
type Masks = BTreeMap<u32, String>;

fn masks_of(pid: u32) -> Masks {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the server runs");
    let one = |entry: std::io::Result<fs::DirEntry>| {
        let tid = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some((tid, list.trim().to_string()))
    };
    tasks.filter_map(one).collect()
}

impl Setup {
    /// Weft and a peer, if one is installed, with two I/O threads each. None if masks can't be
    /// changed, or if there is only one CPU.
    ///
    /// Not more servers: on two CPUs the plan for three is that all share both, as before.
    fn new(test: &str, peer: Peer) -> Option<Setup> {
        let mine = sched_getaffinity(None).expect("a thread has a mask");
        if mine.count() < 2 {
            weft_testkit::skipped::note(test, "one CPU only");
            return None;
        }
        if let Err(e) = sched_setaffinity(None, &mine) {
            weft_testkit::skipped::note(test, &format!("masks cannot be set here: {e}"));
            return None;
        }
        let args = ["--io-threads", "2"];
        let peer = match peer {
            Peer::Redis => Server::redis8(&args),
            Peer::Valkey => Server::valkey(&args),
        };
        skip_without(test, &peer, "server of a peer, so this is about Weft alone:");
        let servers = [Some(Server::weft(&args)), peer].into_iter().flatten().collect();
        let setup = Setup { servers, folder: TempDir::new().expect("a temporary folder") };
        setup.settle();
        Some(setup)
    }

    /// Waits until servers have started all threads of a fresh start.
    fn settle(&self) {
        let mut before = Vec::new();
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(200));
            let now = self.masks();
            if now == before {
                return;
            }
            before = now;
        }
        panic!("threads come and go: {before:?}");
    }

    fn masks(&self) -> Vec<Masks> {
        self.servers.iter().map(|server| masks_of(server.pid())).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-tune"));
        command.args(args).env("XDG_STATE_HOME", self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("weft-tune runs")
    }

    /// Runs it and returns its standard output.
    fn done(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Makes a plan for the servers, each named by `by`; returns the plan's path.
    fn plan(&self, option: &str, by: impl Fn(&Server) -> String) -> String {
        let path = self.path("plan.json").to_str().expect("text").to_string();
        let named: Vec<String> = self.servers.iter().map(by).collect();
        let mut args = vec!["plan", "--irq", "none", "--out", &path];
        named.iter().for_each(|name| args.extend([option, name]));
        let text = self.done(&args);
        assert!(text.contains("server_cpulist"), "{text}");
        path
    }
}

fn by_pid(server: &Server) -> String {
    server.pid().to_string()
}

#[test]
fn real_servers_are_placed_and_put_back() {
    let Some(setup) = Setup::new("real_servers_are_placed_and_put_back", Peer::Redis) else {
        return;
    };
    // One thread has its own mask, which must be restored too.
    let start_all = setup.masks();
    let some = *start_all[0].keys().last().expect("a thread");
    let all = sched_getaffinity(None).expect("a mask");
    let plan = setup.plan("--port", |server| server.port().to_string());
    // Whatever the plan is, it differs from one of these.
    let is_placed = |cpus: &CpuSet| {
        confine(some, cpus);
        setup.run(&["verify", &plan]).status.success()
    };
    assert!([first_of(&all), last_of(&all)].iter().any(|cpus| !is_placed(cpus)));
    let start = setup.masks();
    assert_ne!(start, start_all);
    let dry = setup.done(&["apply", &plan]);
    assert!(dry.contains("Nothing has been changed"), "{dry}");
    assert_eq!(setup.masks(), start, "planning and showing change nothing");
    assert!(!setup.run(&["verify", &plan]).status.success(), "not applied yet");

    setup.done(&["apply", &plan, "--yes"]);
    let placed = setup.masks();
    assert_ne!(placed, start);
    setup.done(&["verify", &plan]);
    setup.done(&["verify"]);
    assert_eq!(planned_masks(&plan, &setup.servers), placed.iter().map(union).collect::<Vec<_>>());
    let again = setup.run(&["apply", &plan, "--yes"]);
    assert!(!again.status.success(), "the state before is never overwritten");

    // Another program binds a thread to other CPUs.
    let main = setup.servers[0].pid();
    let as_placed = &placed[0][&main];
    let other = [all, first_of(&all), last_of(&all)].into_iter().find(|cpus| {
        confine(main, cpus);
        masks_of(main)[&main] != *as_placed
    });
    assert!(other.is_some(), "every mask is {as_placed}");
    let verify = setup.run(&["verify"]);
    let said = String::from_utf8_lossy(&verify.stdout).into_owned();
    assert_eq!(verify.status.code(), Some(1), "{verify:?}");
    assert!(said.contains(&format!("thread {main} ")), "{said}");

    setup.done(&["revert"]);
    assert_eq!(setup.masks(), start);
    setup.done(&["revert"]);
    assert_eq!(setup.masks(), start, "twice is as good as once");
    assert!(!setup.run(&["verify"]).status.success());
    for server in &setup.servers {
        assert_eq!(server.client().cmd(&["PING"]).text(), "PONG");
    }
}

#[test]
fn an_apply_that_is_killed_in_the_middle_can_be_reverted() {
    let Some(setup) = Setup::new("an_apply_that_is_killed_in_the_middle", Peer::Valkey) else {
        return;
    };
    let start = setup.masks();
    let plan = setup.plan("--pid", by_pid);
    let state = setup.path("state");
    let state_arg = state.to_str().expect("text");
    let mut in_the_middle = 0;
    for steps in 0..start.iter().map(BTreeMap::len).sum() {
        let mut apply = setup
            .command(&["apply", &plan, "--yes", "--state", state_arg])
            .stdout(Stdio::null())
            .spawn()
            .expect("weft-tune runs");
        // Reads as often as possible: it sees some moment after that step.
        while apply.try_wait().expect("our child").is_none() && begun(&state) < steps {}
        apply.kill().expect("our child");
        let killed = apply.wait().expect("our child").code().is_none();
        in_the_middle += usize::from(killed && setup.masks() != start);
        // If it was killed before it had recorded anything, there is nothing to revert, and it says
        // so.
        match state.exists() {
            true => drop(setup.done(&["revert", "--state", state_arg])),
            false => assert!(!setup.run(&["revert", "--state", state_arg]).status.success()),
        }
        assert_eq!(setup.masks(), start, "killed after step {steps}");
        let _ = fs::remove_file(&state);
    }
    eprintln!("killed in the middle: {in_the_middle} times");
}

#[test]
fn missing_process_is_reported() {
    let Some(setup) = Setup::new("a_process_that_is_not_there_is_said", Peer::Redis) else {
        return;
    };
    let plan = setup.plan("--pid", by_pid);
    let mut ended = Server::weft(&[]);
    let (pid, port) = (ended.pid().to_string(), ended.port().to_string());
    ended.kill();
    for (option, value) in [("--pid", &pid), ("--port", &port)] {
        let output = setup.run(&["plan", "--irq", "none", option, value]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
    let few = setup.run(&["apply", &plan, "--yes", "--pid", &by_pid(&setup.servers[0])]);
    assert_eq!(few.status.success(), setup.servers.len() == 1, "{few:?}");
}

/// The number of begun steps in a state file.
fn begun(state: &Path) -> usize {
    fs::read_to_string(state).unwrap_or_default().matches("\n{\"begin\"").count()
}

fn confine(tid: u32, cpus: &CpuSet) {
    let tid = Pid::from_raw(i32::try_from(tid).expect("a thread id"));
    sched_setaffinity(tid, cpus).expect("our own child can be confined");
}

fn first_of(cpus: &CpuSet) -> CpuSet {
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| cpus.is_set(cpu)).expect("a CPU");
    let mut one = CpuSet::new();
    one.set(first);
    one
}

fn last_of(cpus: &CpuSet) -> CpuSet {
    let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| cpus.is_set(cpu)).expect("a CPU");
    let mut one = CpuSet::new();
    one.set(last);
    one
}

/// All CPUs in the masks of a process.
fn union(masks: &Masks) -> String {
    let mut cpus: Vec<usize> = masks.values().flat_map(|list| numbers(list)).collect();
    cpus.sort_unstable();
    cpus.dedup();
    format!("{cpus:?}")
}

/// The CPUs of each server in a plan, parsed independently of our code.
fn planned_masks(plan: &str, servers: &[Server]) -> Vec<String> {
    let text = fs::read_to_string(plan).expect("a plan");
    let plan: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let instances = plan["instances"].as_array().expect("instances");
    assert_eq!(instances.len(), servers.len());
    let of = |instance: &serde_json::Value| {
        let lists = ["server", "background"].map(|name| instance[name].as_str().expect("a list"));
        let both = lists.join(",");
        union(&Masks::from([(0, both)]))
    };
    instances.iter().map(of).collect()
}

/// The CPUs of a list without strides.
fn numbers(list: &str) -> Vec<usize> {
    let number = |text: &str| text.parse().expect("a number");
    let item = |item: &str| match item.split_once('-') {
        Some((first, last)) => (number(first)..=number(last)).collect(),
        None => vec![number(item)],
    };
    list.split(',').flat_map(item).collect()
}
