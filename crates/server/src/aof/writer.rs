//! The thread that writes the append-only file: it takes units out of the log, writes them, has them
//! synced as the policy says, and lets answers go.
//!
//! One group commit serves all threads: what comes while a sync runs is written and synced by the
//! next one. Under `everysec` a sync has a thread of its own, and this one goes on writing.
//!
//! What fails is tried again, and nothing may be written meanwhile (MISCONF); under `always` the
//! server stops, as nothing could be answered any more.

use super::policy::{Policy, Sync};
use super::rewrite;
use crate::memory::ThreadMemory;
use crate::server::{Server, attention};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::time::{Duration, Instant};
use weft_keyspace::log::{Entry, LogReader, Target};
use weft_persist::aof::{self, Appender, Permission, Retry, SyncJob};
use weft_process::{log_notice, log_warning};

/// What the thread is told.
pub enum Order {
    /// A sync has ended.
    Synced(SyncJob, io::Result<()>),
    /// Superfluous files were removed.
    Removed(Vec<aof::Entry>),
    /// A cut was made: what comes behind it goes to a new file. The answer comes when that is so.
    Rotate(SyncSender<Result<(), String>>),
    /// The image of the cut is in this file of the folder; or there is none.
    Rebase { base: Result<Base, String>, done: SyncSender<Result<(), String>> },
    /// Write and sync all that was logged before this.
    Flush(SyncSender<()>),
    /// The log has ended: write and sync the rest, and end.
    End(SyncSender<()>),
    /// Look at the configuration.
    Look,
}

/// The image of a cut.
#[derive(Debug)]
pub struct Base {
    pub name: String,
    /// It begins with a snapshot.
    pub snapshot: bool,
}

/// Bytes that are taken before they are written.
const AT_ONCE: usize = 4 << 20;
/// How soon a failed write is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

/// See the module.
pub struct Writer {
    srv: &'static Server,
    log: LogReader,
    appender: Appender,
    orders: Receiver<Order>,
    /// To the thread that syncs.
    syncer: Sender<SyncJob>,
    policy: Policy,
    settings_version: u64,
    /// Since when a sync is under way, and when the last one began.
    syncing: Option<Instant>,
    last_sync: Instant,
    is_delay_told: bool,
    /// Writing, or syncing, has failed.
    is_failing: bool,
    /// Who waits for the new file, and what came of it if nobody has asked yet.
    rotating: Option<SyncSender<Result<(), String>>>,
    rotated: Option<Result<(), String>>,
    removing: bool,
    retry: Retry,
    /// Unix second before which no rewrite is begun unasked.
    next_attempt_s: i64,
}

impl Writer {
    pub fn new(
        srv: &'static Server,
        log: LogReader,
        appender: Appender,
        orders: Receiver<Order>,
        syncer: Sender<SyncJob>,
    ) -> Writer {
        let settings = srv.settings();
        Writer {
            srv,
            log,
            appender,
            orders,
            syncer,
            policy: settings.aof,
            settings_version: settings.version,
            syncing: None,
            last_sync: Instant::now(),
            is_delay_told: false,
            is_failing: false,
            rotating: None,
            rotated: None,
            removing: false,
            retry: Retry::default(),
            next_attempt_s: 0,
        }
    }

    /// Runs until it is told to end.
    pub fn run(mut self) {
        let srv = self.srv;
        // What the threads that execute commands have allocated is freed here.
        let mut memory = ThreadMemory::new();
        loop {
            memory.publish(&srv.memory);
            self.renew_policy();
            while let Ok(order) = self.orders.try_recv() {
                if let Some(ended) = self.obey(order) {
                    srv.aof.let_go(srv, u64::MAX);
                    drop(self);
                    memory.publish(&srv.memory);
                    let _ = ended.send(());
                    return;
                }
            }
            let has_more = self.take();
            self.write();
            self.rotate_if_due();
            self.sync_if_due();
            self.see_to_files();
            self.tell();
            memory.publish_if_far(&srv.memory);
            if !has_more && self.log.may_sleep() {
                match self.until_due() {
                    Some(time) => std::thread::park_timeout(time),
                    None => std::thread::park(),
                }
            }
        }
    }

    fn renew_policy(&mut self) {
        if self.srv.settings_version() != self.settings_version {
            let settings = self.srv.settings();
            self.settings_version = settings.version;
            self.appender.annotate(settings.aof.annotations);
            self.policy = settings.aof;
        }
    }

