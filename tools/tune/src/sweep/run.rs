//! One run of the generator on a running server, with measurements of both.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::child;
use super::generator::{Found, Generator, Job, options};
use super::proc::{BusyThreads, Usage};
use super::server::{Failure, Running, last_lines};
use super::stop::Stop;

/// The time between two readings of the processes.
const STEP: Duration = Duration::from_millis(20);

/// The reason why a run has no result.
#[derive(Debug)]
pub enum Trouble {
    /// The sweep must stop; nothing is recorded.
    Stopped,
    /// The cell has failed.
    Failed(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The generator and its limits.
pub struct Runner<'a> {
    /// The generator.
    pub generator: &'a dyn Generator,
    /// CPUs; any when empty.
    pub cpus: &'a str,
    /// The deadline of the cell.
    pub end: Instant,
    /// Whether the sweep must stop.
    pub stop: &'a Stop,
}

/// A process that is killed when its handle is dropped.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output and cost of a run of the generator.
#[derive(Debug)]
pub struct GeneratorRun {
    /// Its standard output.
    output: String,
    /// Its standard error.
    words: String,
    /// CPU time of the whole process in seconds.
    pub cpu: Option<f64>,
    /// The busy share of its busiest thread, by the kernel's counts, from 0 to 1.
    busy: Option<f64>,
}

impl GeneratorRun {
    /// Its results. The busy share is the generator's own if it reports one, else the kernel's.
    ///
    /// # Errors
    /// If there are none.
    pub fn result(&self, generator: &dyn Generator, job: &Job) -> Result<Found> {
        let found = generator.parse(&self.output, job);
        let mut found = found.with_context(|| format!("the generator's output{}", self.words))?;
        found.busy = found.busy.or(self.busy);
        Ok(found)
    }
}

impl Runner<'_> {
    /// Runs a job to its end.
    ///
    /// # Errors
    /// If the server or the generator fails, or the sweep must stop.
    pub fn run(&self, server: &mut Running, job: &Job) -> Result<GeneratorRun, Trouble> {
        let fail = |e: anyhow::Error, server: &Running| {
            Trouble::Failed(Failure::new(format!("{e:#}"), server.log()))
        };
        let mut child = self.spawn(server, job).map_err(|e| fail(e, server))?;
        let begun = Instant::now();
        let mut busy_threads = BusyThreads::new(child.0.id());
        while !has_ended(&child.0) {
            if self.stop.asked() {
                return Err(Trouble::Stopped);
            }
            if let Some(why) = server.ended() {
                return Err(Failure::new(format!("the server {why}"), server.log()).into());
            }
            if Instant::now() > self.end {
                return Err(Failure::new("the cell took too long", server.log()).into());
            }
            busy_threads.sample();
            thread::sleep(STEP);
        }
        let seconds = begun.elapsed().as_secs_f64();
        // An ended process keeps its counts until its parent waits for it.
        let cpu = Usage::of(child.0.id()).map(|usage| usage.user + usage.system);
        let average = cpu.map(|used| (used / seconds / f64::from(job.threads)).min(1.0));
        let ran = self.take(&mut child, server, cpu, busy_threads.busiest().or(average));
        // If the server dies, the generator fails too; the server's end is the better reason.
        if let (Err(_), Some(why)) = (&ran, server.ended()) {
            return Err(Failure::new(format!("the server {why}"), server.log()).into());
        }
        ran.map_err(|e| fail(e, server))
    }

    fn spawn(&self, server: &Running, job: &Job) -> Result<Guarded> {
        let mut command = child::command(self.generator.program(), self.cpus)?;
        let child = command
            .args(options(job))
            .arg(self.generator.form())
            .current_dir(server.dir())
            .stdin(Stdio::null())
            .stdout(File::create(server.dir().join("generator-out"))?)
            .stderr(File::create(server.dir().join("generator-err"))?)
            .spawn()
            .context("cannot start the generator")?;
        Ok(Guarded(child))
    }

    /// The output and cost of an ended run.
    fn take(
        &self,
        child: &mut Guarded,
        server: &Running,
        cpu: Option<f64>,
        busy: Option<f64>,
    ) -> Result<GeneratorRun> {
        let status = child.0.wait()?;
        let words = last_lines(&server.dir().join("generator-err")).join("; ");
        let words = if words.is_empty() { words } else { format!(" ({words})") };
        ensure!(status.success(), "the generator ended: {status}{words}");
        let bytes = fs::read(server.dir().join("generator-out"))?;
        Ok(GeneratorRun { output: String::from_utf8_lossy(&bytes).into_owned(), words, cpu, busy })
    }
}

/// Whether a process has ended, without waiting for it, so that its counts stay readable.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match Pid::from_raw(child.id().cast_signed()) {
        Some(pid) => !matches!(waitid(WaitId::Pid(pid), options), Ok(None)),
        None => true,
    }
}
