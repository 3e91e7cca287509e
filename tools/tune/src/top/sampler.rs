//! Takes samples of a server: PINGs between them, then INFO and the kernel's files.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::connection::{Connection, Near, Trouble};
use super::info::Info;
use super::options::{Place, Target};
use super::rates::Sample;
use super::reading::{self, Fixed};
use crate::apply::{Real, listening_on};
use crate::host::Host;
use crate::sweep::client::Reply;

/// The time between two PINGs.
const PROBE: Duration = Duration::from_millis(100);
/// The largest difference between the age of the server's process and its uptime. A process id of
/// another container is another process here, and its age differs.
const SAME_AGE: f64 = 5.0;

/// Samples a server.
#[derive(Debug)]
pub struct Sampler {
    target: Target,
    connection: Connection,
    host: Host,
    fixed: Fixed,
    begun: Instant,
    /// The server's process and the id of its run.
    process: Option<(String, Option<u32>)>,
}

impl Sampler {
    /// Connects.
    ///
    /// # Errors
    /// If the server can't be reached, or rejects the login.
    pub fn connect(target: Target, host: Host) -> Result<Sampler, Trouble> {
        let connection = Connection::open(&target)?;
        let fixed = Fixed::read(&host);
        Ok(Sampler { target, connection, host, fixed, begun: Instant::now(), process: None })
    }

    /// The facts of this machine.
    pub fn fixed(&self) -> &Fixed {
        &self.fixed
    }

    /// Connects again.
    ///
    /// # Errors
    /// As [`Sampler::connect`].
    pub fn reconnect(&mut self) -> Result<(), Trouble> {
        self.connection = Connection::open(&self.target)?;
        self.process = None;
        Ok(())
    }

    /// Sends PINGs until `until`, then reads everything.
    ///
    /// # Errors
    /// If the connection is lost, or INFO is refused.
    pub fn sample(&mut self, until: Instant) -> Result<Sample, Trouble> {
        let (probes, probe_error) = self.probe(until)?;
        let mut text = self.text(&["INFO", "everything"])?;
        if text.contains("\ncluster_enabled:1") {
            // Without the permission, the page shows the rest.
            match self.text(&["CLUSTER", "INFO"]) {
                Ok(cluster) => text += &format!("\n{cluster}"),
                Err(Trouble::Refused(_)) => {}
                Err(lost) => return Err(lost),
            }
        }
        let info = Info::parse(&text);
        let pid = self.process(&info);
        // Without its process, a server at a local port may be at the end of a tunnel.
        let reading = pid.map(|pid| reading::read(&self.host, &self.fixed, pid));
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Sample {
            at: self.begun.elapsed().as_secs_f64(),
            unix_time_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
            address: self.target.place.to_string(),
            info,
            probes,
            probe_error,
            pid,
            reading,
        })
    }

    /// Probes at regular times, so that a short stall is in one probe and a long one in many.
    fn probe(&mut self, until: Instant) -> Result<(Vec<Duration>, Option<String>), Trouble> {
        let mut times = Vec::new();
        let mut refused = None;
        loop {
            let begun = Instant::now();
            match self.connection.ask(&["PING"]) {
                Ok(_) => times.push(begun.elapsed()),
                Err(Trouble::Refused(why)) => refused = Some(why),
                Err(lost) => return Err(lost),
            }
            let next = begun + PROBE;
            let now = Instant::now();
            if next >= until {
                thread::sleep(until.saturating_duration_since(now));
                return Ok((times, refused));
            }
            thread::sleep(next.saturating_duration_since(now));
        }
    }

    fn text(&mut self, command: &[&str]) -> Result<String, Trouble> {
        match self.connection.ask(command)? {
            Reply::Text(text) => Ok(text),
            _ => Err(Trouble::Refused(format!("{} is not text", command.join(" ")))),
        }
    }

    /// The server's process, looked for once for each run of the server.
    fn process(&mut self, info: &Info) -> Option<u32> {
        let run = info.text("run_id");
        if let Some((known, pid)) = &self.process
            && *known == run
        {
            return *pid;
        }
        let pid = self.find_process(info);
        self.process = Some((run, pid));
        pid
    }

    fn find_process(&self, info: &Info) -> Option<u32> {
        let uptime: f64 = info.number("uptime_in_seconds")?;
        let is_old = |pid: &u32| {
            reading::age(&self.host, *pid).is_some_and(|age| (age - uptime).abs() < SAME_AGE)
        };
        match self.connection.near {
            Near::Remote => None,
            Near::Process(pid) => Some(pid).filter(|pid| reading::age(&self.host, *pid).is_some()),
            Near::SameAddress => info.number("process_id").filter(is_old).or_else(|| {
                // The id may be of another namespace, while the port is of this one.
                let Place::Tcp(_, port) = self.target.place else { return None };
                listening_on(&Real::at(self.host.root()), port).ok().filter(is_old)
            }),
        }
    }
}
