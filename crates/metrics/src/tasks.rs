//! The threads of the process that are not I/O threads, as the kernel counts them.
//!
//! I/O threads publish their CPU time themselves. The others sleep most of the time, and some live only for seconds.
//! Reading one takes some microseconds, so the kernel isn't asked about each I/O thread.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Threads that publish their own CPU time.
const PUBLISHED: &str = "weft-io-";

/// The most threads that are read in one scrape.
const MOST: usize = 256;

/// A thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub name: String,
    pub user: Duration,
    pub system: Duration,
    /// The CPU on which it ran last.
    pub cpu: usize,
}

/// Reads threads, and remembers their names.
#[derive(Debug)]
pub struct Tasks {
    dir: PathBuf,
    /// By id. A thread has its name before it works, and keeps it.
    names: HashMap<u32, String>,
}

impl Default for Tasks {
    fn default() -> Tasks {
        Tasks::below(Path::new("/proc/self/task"))
    }
}

impl Tasks {
    /// Reads below another folder.
    pub fn below(dir: &Path) -> Tasks {
        Tasks { dir: dir.to_owned(), names: HashMap::new() }
    }

    /// All threads but the I/O threads, by name. Threads of the same name follow each other.
    pub fn read(&mut self) -> Vec<Task> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let ids: Vec<u32> = ids.collect();
        self.names.retain(|id, _| ids.contains(id));
        let mut tasks = Vec::new();
        for id in ids {
            let dir = self.dir.join(id.to_string());
            if self.name(id, &dir).starts_with(PUBLISHED) || tasks.len() == MOST {
                continue;
            }
            // The thread may have ended.
            let Ok(text) = fs::read_to_string(dir.join("stat")) else { continue };
            tasks.extend(parse(&text));
        }
        tasks.sort_by(|a, b| a.name.cmp(&b.name));
        tasks
    }

    fn name(&mut self, id: u32, dir: &Path) -> &str {
        self.names.entry(id).or_insert_with(|| {
            let name = fs::read_to_string(dir.join("comm")).unwrap_or_default();
            name.trim_end().to_owned()
        })
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

    #[test]
    fn io_threads_are_left_out() {
        let dir = tempfile::tempdir().expect("a folder");
        for (id, name) in [(1, "weft-io-0"), (2, "weft-slow-0"), (3, "weft-aof")] {
            let dir = dir.path().join(id.to_string());
            fs::create_dir(&dir).expect("a folder");
            fs::write(dir.join("comm"), format!("{name}\n")).expect("a file");
            fs::write(dir.join("stat"), stat(name, id, 0, 0)).expect("a file");
        }
        let mut tasks = Tasks::below(dir.path());
        let names = |tasks: Vec<Task>| tasks.into_iter().map(|task| task.name).collect::<Vec<_>>();
        assert_eq!(names(tasks.read()), ["weft-aof", "weft-slow-0"]);
        fs::remove_dir_all(dir.path().join("3")).expect("removed");
        assert_eq!(names(tasks.read()), ["weft-slow-0"]);
    }
}
