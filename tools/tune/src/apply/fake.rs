//! A machine for tests: a folder of files, a table of masks, and faults on demand.
//!
//! Every change, of the machine or of the state file, passes two *moments*: before it takes effect
//! and after it. A test names a moment and an event at it: the program is killed (by a panic that
//! only the test catches), a thread ends or starts, a process id is reused. A test counts the
//! moments of an undisturbed run first, and can then try every one of them. Single changes can also
//! be made to fail, once or always.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::rc::Rc;

use tempfile::TempDir;
use weft_base::cpulist::CpuSet;

use super::journal::{End, Journal, Record};
use super::steps::Step;
use super::system::System;

/// The event at a moment.
#[derive(Clone, Debug)]
pub enum MomentEvent {
    /// The program is killed.
    Kill,
    /// A thread of process `.0` ends.
    ThreadEnds(u32, u32),
    /// A thread of process `.0` starts, started by thread `.1`.
    ThreadStarts(u32, u32, u32),
    /// A process ends and its id is reused.
    PidReused(u32),
}

/// The panic of [`MomentEvent::Kill`].
#[derive(Debug)]
struct Killed;

/// Counts moments; shared by the machine and the recorder.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    passed: Rc<Cell<usize>>,
    planned: Rc<RefCell<BTreeMap<usize, MomentEvent>>>,
}

impl Moments {
    /// The number of passed moments.
    pub fn passed(&self) -> usize {
        self.passed.get()
    }

    fn next(&self) -> Option<MomentEvent> {
        let now = self.passed.get();
        self.passed.set(now + 1);
        self.planned.borrow_mut().remove(&now)
    }

    /// Delays an event that can't happen at the moment that has just passed.
    fn delay(&self, happening: MomentEvent) {
        self.planned.borrow_mut().insert(self.passed.get(), happening);
    }
}

/// The machine.
pub struct Fake {
    root: TempDir,
    masks: RefCell<BTreeMap<u32, CpuSet>>,
    /// CPUs that the kernel would allow.
    pub online: CpuSet,
    /// The events by moment.
    pub moments: Moments,
    /// Number of the change that fails, counted from 0.
    pub fail_at: Option<usize>,
    changes: usize,
    /// Targets that reject every change: paths, or thread ids as text.
    pub stuck: BTreeSet<String>,
}

impl Fake {
    /// An empty machine.
    pub fn new(cpus: usize) -> Fake {
        let fake = Fake {
            root: folder(),
            masks: RefCell::default(),
            online: (0..cpus).collect(),
            moments: Moments::default(),
            fail_at: None,
            changes: 0,
            stuck: BTreeSet::new(),
        };
        fake.file("proc/sys/kernel/random/boot_id", "first\n");
        fake
    }

