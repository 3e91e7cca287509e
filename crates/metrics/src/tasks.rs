//! The threads of the process that are not I/O threads, as the kernel counts them.
//!
//! I/O threads publish their CPU time themselves. The others sleep most of the time, and some live only for seconds.
//! Reading one takes some microseconds, so the kernel isn't asked about each I/O thread.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use weft_state::threads::pool::MAX_IO_THREADS;

/// Threads that publish their own CPU time.
const PUBLISHED: &str = "weft-io-";

/// The most threads that are read in one scrape.
const MOST: usize = 256;

/// The name of an I/O thread.
pub fn io_name(number: usize) -> &'static str {
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..MAX_IO_THREADS).map(|n| format!("{PUBLISHED}{n}")).collect());
    &NAMES[number]
}

/// A thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub name: String,
    pub user: Duration,
    pub system: Duration,
    /// The CPU on which it ran last.
    pub cpu: usize,
}

/// Reads threads. It keeps their files open, and reads the folder again only if a thread has begun or ended.
#[derive(Debug)]
pub struct Tasks {
    dir: PathBuf,
    /// The number of links of the folder when it was read last, two more than that of threads.
    links: u64,
    /// The folder must be read again in any case: a thread that had just begun may not have had its name.
    is_new: bool,
    /// The files `stat` of the threads that are not I/O threads.
    open: Vec<File>,
}

impl Default for Tasks {
    fn default() -> Tasks {
        Tasks::below(Path::new("/proc/self/task"))
    }
}

impl Tasks {
    /// Reads below another folder.
    pub fn below(dir: &Path) -> Tasks {
        Tasks { dir: dir.to_owned(), links: 0, is_new: false, open: Vec::new() }
    }

    /// All threads but the I/O threads, by name. Threads of the same name follow each other.
    pub fn read(&mut self) -> Vec<Task> {
        let mut tasks = Vec::new();
        // The number of threads stays the same if one has begun and another one ended, but a read of the latter fails.
        let has_changed = self.links() != self.links || !self.read_open(&mut tasks);
        if has_changed || self.is_new {
            self.is_new = has_changed;
            self.links = self.links();
            self.open = self.files();
            tasks.clear();
            // A thread that ends now is missed.
            self.read_open(&mut tasks);
        }
        tasks.sort_by(|a, b| a.name.cmp(&b.name));
        tasks
    }

    fn links(&self) -> u64 {
        fs::metadata(&self.dir).map_or(0, |found| found.nlink())
    }

    /// Reads the open files. Returns whether all of their threads live.
    fn read_open(&self, tasks: &mut Vec<Task>) -> bool {
        /// A line is some 300 bytes long.
        const LONGEST: usize = 2048;
        let mut line = [0; LONGEST];
        let mut all = true;
        for file in &self.open {
            let task = file
                .read_at(&mut line, 0)
                .ok()
                .and_then(|n| parse(&String::from_utf8_lossy(&line[..n])));
            all &= task.is_some();
            tasks.extend(task.filter(|task| !task.name.starts_with(PUBLISHED)));
        }
        all
    }

    fn files(&self) -> Vec<File> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let dirs = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            entry.file_name().to_str()?.parse::<u32>().ok()?;
            Some(entry.path())
        });
        // A thread has its name before it works, and keeps it. Until then, it has that of the thread that started it.
        let others = dirs.filter(|dir| {
            let name = fs::read_to_string(dir.join("comm")).unwrap_or_default();
            !name.starts_with(PUBLISHED)
        });
        // The thread may have ended.
        others.filter_map(|dir| File::open(dir.join("stat")).ok()).take(MOST).collect()
    }
}

/// A line of `/proc/PID/task/TID/stat`, as proc_pid_stat(5) describes it.
fn parse(stat: &str) -> Option<Task> {
    // The name may contain any byte, so it ends at the last parenthesis.
    let (start, rest) = stat.rsplit_once(')')?;
    let (_, name) = start.split_once('(')?;
    // The first of them is field 3.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let hertz = rustix::param::clock_ticks_per_second().max(1);
    let time = |ticks: u64| Duration::from_micros(ticks * 1_000_000 / hertz);
    Some(Task {
        name: name.to_owned(),
        user: time(field(14)?),
        system: time(field(15)?),
        cpu: field(39)? as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread::{self, JoinHandle};

    fn stat(name: &str, user: u64, system: u64, cpu: u64) -> String {
        let mut fields = vec!["0".to_owned(); 50];
        (fields[11], fields[12], fields[36]) =
            (user.to_string(), system.to_string(), cpu.to_string());
        fields[0] = "S".into();
        format!("7 ({name}) {}", fields.join(" "))
    }

    #[test]
    fn name_may_contain_parentheses() {
        let task = parse(&stat("a) (b", 100, 50, 3)).expect("a line");
        assert_eq!((&*task.name, task.cpu), ("a) (b", 3));
        assert!(task.user > task.system);
        assert_eq!(parse("7 (x) S 1"), None);
        assert_eq!(parse(""), None);
    }

    /// A thread of this process that ends with the sender.
    fn thread(name: &str) -> (mpsc::Sender<()>, JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel();
        let (named, is_named) = mpsc::channel();
        let body = move || {
            named.send(()).expect("received");
            _ = receiver.recv();
        };
        let thread = thread::Builder::new().name(name.into()).spawn(body).expect("a thread");
        is_named.recv().expect("sent");
        (sender, thread)
    }

    #[test]
    fn threads_that_begin_and_end_are_found() {
        let mut tasks = Tasks::default();
        let mut names = || {
            let names = tasks.read().into_iter().map(|task| task.name);
            names.filter(|name| name.starts_with("weft-")).collect::<Vec<_>>()
        };
        let _io = thread("weft-io-0");
        let (end, slow) = thread("weft-slow-0");
        let _aof = thread("weft-aof");
        assert_eq!(names(), ["weft-aof", "weft-slow-0"]);
        assert_eq!(names(), ["weft-aof", "weft-slow-0"]);
        drop(end);
        slow.join().expect("ended");
        // As many threads as before.
        let _slow = thread("weft-slow-1");
        // The kernel removes a thread's folder a moment after the thread can be joined.
        while names() != ["weft-aof", "weft-slow-1"] {
            thread::yield_now();
        }
    }

    #[test]
    fn missing_folder_has_no_threads() {
        assert_eq!(Tasks::below(Path::new("/nowhere")).read(), []);
    }
}