    /// Carries out an order; who is to be told when it was the last one.
    fn obey(&mut self, order: Order) -> Option<SyncSender<()>> {
        match order {
            Order::Synced(job, came) => self.synced(&job, &came),
            Order::Removed(gone) => {
                self.removing = false;
                if let Err(e) = self.appender.removed(&gone) {
                    log_warning!("The AOF manifest still names files that were removed: {e}");
                }
            }
            Order::Rotate(done) => match self.rotated.take() {
                Some(came) => drop(done.send(came)),
                None => self.rotating = Some(done),
            },
            Order::Rebase { base, done } => {
                let came = base.and_then(|base| {
                    let began = self.srv.watch_latency();
                    let came = self.appender.rebase(&base.name, base.snapshot);
                    self.sample("aof-rename", began);
                    came.map_err(|e| e.to_string())
                });
                self.rewritten(came.is_ok());
                let _ = done.send(came);
            }
            Order::Flush(done) => {
                self.write_all();
                let _ = done.send(());
            }
            Order::End(done) => {
                self.write_all();
                return Some(done);
            }
            Order::Look => {}
        }
        None
    }

    /// Writes and syncs all that has been logged, as far as that can be done.
    fn write_all(&mut self) {
        let upto = self.log.log().last();
        while self.log.position() < upto {
            if !self.take() && self.log.position() < upto {
                // It was drawn, and will be there in a moment.
                std::thread::yield_now();
            }
            self.write();
            self.rotate_if_due();
            if self.is_failing {
                break;
            }
        }
        if let Err(e) = self.appender.write() {
            log_warning!("The end of the AOF could not be written: {e}");
        }
        let job = self.appender.sync_job();
        let came = job.run();
        self.appender.synced(&job, &came);
        if let Err(e) = came {
            log_warning!("Fail to fsync the AOF file: {e}");
        }
        self.let_go();
    }

