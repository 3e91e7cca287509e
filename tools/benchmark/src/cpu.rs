//! The cost of the load: CPU time of the server and of the generator's own threads.
//!
//! A rate alone misleads: a server with the same rate and half of the CPU is the better one. The
//! server itself reports its time (INFO, `used_cpu_user` and `used_cpu_sys`, to the microsecond).
//! If it doesn't and runs on this machine, `/proc` has it; the listening socket identifies the
//! process.

use std::fs;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use crate::connect::{Address, Place};
use crate::control::{Control, Reply};

/// CPU time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    pub user_us: f64,
    pub system_us: f64,
}

impl CpuTime {
    /// The CPU time since an earlier sample.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user_us: (self.user_us - earlier.user_us).max(0.0),
            system_us: (self.system_us - earlier.system_us).max(0.0),
        }
    }

    fn plus(self, other: CpuTime) -> CpuTime {
        CpuTime {
            user_us: self.user_us + other.user_us,
            system_us: self.system_us + other.system_us,
        }
    }
}

/// The source of a server's CPU time.
#[derive(Debug)]
enum Source {
    Info(Control),
    Process(u32),
}

/// The CPU time of a server, or of all nodes of a cluster.
#[derive(Debug)]
pub struct ServerCpu {
    sources: Vec<Source>,
}

impl ServerCpu {
    /// Finds a source for each server; none if one of them has no source.
    pub fn find(addresses: &[Address], greetings: &[Vec<String>]) -> Option<ServerCpu> {
        let sources = addresses.iter().map(|address| source(address, greetings));
        Some(ServerCpu { sources: sources.collect::<Option<_>>()? })
    }

    /// The time used so far; none if a source has gone.
    pub fn sample(&mut self) -> Option<CpuTime> {
        self.sources.iter_mut().try_fold(CpuTime::default(), |sum, source| {
            let time = match source {
                Source::Info(control) => from_info(control),
                Source::Process(pid) => from_proc(*pid),
            };
            Some(sum.plus(time?))
        })
    }

    /// `INFO` or `/proc`, for reports.
    pub fn source(&self) -> &'static str {
        match self.sources.first() {
            Some(Source::Process(_)) => "proc",
            Some(Source::Info(_)) | None => "info",
        }
    }
}

fn source(address: &Address, greetings: &[Vec<String>]) -> Option<Source> {
    let info = Control::connect(address).ok().and_then(|mut control| {
        control.greet(greetings).ok()?;
        from_info(&mut control)?;
        Some(control)
    });
    info.map(Source::Info).or_else(|| listener(address).map(Source::Process))
}

fn from_info(control: &mut Control) -> Option<CpuTime> {
    let reply = control.ask(&["INFO", "cpu"]).ok()?;
    let Reply::Text(_, text) = &reply else { return None };
    parse_info(&String::from_utf8_lossy(text))
}

fn parse_info(text: &str) -> Option<CpuTime> {
    let field = |name: &str| -> Option<f64> {
        let mut values = text.lines().filter_map(|line| line.trim_end().strip_prefix(name));
        values.find_map(|rest| rest.strip_prefix(':')?.parse::<f64>().ok())
    };
    Some(CpuTime {
        user_us: field("used_cpu_user")? * 1e6,
        system_us: field("used_cpu_sys")? * 1e6,
    })
}

fn from_proc(pid: u32) -> Option<CpuTime> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let tick_us = 1e6 / rustix::param::clock_ticks_per_second() as f64;
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(CpuTime { user_us: ticks(11)? * tick_us, system_us: ticks(12)? * tick_us })
}

/// The process of this machine that listens at the address.
fn listener(address: &Address) -> Option<u32> {
    let inode = match &address.place {
        Place::Tcp(at) if address.is_local() => ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .find_map(|table| listening_tcp(&fs::read_to_string(table).ok()?, at.port()))?,
        Place::Tcp(_) => return None,
        Place::Unix(path) => {
            let path = path.path()?.to_string_lossy().into_owned();
            listening_unix(&fs::read_to_string("/proc/net/unix").ok()?, &path)?
        }
    };
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let mut descriptors = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        let holds =
            descriptors.any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == Path::new(&socket)));
        holds.then_some(pid)
    })
}

/// The inode of the socket that listens on a port.
fn listening_tcp(table: &str, port: u16) -> Option<u64> {
    const LISTEN: &str = "0A";
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local = u16::from_str_radix(fields.get(1)?.rsplit_once(':')?.1, 16).ok()?;
        (local == port && *fields.get(3)? == LISTEN).then(|| fields.get(9)?.parse().ok())?
    })
}

/// The inode of the socket that listens at a path.
fn listening_unix(table: &str, path: &str) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // The flag says that it accepts connections.
        (fields.get(7) == Some(&path) && fields.get(3) == Some(&"00010000"))
            .then(|| fields.get(6)?.parse().ok())?
    })
}

/// CPU time of the calling thread in nanoseconds.
pub fn own_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::Transport;
    use crate::options::Target;
    use std::net::TcpListener;

    #[test]
    fn info_is_read() {
        let text =
            "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_user_children:9\r\n";
        let want = CpuTime { user_us: 2_250_000.0, system_us: 1_500_000.0 };
        assert_eq!(parse_info(text), Some(want));
        assert_eq!(parse_info("used_cpu_sys:1.5\r\n"), None);
        assert_eq!(parse_info("PONG"), None);
    }

    #[test]
    fn listening_process_is_found() {
        let listener_socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Tcp("127.0.0.1".into(), listener_socket.local_addr().unwrap().port());
        let address = Address::resolve(&target, &Transport::default()).unwrap();
        assert_eq!(listener(&address), Some(std::process::id()));
        assert!(from_proc(std::process::id()).is_some());
    }

    #[test]
    fn unix_sockets_are_found_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let target = Target::Unix(path.to_string_lossy().into_owned());
        assert_eq!(
            listener(&Address::resolve(&target, &Transport::default()).unwrap()),
            Some(std::process::id())
        );
    }

    #[test]
    fn own_time_passes_with_work() {
        let start = own_ns();
        let mut x = 1u64;
        while own_ns() - start < 1_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
    }
}