    /// Creates a file.
    pub fn file(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates a symbolic link.
    pub fn symlink(&self, path: &str, target: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// Starts a thread; the first of a process has its id.
    pub fn thread(&self, pid: u32, tid: u32, name: &str, mask: &CpuSet) {
        let folder = format!("proc/{pid}/task/{tid}");
        self.file(&format!("{folder}/comm"), &format!("{name}\n"));
        // 19 fields between the state and the start time, which is 7 x the id here.
        let fields = "0 ".repeat(18);
        self.file(
            &format!("{folder}/stat"),
            &format!("{tid} ({name}) S {fields}{} 0 0\n", 7 * tid),
        );
        if pid == tid {
            self.file(&format!("proc/{pid}/comm"), &format!("{name}\n"));
        }
        self.masks.borrow_mut().insert(tid, mask.clone());
    }

    /// A mask, as a list; none if the thread has ended.
    pub fn mask(&self, tid: u32) -> Option<String> {
        self.masks.borrow().get(&tid).map(ToString::to_string)
    }

    /// Everything that a plan can change: masks and the files of interrupts and queues.
    pub fn everything(&self) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> = self
            .masks
            .borrow()
            .iter()
            .map(|(tid, mask)| (tid.to_string(), mask.to_string()))
            .collect();
        for place in ["proc/irq", "sys/class/net"] {
            self.collect(place, &mut all);
        }
        all
    }

    fn collect(&self, folder: &str, all: &mut BTreeMap<String, String>) {
        for name in self.list(folder).unwrap_or_default() {
            let path = format!("{folder}/{name}");
            match fs::metadata(self.root.path().join(&path)).unwrap().is_dir() {
                true => self.collect(&path, all),
                false => {
                    all.insert(path.clone(), self.read(&path).unwrap());
                }
            }
        }
    }

    /// Schedules an event at a moment.
    pub fn at(&self, moment: usize, happening: MomentEvent) {
        self.moments.planned.borrow_mut().insert(moment, happening);
    }

    fn end_thread(&self, pid: u32, tid: u32) {
        // It may be gone already.
        let _ = fs::remove_dir_all(self.root.path().join(format!("proc/{pid}/task/{tid}")));
        self.masks.borrow_mut().remove(&tid);
    }

    fn moment(&self, is_before: bool) {
        match self.moments.next() {
            None => {}
            // In the microseconds between reading a thread and the call its id could be reused; no
            // system call excludes that.
            Some(reused @ MomentEvent::PidReused(_)) if is_before => self.moments.delay(reused),
            Some(MomentEvent::Kill) => panic::resume_unwind(Box::new(Killed)),
            Some(MomentEvent::ThreadEnds(pid, tid)) => self.end_thread(pid, tid),
            Some(MomentEvent::ThreadStarts(pid, parent, tid)) => {
                let mask = self.masks.borrow()[&parent].clone();
                self.thread(pid, tid, "jemalloc_bg_thd", &mask);
            }
            Some(MomentEvent::PidReused(pid)) => {
                for tid in self.list(&format!("proc/{pid}/task")).unwrap_or_default() {
                    self.end_thread(pid, tid.parse().unwrap());
                }
                self.thread(pid, pid, "editor", &self.online.clone());
                let stat = format!("{pid} (editor) S {}999999 0\n", "0 ".repeat(18));
                self.file(&format!("proc/{pid}/task/{pid}/stat"), &stat);
            }
        }
    }

    /// Passes the moments around a change, unless it must fail.
    fn change(
        &mut self,
        what: &str,
        effect: impl FnOnce(&Fake) -> io::Result<()>,
    ) -> io::Result<()> {
        self.moment(true);
        let number = self.changes;
        self.changes += 1;
        if self.fail_at == Some(number) || self.stuck.contains(what) {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        effect(self)?;
        self.moment(false);
        Ok(())
    }

    /// Runs `program` until it ends or is killed.
    pub fn run<T>(&mut self, program: impl FnOnce(&mut Fake) -> T) -> Option<T> {
        match panic::catch_unwind(AssertUnwindSafe(|| program(self))) {
            Ok(value) => Some(value),
            Err(payload) if payload.is::<Killed>() => None,
            Err(payload) => panic::resume_unwind(payload),
        }
    }
}

/// A folder that is removed after the test; in memory if possible, since thousands of state files
/// are synced.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn gone() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl System for Fake {
    fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.root.path().join(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.root.path().join(path))?;
        entries.map(|entry| Ok(entry?.file_name().to_str().unwrap().to_string())).collect()
    }

    fn link(&self, path: &str) -> io::Result<PathBuf> {
        fs::read_link(self.root.path().join(path))
    }

    fn affinity(&self, thread: u32) -> io::Result<CpuSet> {
        self.masks.borrow().get(&thread).cloned().ok_or_else(gone)
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.change(path, |fake| {
            let path = fake.root.path().join(path);
            fs::File::options().write(true).open(&path)?;
            fs::write(path, format!("{text}\n"))
        })
    }

    fn confine(&mut self, thread: u32, cpus: &CpuSet) -> io::Result<()> {
        self.change(&thread.to_string(), |fake| {
            let mut masks = fake.masks.borrow_mut();
            let mask = masks.get_mut(&thread).ok_or_else(gone)?;
            let allowed = cpus.intersection(&fake.online);
            if allowed.is_empty() {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            }
            *mask = allowed;
            Ok(())
        })
    }
}

/// A journal whose writes are moments too.
pub struct Recorder {
    journal: Journal,
    moments: Moments,
    /// Whether no more writes succeed.
    pub full: bool,
}

impl Recorder {
    /// For an open state file of the machine's program.
    pub fn new(journal: Journal, fake: &Fake) -> Recorder {
        Recorder { journal, moments: fake.moments.clone(), full: false }
    }

    fn moment(&self) {
        // Only a kill can happen here: the machine's own moments have the other events.
        match self.moments.next() {
            None => {}
            Some(MomentEvent::Kill) => panic::resume_unwind(Box::new(Killed)),
            Some(other) => self.moments.delay(other),
        }
    }

    fn write(&mut self, add: impl FnOnce(&mut Journal) -> io::Result<()>) -> io::Result<()> {
        self.moment();
        if self.full {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        add(&mut self.journal)?;
        self.moment();
        Ok(())
    }
}

impl Record for Recorder {
    fn begin(&mut self, step: usize) -> io::Result<()> {
        self.write(|journal| journal.begin(step))
    }

    fn add_step(&mut self, step: &Step) -> io::Result<()> {
        self.write(|journal| journal.add_step(step))
    }

    fn end(&mut self, end: End) -> io::Result<()> {
        self.write(|journal| journal.end(end))
    }
}