    /// Takes units out of the log; whether there may be more.
    fn take(&mut self) -> bool {
        let cut = &self.srv.aof.cut;
        while let Some(unit) = self.log.next() {
            let number = unit.number();
            // Written before the world went on: whoever sees the unit sees it.
            if number > cut.load(Ordering::Relaxed) {
                self.rotated = Some(rotate(&mut self.appender));
                cut.store(u64::MAX, Ordering::Relaxed);
            }
            let entries = unit.entries().filter(|entry| entry.target().has(Target::AOF));
            let commands: smallvec::SmallVec<[Logged<'_>; 4]> = entries.map(Logged).collect();
            match commands[..] {
                [] => self.appender.nothing_upto(number),
                [_, ..] => self.appender.unit(number, unit.ms(), &commands),
            }
            if self.appender.buffered() >= AT_ONCE {
                return true;
            }
        }
        self.appender.nothing_upto(self.log.position());
        false
    }

    /// The new file is due, though nothing has come that belongs into it.
    fn rotate_if_due(&mut self) {
        let cut = self.srv.aof.cut.load(Ordering::Relaxed);
        if self.rotating.is_some() && self.rotated.is_none() && self.log.position() >= cut {
            self.rotated = Some(rotate(&mut self.appender));
            self.srv.aof.cut.store(u64::MAX, Ordering::Relaxed);
        }
        if self.rotated.is_some()
            && let Some(done) = self.rotating.take()
            && let Some(came) = self.rotated.take()
        {
            let _ = done.send(came);
        }
    }

    fn write(&mut self) {
        if self.appender.buffered() == 0 && !self.is_failing {
            return;
        }
        let began = self.srv.watch_latency();
        // DEBUG AOF-FLUSH-SLEEP: a disk that takes its time.
        match self.srv.aof.status.flush_sleep_us.load(Ordering::Relaxed) {
            0 => {}
            us => std::thread::sleep(Duration::from_micros(us)),
        }
        match self.appender.write() {
            Ok(()) => {
                self.sample("aof-write", began);
                let by = if self.syncing.is_some() {
                    "aof-write-pending-fsync"
                } else if self.is_rewriting() {
                    "aof-write-active-child"
                } else {
                    "aof-write-alone"
                };
                self.sample(by, began);
                if self.is_failing && !self.appender.is_doubtful() {
                    self.recovered();
                }
            }
            Err(e) if self.policy.sync == Sync::Always => {
                log_warning!(
                    "Can't recover from AOF write error when the AOF fsync policy is 'always'. \
                     Exiting... ({e})"
                );
                std::process::exit(1);
            }
            Err(e) => self.failed("Error writing to the AOF file", &e),
        }
        self.srv.aof.written.store(self.appender.written(), Ordering::SeqCst);
    }

    fn failed(&mut self, what: &str, e: &io::Error) {
        let text = super::base::told(e);
        if !self.is_failing {
            log_warning!("{what}: {text}");
        }
        self.is_failing = true;
        self.srv.aof.status.set_error(Some(text));
        self.srv.set_attention(attention::AOF_FAILING, true);
    }

    fn recovered(&mut self) {
        self.is_failing = false;
        self.srv.aof.status.set_error(None);
        self.srv.set_attention(attention::AOF_FAILING, false);
        log_warning!("AOF write error looks solved. The server can write again.");
    }

    fn is_rewriting(&self) -> bool {
        self.srv.aof.rewriting.load(Ordering::Relaxed)
    }

    fn sync_if_due(&mut self) {
        let pauses = self.policy.pauses && self.is_rewriting();
        match self.policy.sync {
            // One that was begun under another policy is waited for: its file may be this one.
            Sync::Always if self.syncing.is_none() && !pauses => self.sync_now(),
            Sync::EverySecond if self.appender.wants_sync() && !pauses => match self.syncing {
                None if self.last_sync.elapsed() >= SECOND => self.sync_elsewhere(),
                None => {}
                Some(since) if since.elapsed() >= 2 * SECOND && !self.is_delay_told => {
                    self.is_delay_told = true;
                    self.srv.aof.status.delayed_syncs.fetch_add(1, Ordering::Relaxed);
                    log_notice!(
                        "Asynchronous AOF fsync is taking too long (disk is busy?). Writing \
                             the AOF buffer without waiting for fsync to complete."
                    );
                }
                Some(_) => {}
            },
            Sync::Always | Sync::EverySecond | Sync::Never => {}
        }
        self.let_go();
    }

    fn sync_now(&mut self) {
        if !self.appender.wants_sync() {
            return;
        }
        let job = self.appender.sync_job();
        let began = self.srv.watch_latency();
        let came = job.run();
        self.sample("aof-fsync-always", began);
        self.appender.synced(&job, &came);
        if let Err(e) = came {
            log_warning!(
                "Can't persist AOF for fsync error when the AOF fsync policy is 'always': {e}. \
                 Exiting..."
            );
            std::process::exit(1);
        }
    }

    fn sync_elsewhere(&mut self) {
        let job = self.appender.sync_job();
        let now = Instant::now();
        (self.syncing, self.last_sync, self.is_delay_told) = (Some(now), now, false);
        self.srv.aof.status.syncing.store(true, Ordering::Relaxed);
        // The thread lives as long as this one.
        let _ = self.syncer.send(job);
    }

    fn synced(&mut self, job: &SyncJob, came: &io::Result<()>) {
        if let Some(since) = self.syncing.take() {
            self.sample("aof-fsync", Some(since));
        }
        self.srv.aof.status.syncing.store(false, Ordering::Relaxed);
        self.appender.synced(job, came);
        if let Err(e) = came {
            self.failed("Fail to fsync the AOF file", e);
            log_warning!(
                "What was written before may not be on the disk: the AOF is rewritten before \
                 anything else is accepted."
            );
        }
    }

    /// Lets answers go as far as they may.
    fn let_go(&self) {
        let aof = &self.srv.aof;
        aof.durable.store(self.appender.durable(), Ordering::SeqCst);
        aof.end_waits(self.srv);
        let upto = match self.policy.sync {
            Sync::Always if self.policy.pauses && self.is_rewriting() => self.appender.written(),
            Sync::Always => self.appender.synced_upto(),
            Sync::EverySecond | Sync::Never => {
                let waits = self.log.log().pending_bytes() + self.appender.buffered() as u64;
                let crowded = aof.answerable() != u64::MAX;
                if crowded && waits > super::CROWDED / 2 {
                    self.appender.written()
                } else {
                    u64::MAX
                }
            }
        };
        aof.let_go(self.srv, upto);
    }

    /// Removes what is superfluous, and begins a rewrite where one is due.
    fn see_to_files(&mut self) {
        if !self.removing
            && !self.policy.keeps_files
            && let Some(removal) = self.appender.removal()
        {
            for name in removal.names() {
                log_notice!("Removing the history file {name} in the background");
            }
            self.removing = true;
            let srv = self.srv;
            let thread = std::thread::Builder::new().name("weft-aof-remove".into());
            let spawned = thread.spawn(move || {
                crate::threads::bind_to(&srv.placement().bio);
                srv.aof.order(Order::Removed(removal.run()));
            });
            self.removing = spawned.is_ok();
        }
        if !self.is_rewriting() {
            self.rewrite_if_due();
        }
    }

    fn rewrite_if_due(&mut self) {
        let (size, base) = self.appender.sizes();
        let needed = self.appender.waits_for_base() || self.appender.is_doubtful();
        let growth = self.policy.growth(size, base);
        let now = self.srv.now_ms() / 1000;
        let is_due = needed || growth.is_some();
        if !is_due || now < self.next_attempt_s || self.srv.persistence.is_ending() {
            return;
        }
        match self.retry.ask(now) {
            Permission::Now => {
                if let Some(growth) = growth {
                    log_notice!("Starting automatic rewriting of AOF on {growth}% growth");
                }
                // One attempt in a second, if it fails at once.
                self.next_attempt_s = now + 1;
                if rewrite::begin(self.srv, false).is_err() {
                    self.rewritten(false);
                }
            }
            Permission::At(until) => self.next_attempt_s = until,
            Permission::Paused { minutes, until } => {
                self.next_attempt_s = until;
                log_warning!(
                    "Background AOF rewrite has repeatedly failed and triggered the limit, will \
                     retry in {minutes} minutes"
                );
            }
        }
    }

    /// A rewrite has ended.
    fn rewritten(&mut self, well: bool) {
        if well {
            self.retry.succeeded();
            if self.is_failing && !self.appender.is_doubtful() && self.appender.write().is_ok() {
                self.recovered();
            }
        } else {
            self.retry.failed();
        }
        let failures = u64::from(self.retry.failures());
        self.srv.aof.status.failures.store(failures, Ordering::Relaxed);
    }

    fn sample(&self, event: &str, began: Option<Instant>) {
        self.srv.sample_latency(event, began);
    }

    fn tell(&self) {
        let status = &self.srv.aof.status;
        let (size, base) = self.appender.sizes();
        status.size.store(size, Ordering::Relaxed);
        status.base_size.store(base, Ordering::Relaxed);
        status.buffer.store(self.appender.buffered() as u64, Ordering::Relaxed);
    }

    /// How long nothing has to be done unless somebody comes.
    fn until_due(&self) -> Option<Duration> {
        if self.is_failing || self.appender.buffered() > 0 {
            return Some(TRY_AGAIN);
        }
        let wants = self.policy.sync == Sync::EverySecond && self.appender.wants_sync();
        let sync = wants.then(|| SECOND.saturating_sub(self.last_sync.elapsed()));
        let needs = self.appender.waits_for_base() && !self.is_rewriting();
        let rewrite = needs.then_some(SECOND);
        // A sync that takes long is looked at every second.
        let sync = sync.map(|time| if self.syncing.is_some() { SECOND } else { time });
        sync.into_iter().chain(rewrite).min()
    }
}

fn rotate(appender: &mut Appender) -> Result<(), String> {
    appender.rotate().map_err(|e| e.to_string())?;
    log_notice!("Creating AOF incr file {} on background rewrite", appender.file_name());
    Ok(())
}

/// An entry of the log, as the file wants it.
struct Logged<'a>(Entry<'a>);

impl aof::Command for Logged<'_> {
    fn db(&self) -> usize {
        self.0.db()
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        self.0.append_to(out);
    }
}

/// The thread that syncs beside the one that writes. It ends when nobody can send any more.
pub fn run_syncer(srv: &'static Server, jobs: &Receiver<SyncJob>, done: &Sender<Order>) {
    crate::threads::bind_to(&srv.placement().bio);
    while let Ok(job) = jobs.recv() {
        let came = job.run();
        if done.send(Order::Synced(job, came)).is_err() {
            return;
        }
        srv.aof.order(Order::Look);
    }
}

/// A channel of orders.
pub fn orders() -> (Sender<Order>, Receiver<Order>) {
    channel()
}

/// The writer's name for itself, for who wakes it.
pub type Seat = Arc<std::sync::OnceLock<std::thread::Thread>>;
