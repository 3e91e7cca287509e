//! The state file: the values before a plan was applied, and the progress of applying it.
//!
//! It must be valid whenever the program is killed, so it is written like a database's log. The
//! first line has the plan, the processes and every old value. It is written to a temporary file,
//! synced, and renamed before any change, so it is complete or missing. Then each event adds a line
//! and is synced before the announced change is done:
//!
//! ```text
//! {"version":1,"boot":"...","plan":{...},"processes":[...],"steps":[...]}
//! {"begin":0}            step 0 will be done next
//! {"born":{...}}         one more step: a thread that started meanwhile
//! {"begin":1}
//! {"end":"applied"}
//! {"end":"reverted"}
//! ```
//!
//! A last line without its line end was being written when the program was killed. The change that
//! it announces has not been done, so it is ignored.
//!
//! A state file that was not reverted is never overwritten: it is the only record of the machine's
//! own values. A lock on another file keeps two programs from working on one state at the same
//! time; the kernel releases it however its holder ends.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::processes::ProcessId;
use super::steps::{Step, Target};
use super::system::System;
use crate::plan::Plan;

const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// The version of the format.
    pub version: u32,
    /// The boot id: the state is invalid after a restart of the machine.
    pub boot: String,
    /// The applied plan.
    pub plan: Plan,
    /// The processes, in the order of the plan's instances.
    pub processes: Vec<ProcessId>,
    /// All steps with their old values.
    pub steps: Vec<Step>,
}

impl Before {
    /// The record that precedes all changes.
    pub fn new(boot: String, plan: Plan, processes: Vec<ProcessId>, steps: Vec<Step>) -> Before {
        Before { version: VERSION, boot, plan, processes, steps }
    }
}

/// How an application of a plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Everything was done and read back.
    Applied,
    /// Everything was restored.
    Reverted,
}

/// A line after the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    Begin(usize),
    Born(Step),
    End(End),
}

/// The whole content of a state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Its first line, including added steps.
    pub before: Before,
    /// The begun steps, by their index in `before.steps`, in that order. Each may or may not be
    /// done.
    pub begun: Vec<usize>,
    /// The end, if it was reached.
    pub end: Option<End>,
}

/// Records the engine's announcements; a trait so that tests can interrupt it.
pub trait Record {
    /// A step is about to be done.
    fn begin(&mut self, step: usize) -> io::Result<()>;
    /// A step is added.
    fn add_step(&mut self, step: &Step) -> io::Result<()>;
    /// It is over.
    fn end(&mut self, end: End) -> io::Result<()>;
}

/// An open state file.
#[derive(Debug)]
pub struct Journal {
    file: File,
}

impl Journal {
    /// Starts a state file, replacing a reverted one.
    ///
    /// # Errors
    /// As text; also if an earlier state must be reverted first.
    pub fn create(path: &Path, before: &Before) -> anyhow::Result<Journal> {
        if let Some(history) = load(path)?
            && history.end != Some(End::Reverted)
            && history.before.boot == before.boot
        {
            bail!(
                "{} holds the state before an earlier apply: run `weft-tune revert` first, or \
                 name another file with --state",
                path.display()
            );
        }
        let mut first = serde_json::to_vec(before)?;
        first.push(b'\n');
        write_durably(path, &first).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Journal::append(path)?)
    }

    /// Opens a state file to append to it.
    ///
    /// # Errors
    /// If the file can't be opened or truncated.
    pub fn append(path: &Path) -> io::Result<Journal> {
        let file = File::options().append(true).open(path)?;
        // A line that was being written when the program was killed would corrupt the next one.
        let whole = fs::read(path)?.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        file.set_len(whole as u64)?;
        Ok(Journal { file })
    }

    fn add(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }
}

impl Record for Journal {
    fn begin(&mut self, step: usize) -> io::Result<()> {
        self.add(&Event::Begin(step))
    }

    fn add_step(&mut self, step: &Step) -> io::Result<()> {
        self.add(&Event::Born(step.clone()))
    }

    fn end(&mut self, end: End) -> io::Result<()> {
        self.add(&Event::End(end))
    }
}

/// Replaces a file atomically, so that a crash leaves the old or the new one.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = sibling(path, "new");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// The content of a state file, or `None` if there is none.
///
/// # Errors
/// If it can't be read or is not a state file.
pub fn load(path: &Path) -> anyhow::Result<Option<History>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
    };
    read_history(&text).map(Some).with_context(|| format!("{} is not a state file", path.display()))
}

fn read_history(text: &str) -> anyhow::Result<History> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.split('\n');
    let before: Before = serde_json::from_str(lines.next().unwrap_or_default())?;
    if before.version != VERSION {
        bail!("it has form {}, this program knows form {VERSION}", before.version);
    }
    let mut history = History { before, begun: Vec::new(), end: None };
    for line in lines {
        match serde_json::from_str(line)? {
            Event::Begin(step) if step < history.before.steps.len() => history.begun.push(step),
            Event::Begin(step) => bail!("there is no step {step}"),
            Event::Born(step) => history.before.steps.push(step),
            Event::End(end) => history.end = Some(end),
        }
    }
    let strange = history.before.steps.iter().find(|step| !is_ours(&step.target));
    match strange {
        Some(step) => bail!("it names {}, which no plan changes", step.target),
        None => Ok(history),
    }
}

/// Whether a plan can have this target. A file that is written back, perhaps as root, must be one
/// of those few.
fn is_ours(target: &Target) -> bool {
    match target {
        Target::Thread { .. } => true,
        Target::File { path, .. } => {
            let place = ["proc/irq/", "sys/class/net/"].iter().any(|place| path.starts_with(place));
            place && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
        }
    }
}

/// The lock on a state, held as long as this lives.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held open")] File);

/// Takes the lock of a state file, and creates its folder if it is missing.
///
/// # Errors
/// As text; also if another program holds the lock.
pub fn lock(path: &Path) -> anyhow::Result<Lock> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let lock_file = sibling(path, "lock");
    let file = File::create(&lock_file)
        .with_context(|| format!("cannot write {}", lock_file.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            bail!("another weft-tune is at work with {}", path.display())
        }
        Err(e) => Err(e).with_context(|| format!("cannot lock {}", lock_file.display())),
    }
}

/// The default state file: below `XDG_STATE_HOME`, or `~/.local/state` if that is not set.
///
/// # Errors
/// If neither is known.
pub fn default_path() -> anyhow::Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_STATE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| Some(set("HOME")?.join(".local/state")));
    let base = base.context("neither HOME nor XDG_STATE_HOME is set: name a file with --state")?;
    Ok(base.join("weft-tune").join("placement"))
}

/// The boot id of this run of the machine.
///
/// # Errors
/// If the kernel doesn't report it.
pub fn boot(system: &dyn System) -> anyhow::Result<String> {
    let path = "proc/sys/kernel/random/boot_id";
    let id = system.read(path).with_context(|| format!("cannot read /{path}"))?;
    Ok(id.trim().to_string())
}
