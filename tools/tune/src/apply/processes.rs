//! Running servers and their threads, from `/proc`.
//!
//! A process is identified by its id and its start time, since ids are reused; so is a thread. The
//! name of a thread shows its role:
//!
//! | role | Weft | Valkey, Redis |
//! |---|---|---|
//! | I/O thread 0 | `weft-io-0` | the thread that started the process |
//! | I/O thread N | `weft-io-N` | `io_thd_N` |
//! | snapshots | `weft-snap-N` | a child process |
//! | background | `weft-*`, `jemalloc_bg_thd`, the thread that started the process | `bio_*`, `jemalloc_bg_thd` |
//! | unknown | anything else | a module's threads |
//!
//! The first thread of a process is recognized by its id, because it has the name of the program
//! file, which may be any. It serves connections unless another thread has the name of I/O thread
//! 0.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::system::System;

/// The purpose of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves connections; counted from 0.
    Io(usize),
    /// Writes a snapshot.
    Snapshot,
    /// Frees, syncs, closes, signals, and the slow lane.
    Background,
    /// An unknown role.
    Unknown,
}

/// The role of a thread that is not the first of its process.
fn role_by_name(name: &str) -> Role {
    let number = |prefix: &str| name.strip_prefix(prefix)?.parse().ok();
    // Redis counts from 1: its number 0 is the thread that started the process.
    if let Some(number) = number("weft-io-").or_else(|| number("io_thd_").filter(|&n| n > 0)) {
        return Role::Io(number);
    }
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["weft-snap"]) {
        Role::Snapshot
    } else if starts(&["weft-", "bio_", "jemalloc_bg_thd"]) {
        Role::Background
    } else {
        Role::Unknown
    }
}

/// A process id that stays unique when the id is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// As in `/proc`.
    pub pid: u32,
    /// Its start time, in ticks since boot.
    pub started: u64,
}

/// A thread of a [`Process`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// As in `/proc/PID/task`.
    pub tid: u32,
    /// Its start time, as in [`ProcessId`].
    pub started: u64,
    /// Up to 15 bytes.
    pub name: String,
    /// By its name and its position.
    pub role: Role,
}

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: ProcessId,
    /// Its threads, by id.
    pub threads: Vec<Thread>,
}

impl Process {
    /// The number of threads that serve connections.
    pub fn io_threads(&self) -> usize {
        self.threads.iter().filter(|thread| matches!(thread.role, Role::Io(_))).count()
    }
}

/// The start time of a thread, or `None` if it has ended. `thread` may be a process: its first
/// thread has its id.
pub fn started(system: &dyn System, pid: u32, thread: u32) -> Option<u64> {
    let stat = system.read(&format!("proc/{pid}/task/{thread}/stat")).ok()?;
    // The second field is a name in parentheses and may contain anything; the time is the 22nd.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // The third field is the state; an ended process keeps its id until its parent waits for it.
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

/// Whether a process still runs.
pub fn runs(system: &dyn System, id: ProcessId) -> bool {
    started(system, id.pid, id.pid) == Some(id.started)
}

/// A process with its threads, or `None` if no process has that id.
pub fn find(system: &dyn System, pid: u32) -> Option<Process> {
    let id = ProcessId { pid, started: started(system, pid, pid)? };
    let tasks = system.list(&format!("proc/{pid}/task")).ok()?;
    let tasks = tasks.iter().filter_map(|name| name.parse().ok());
    // A thread that ends meanwhile is left out.
    let mut threads: Vec<Thread> = tasks.filter_map(|tid| thread(system, pid, tid)).collect();
    threads.sort_by_key(|thread| thread.tid);
    let is_first = |thread: &Thread| thread.role == Role::Io(0);
    if threads.iter().any(|thread| thread.tid != pid && is_first(thread)) {
        threads.iter_mut().filter(|thread| thread.tid == pid).for_each(|thread| {
            thread.role = Role::Background;
        });
    }
    Some(Process { id, threads })
}

fn thread(system: &dyn System, pid: u32, tid: u32) -> Option<Thread> {
    let started = started(system, pid, tid)?;
    let name = system.read(&format!("proc/{pid}/task/{tid}/comm")).ok()?;
    let name = name.trim_end_matches('\n').to_string();
    let role = if tid == pid { Role::Io(0) } else { role_by_name(&name) };
    Some(Thread { tid, started, name, role })
}

/// The process that listens on a TCP port, found by its socket's inode.
///
/// # Errors
/// As text: no process listens there, or it is not visible.
pub fn listening_on(system: &dyn System, port: u16) -> Result<u32, String> {
    let sockets: Vec<String> = ["proc/net/tcp", "proc/net/tcp6"]
        .iter()
        .filter_map(|table| system.read(table).ok())
        .flat_map(|table| {
            table.lines().filter_map(|line| socket_of(line, port)).collect::<Vec<_>>()
        })
        .collect();
    if sockets.is_empty() {
        return Err(format!("nothing listens on port {port}"));
    }
    let all = system.list("proc").map_err(|e| format!("cannot list the processes: {e}"))?;
    let mut pids: Vec<u32> = all.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    // Children inherit sockets, so the first process that has it is the one that opened it.
    pids.into_iter().find(|&pid| holds(system, pid, &sockets)).ok_or_else(|| {
        format!("cannot see which process listens on port {port}: run as its user or as root")
    })
}

/// The inode in a line of `/proc/net/tcp`, if it is a socket that listens on `port`.
fn socket_of(line: &str, port: u16) -> Option<String> {
    listener_of(line).filter(|(here, _)| *here == port).map(|(_, socket)| socket)
}

/// Port and inode of a listening socket, in its line of `/proc/net/tcp`.
fn listener_of(line: &str) -> Option<(u16, String)> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_ascii_whitespace();
    let (_, local_port) = fields.nth(1)?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    let port = u16::from_str_radix(local_port, 16).ok()?;
    (state == LISTEN).then(|| (port, format!("socket:[{inode}]")))
}

/// The TCP ports that a process listens on, in ascending order; invisible ones are left out.
pub fn ports_of(system: &dyn System, pid: u32) -> Vec<u16> {
    let folder = format!("proc/{pid}/fd");
    let descriptors = system.list(&folder).unwrap_or_default();
    let own: Vec<String> = descriptors
        .iter()
        .filter_map(|fd| system.link(&format!("{folder}/{fd}")).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .collect();
    let mut ports: Vec<u16> = ["proc/net/tcp", "proc/net/tcp6"]
        .iter()
        .filter_map(|table| system.read(table).ok())
        .flat_map(|table| table.lines().filter_map(listener_of).collect::<Vec<_>>())
        .filter(|(_, socket)| own.contains(socket))
        .map(|(port, _)| port)
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn holds(system: &dyn System, pid: u32, sockets: &[String]) -> bool {
    let folder = format!("proc/{pid}/fd");
    let descriptors = system.list(&folder).unwrap_or_default();
    descriptors
        .iter()
        .filter_map(|fd| system.link(&format!("{folder}/{fd}")).ok())
        .any(|target| sockets.iter().any(|socket| target == Path::new(socket)))
}

/// Whether irqbalance runs. It moves interrupts and would undo a placement.
pub fn irqbalance_runs(system: &dyn System) -> bool {
    let pids = system.list("proc").unwrap_or_default();
    pids.iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|pid| system.read(&format!("proc/{pid}/comm")).ok())
        .any(|name| name.trim_end() == "irqbalance")
}
