//! Facts about a process from `/proc`: CPU time, memory, descriptors, threads.

use std::fs;

/// CPU time of all threads of a process since it started, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// In user mode.
    pub user: f64,
    /// In the kernel, for the process.
    pub sys: f64,
}

impl Cpu {
    /// Both together.
    pub fn total(&self) -> f64 {
        self.user + self.sys
    }
}

/// A running process, by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(pub u32);

impl Process {
    #[track_caller]
    fn read(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.0);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {path}: {e}"))
    }

    /// CPU time so far; the kernel counts it in ticks, mostly of 10 ms.
    #[track_caller]
    pub fn cpu(&self) -> Cpu {
        let stat = self.read("stat");
        // The second field is the program's name in parentheses and may contain anything.
        let (_, fields) = stat.rsplit_once(')').expect("a name in /proc/PID/stat");
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let tick = rustix::param::clock_ticks_per_second() as f64;
        let seconds = |field: &str| field.parse::<f64>().expect("ticks are a number") / tick;
        // utime and stime are fields 14 and 15 of proc(5); the name was the second.
        Cpu { user: seconds(fields[11]), sys: seconds(fields[12]) }
    }

    #[track_caller]
    fn status(&self, field: &str) -> u64 {
        let status = self.read("status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .unwrap_or_else(|| panic!("no {field} in /proc/{}/status", self.0));
        line.split_ascii_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
    }

    /// Resident memory in bytes.
    #[track_caller]
    pub fn rss(&self) -> u64 {
        self.status("VmRSS") * 1024
    }

    /// The most resident memory so far, in bytes.
    pub fn most_rss(&self) -> u64 {
        self.status("VmHWM") * 1024
    }

    /// Names of its threads, in any order.
    pub fn thread_names(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0)).into_iter().flatten();
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
        };
        tasks.filter_map(name).map(|name| name.trim().to_string()).collect()
    }

    /// Number of threads.
    #[track_caller]
    pub fn threads(&self) -> u64 {
        self.status("Threads")
    }

    /// Number of open descriptors.
    #[track_caller]
    pub fn fds(&self) -> usize {
        let path = format!("/proc/{}/fd", self.0);
        fs::read_dir(&path).unwrap_or_else(|e| panic!("cannot read {path}: {e}")).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_has_plausible_figures() {
        let me = Process(std::process::id());
        let before = me.cpu().total();
        let mut sum = 0u64;
        while me.cpu().total() <= before {
            sum = (0..100_000u64).fold(sum, |a, b| std::hint::black_box(a ^ b));
        }
        assert!(me.rss() > 100 * 1024 && me.threads() >= 1);
        let fds = me.fds();
        let _file = fs::File::open("/proc/self/stat").unwrap();
        assert!(me.fds() > 0 && fds > 0);
    }
}
