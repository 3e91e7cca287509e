//! The thread that writes the append-only file: it takes units out of the log, writes them, has
//! them synced according to the policy, and releases replies.
//!
//! One group commit serves all threads: units that arrive during a sync are written and synced by
//! the next one. Under `everysec`, a second thread syncs, and this one continues to write.
//!
//! Failed writes are retried; until one succeeds, write commands are refused (MISCONF). Under
//! `always`, the server stops, since it could not reply to any write.

use crate::aof::gather::{Gathering, unhurried};
use crate::aof::lifecycle::{Files, Lifecycle};
use crate::aof::mark::Marking;
use crate::aof::order::Order;
use crate::aof::rewrite;
use crate::aof::rewrite::Refusal;
use crate::aof::{Handle, aof};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use weft_keyspace::ReaderId;
use weft_keyspace::log::{LogReader, Target, Unit};
use weft_memory::ThreadMemory;
use weft_persist::aof::{self, Appender, Permission, Retry, SyncJob};
use weft_process::{log_notice, log_warning};
use weft_state::answers::{Bound, NONE};
use weft_state::aof_policy::{Policy, Sync};
use weft_state::attention;
use weft_state::logged::with_commands;
use weft_state::server::Server;

/// Bytes taken before they are written.
const AT_ONCE: usize = 4 << 20;
/// The delay before a failed write is retried.
const TRY_AGAIN: Duration = Duration::from_millis(100);
/// The delay before the removal of files is retried.
const REST: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// The minimum time between two records of the data's replication position.
const BETWEEN_PLACES: Duration = Duration::from_millis(100);

/// See the module.
pub struct Writer {
    srv: &'static Server,
    log: LogReader,
    /// The log's number, as in `Cut`.
    number: u64,
    appender: Appender,
    orders: Receiver<Order>,
    policy: Policy,
    settings_version: u64,
    sync: BackgroundSync,
    gathering: Gathering,
    /// A rewrite waits for the new file after that unit.
    rotating: Option<(u64, SyncSender<Result<(), String>>)>,
    place: RecordedPlace,
    removal: Removals,
    rewrites: Rewrites,
    marking: Marking,
}

/// Syncs on the syncing thread.
struct BackgroundSync {
    thread: Sender<SyncJob>,
    /// When the running one began.
    running: Option<Instant>,
    /// When the last one began.
    last: Instant,
    is_delay_told: bool,
}

/// The last recorded position of the data in the replication history.
struct RecordedPlace {
    last: Option<aof::Position>,
    /// The next position is not recorded before this time.
    from: Instant,
}

impl RecordedPlace {
    /// The position recorded in an old file does not apply to a new one.
    fn begin_file(&mut self) {
        *self = RecordedPlace { last: None, from: Instant::now() };
    }
}

/// Removals of superfluous files on a thread of their own.
struct Removals {
    is_running: bool,
    /// The number of files that the last one covers.
    attempted: usize,
    /// When to look for superfluous files again.
    from: Instant,
}

/// When automatic rewrites begin.
#[derive(Default)]
struct Rewrites {
    retry: Retry,
    /// The Unix second before which none begins.
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
        let mut appender = appender;
        // A failure is no error at the start: only existing zeros are ever cut off.
        let _ = appender.write_ahead(settings.persistence.aof.ahead());
        Writer {
            srv,
            log,
            number: aof(srv).lifecycle().number(),
            appender,
            orders,
            policy: settings.persistence.aof,
            settings_version: settings.version,
            sync: BackgroundSync {
                thread: syncer,
                running: None,
                last: Instant::now(),
                is_delay_told: false,
            },
            gathering: Gathering::default(),
            rotating: None,
            place: RecordedPlace { last: None, from: Instant::now() },
            removal: Removals { is_running: false, attempted: 0, from: Instant::now() },
            rewrites: Rewrites::default(),
            marking: Marking::default(),
        }
    }

    /// Runs until it gets [`Order::End`].
    pub fn run(mut self) {
        let srv = self.srv;
        // This thread frees memory that the executing threads have allocated.
        let mut memory = ThreadMemory::new();
        loop {
            memory.publish(&srv.memory);
            self.renew_policy();
            while let Ok(order) = self.orders.try_recv() {
                if let Some(ended) = self.obey(order) {
                    srv.links.answers.set(&srv.threads, Bound::Disk, NONE);
                    drop(self);
                    memory.publish(&srv.memory);
                    let _ = ended.send(());
                    return;
                }
            }
            if self.gathers() {
                continue;
            }
            let has_more = self.take();
            let is_new = self.appender.buffered() > 0 && !self.is_failing();
            self.write();
            self.rotate_if_due();
            self.sync_if_due();
            self.renew_mark();
            self.see_to_doubt("a sync has failed");
            self.see_to_files();
            self.tell();
            memory.publish_if_large(&srv.memory);
            if !has_more
                && is_new
                && let Some(time) = unhurried(self.policy.sync)
            {
                // Only an order wakes the thread during this time.
                std::thread::park_timeout(time);
            } else if self.is_failing() {
                std::thread::park_timeout(TRY_AGAIN);
            } else if !has_more && self.log.may_sleep() {
                match self.until_due() {
                    Some(time) => std::thread::park_timeout(time),
                    None => std::thread::park(),
                }
            }
        }
    }

    fn renew_mark(&mut self) {
        let aof = aof(self.srv);
        let is_alone = aof.locks.are_real();
        let Writer { policy, log, appender, marking, .. } = self;
        marking.renew(&aof.mark, policy, is_alone, log, appender);
    }

    fn renew_policy(&mut self) {
        if self.srv.configuration.version() != self.settings_version {
            let settings = self.srv.settings();
            self.settings_version = settings.version;
            self.appender.annotate(settings.persistence.aof.annotations);
            let removed = self.marking.change_policy(&settings.persistence.aof, &mut self.appender);
            expect_no_mark(removed);
            self.policy = settings.persistence.aof;
            if let Err(e) = self.appender.write_ahead(self.policy.ahead()) {
                log_warning!("Zeros at the end of the AOF can't be cut off: {e}");
            }
        }
    }

    /// Waits a little for further units that the next sync can serve. Returns whether it has
    /// waited.
    fn gathers(&mut self) -> bool {
        let drawn = self.log.last();
        if self.policy.sync != Sync::Always || drawn == self.log.position() {
            return false;
        }
        let Some(time) = self.gathering.time_left(drawn, Instant::now()) else { return false };
        self.log.wants_more();
        // Their threads drew the units before `wants_more`, or will wake this thread.
        if self.log.last() == drawn {
            std::thread::park_timeout(time);
        }
        true
    }

    /// Executes an order. Returns the channel for the reply if it was the last one.
    fn obey(&mut self, order: Order) -> Option<SyncSender<()>> {
        match order {
            Order::Synced(job, came) => self.synced(&job, &came),
            Order::Removed(gone) => {
                self.removal.is_running = false;
                // A rewrite may have ended meanwhile, and its superfluous files should not wait.
                let all = gone.len() == self.removal.attempted;
                let is_noted = self.appender.removed(&gone).map_err(|e| {
                    log_warning!("The AOF manifest still names files that were removed: {e}");
                });
                let is_done = all && is_noted.is_ok();
                self.removal.from = Instant::now() + if is_done { Duration::ZERO } else { REST };
            }
            // A cut of an earlier log does not apply to this one.
            Order::Rotate { cut, done } if cut.log != self.number => drop(done.send(ended())),
            Order::Rotate { cut, done } => self.rotating = Some((cut.unit, done)),
            Order::Rebase { cut, base, done } if cut.log != self.number => {
                self.appender.discard(base.ok().map(|base| base.name).as_deref());
                let _ = done.send(ended());
            }
            Order::Rebase { base, done, .. } => {
                let came = base.and_then(|base| {
                    let began = self.srv.statistics.latency.begin();
                    let came = self.appender.rebase(&base.name, base.snapshot);
                    self.sample("aof-rename", began);
                    came.map_err(|e| crate::aof::base::told(&e))
                });
                if came.is_ok() {
                    self.lifecycle().rebased(files(&self.appender));
                    self.rewritten(true);
                }
                let _ = done.send(came);
            }
            Order::Failed(done) => {
                self.rewritten(false);
                let _ = done.send(());
            }
            Order::Unmark(done) => {
                expect_no_mark(self.marking.end(&mut self.appender));
                let _ = done.send(());
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

    /// Writes and syncs all logged units, as far as possible.
    fn write_all(&mut self) {
        let upto = self.log.last();
        while self.log.position() < upto {
            if !self.take() && self.log.position() < upto {
                // The unit has its number, and will be in the log in a moment.
                std::thread::yield_now();
            }
            self.write();
            self.rotate_if_due();
            if self.is_failing() {
                break;
            }
        }
        self.place.from = Instant::now();
        self.note_place();
        if let Err(e) = self.appender.write_and_trim() {
            log_warning!("The end of the AOF could not be written: {e}");
        }
        let job = self.appender.sync_job();
        let came = job.run();
        self.appender.synced(&job, &came);
        if let Err(e) = came {
            if self.policy.sync == Sync::Always {
                end_for_sync(&e.to_string());
            }
            log_warning!("Fail to fsync the AOF file: {e}");
        }
        self.let_go();
    }

    /// Handles a failed sync that was part of another operation, like any other failed sync.
    fn see_to_doubt(&self, why: &str) {
        if !self.appender.is_doubtful() || self.is_failing() {
            return;
        }
        match self.policy.sync {
            Sync::Always => end_for_sync(why),
            Sync::EverySecond | Sync::Never => self.doubts(why.into()),
        }
    }

    /// Handles that written data may not be on disk, and that no later sync can ensure it.
    fn doubts(&self, why: String) {
        let text = why.clone();
        let is_first = self.lifecycle().sync_failed(why);
        self.failed("Fail to fsync the AOF file", &text, is_first);
        log_warning!(
            "Earlier writes may not be on the disk: the AOF is rewritten before any write \
             is accepted."
        );
    }

    /// Takes units out of the log. Returns whether there may be more.
    fn take(&mut self) -> bool {
        let cut = &aof(self.srv).progress.cut;
        let is_failing = self.is_failing();
        let mut failure = None;
        // At this position, the data's place in the replication history can be recorded.
        let position = self.log.position();
        let is_time = Instant::now() >= self.place.from;
        let placed = is_time
            .then(|| self.srv.links.replicator.last_known_position_above(position))
            .flatten();
        let mut has_more = false;
        // Units that can't be written stay in the log.
        while !(is_failing && self.appender.buffered() >= AT_ONCE)
            && let Some(unit) = self.log.next()
        {
            let number = unit.number();
            // The cut is stored while the world is stopped, so a thread that sees a later unit also
            // sees it.
            let last = cut.load(Ordering::Relaxed);
            if number > last {
                failure = rotate(self.srv, &mut self.appender, last).or(failure);
                self.place.begin_file();
            }
            append(&mut self.appender, &unit);
            if self.appender.buffered() >= AT_ONCE || placed == Some(number) {
                has_more = true;
                break;
            }
        }
        if !has_more {
            self.appender.skip_upto(self.log.position());
        }
        if let Some(why) = failure {
            self.see_to_doubt(&why);
        }
        self.note_place();
        has_more
    }

    /// Records the data's position in the replication history, if it is known for the last unit.
    fn note_place(&mut self) {
        if Instant::now() < self.place.from {
            return;
        }
        let place = self.srv.links.replicator.position_after(self.log.position());
        if place.is_some() && place != self.place.last {
            self.place.last = place;
            self.place.from = Instant::now() + BETWEEN_PLACES;
            place.iter().for_each(|place| self.appender.position(place));
        }
    }

    /// Creates the new file if it is due, even though no unit for it has arrived.
    fn rotate_if_due(&mut self) {
        let wanted = self.rotating.as_ref().map(|(unit, _)| *unit);
        let is_made = wanted.is_some_and(|unit| self.lifecycle().is_rotated(unit));
        if let Some(unit) = wanted.filter(|unit| !is_made && self.log.position() == *unit) {
            let failure = rotate(self.srv, &mut self.appender, unit);
            self.place.begin_file();
            if let Some(why) = failure {
                self.see_to_doubt(&why);
            }
        }
        self.see_to_doubt("a sync has failed");
        if self.is_stuck()
            && let Some((_, done)) = self.rotating.take_if(|(unit, _)| self.log.position() < *unit)
        {
            let _ = done.send(Err("the append-only file can't be written".into()));
        }
        if let Some((unit, done)) = self.rotating.take_if(|(unit, _)| self.log.position() >= *unit)
        {
            let made = self.lifecycle().take_rotated(unit);
            // The result must exist: the cut was stored before any unit followed it.
            let came = made.unwrap_or_else(|| Err("the cut was skipped".into()));
            let _ = done.send(came);
        }
    }

    /// Whether no more units are taken out of the log until the disk accepts the units taken
    /// before. A caller that waits for a later unit might then wait forever. A rewrite that repairs
    /// a doubtful file must continue.
    fn is_stuck(&self) -> bool {
        self.is_failing() && self.appender.buffered() >= AT_ONCE && !self.appender.is_doubtful()
    }

    fn write(&mut self) {
        if self.appender.buffered() == 0 && !self.is_failing() {
            return;
        }
        let began = self.srv.statistics.latency.begin();
        // DEBUG AOF-FLUSH-SLEEP simulates a slow disk.
        match aof(self.srv).status.flush_sleep_us.load(Ordering::Relaxed) {
            0 => {}
            us => std::thread::sleep(Duration::from_micros(us)),
        }
        match self.appender.write() {
            Ok(()) => {
                self.sample("aof-write", began);
                let by = if self.sync.running.is_some() {
                    "aof-write-pending-fsync"
                } else if self.is_rewriting() {
                    "aof-write-active-child"
                } else {
                    "aof-write-alone"
                };
                self.sample(by, began);
                self.recover();
            }
            Err(e) if self.policy.sync == Sync::Always => {
                log_warning!(
                    "Can't recover from AOF write error when the AOF fsync policy is 'always'. \
                     Exiting... ({e})"
                );
                weft_process::pidfile::remove_held();
                std::process::exit(1);
            }
            Err(e) => {
                let text = crate::aof::base::told(&e);
                let is_first = self.lifecycle().write_failed(text.clone());
                self.failed("Error writing to the AOF file", &text, is_first);
            }
        }
        aof(self.srv).progress.written.store(self.appender.written(), Ordering::SeqCst);
    }

    fn lifecycle(&self) -> MutexGuard<'static, Lifecycle<ReaderId, Handle>> {
        aof(self.srv).lifecycle()
    }

    /// Whether writing or syncing has failed.
    fn is_failing(&self) -> bool {
        self.lifecycle().error().is_some()
    }

    /// Handles a failure that the state machine has recorded.
    fn failed(&self, what: &str, text: &str, is_first: bool) {
        if is_first {
            log_warning!("{what}: {text}");
        }
        self.srv.set_attention(attention::AOF_FAILING, true);
    }

    /// Handles a write that has succeeded.
    fn recover(&self) {
        if self.appender.is_doubtful() || !self.lifecycle().recovered() {
            return;
        }
        self.srv.set_attention(attention::AOF_FAILING, false);
        log_warning!("AOF write error looks solved. The server can write again.");
    }

    fn is_rewriting(&self) -> bool {
        self.lifecycle().is_rewriting()
    }

    fn sync_if_due(&mut self) {
        let pauses = self.policy.pauses && self.is_rewriting();
        match self.policy.sync {
            // Wait for a sync that began under another policy: it may cover this file.
            Sync::Always if self.sync.running.is_none() && !pauses => self.sync_now(),
            Sync::EverySecond if self.appender.wants_sync() && !pauses => match self.sync.running {
                None if self.sync.last.elapsed() >= SECOND => self.sync_elsewhere(),
                None => {}
                Some(since) if since.elapsed() >= 2 * SECOND && !self.sync.is_delay_told => {
                    self.sync.is_delay_told = true;
                    aof(self.srv).status.delayed_syncs.fetch_add(1, Ordering::Relaxed);
                    log_notice!(
                        "Asynchronous AOF fsync is taking too long (disk is busy?). Writing \
                             the AOF buffer without waiting for fsync to complete."
                    );
                }
                Some(_) => {}
            },
            // Files that a rewrite has replaced are not removed before the new manifest is on disk.
            Sync::Never if self.appender.has_unsafe_names() && self.sync.running.is_none() => {
                self.sync_elsewhere();
            }
            Sync::Always | Sync::EverySecond | Sync::Never => {}
        }
        self.let_go();
    }

    fn sync_now(&mut self) {
        if !self.appender.wants_sync() {
            return;
        }
        let job = self.appender.sync_job();
        let (began, watched) = (Instant::now(), self.srv.statistics.latency.begin());
        let came = job.run();
        self.sample("aof-fsync-always", watched);
        self.appender.synced(&job, &came);
        let (synced, drawn) = (self.appender.written(), self.log.last());
        self.gathering.after_sync(began, Instant::now(), synced, drawn);
        if let Err(e) = came {
            end_for_sync(&e.to_string());
        }
    }

    fn sync_elsewhere(&mut self) {
        let job = self.appender.sync_job();
        let now = Instant::now();
        (self.sync.running, self.sync.last, self.sync.is_delay_told) = (Some(now), now, false);
        self.lifecycle().set_syncing(true);
        // The syncing thread lives as long as this one.
        let _ = self.sync.thread.send(job);
    }

    fn synced(&mut self, job: &SyncJob, came: &io::Result<()>) {
        if let Some(since) = self.sync.running.take() {
            self.sample("aof-fsync", Some(since));
        }
        self.lifecycle().set_syncing(false);
        self.appender.synced(job, came);
        if let Err(e) = came {
            self.doubts(crate::aof::base::told(e));
        }
    }

    /// Releases replies as far as the policy allows.
    fn let_go(&self) {
        let aof = aof(self.srv);
        aof.progress.durable.store(self.appender.durable(), Ordering::SeqCst);
        aof.end_waits(self.srv);
        let upto = match self.policy.sync {
            Sync::Always if self.policy.pauses && self.is_rewriting() => self.appender.written(),
            Sync::Always => self.appender.synced_upto(),
            Sync::EverySecond | Sync::Never => {
                let waits = self.log.pending_bytes() + self.appender.buffered() as u64;
                let crowded = self.srv.links.answers.bound(Bound::Disk) != NONE;
                match crowded && waits > crate::aof::CROWDED / 2 {
                    true => self.appender.written(),
                    false => NONE,
                }
            }
        };
        self.srv.links.answers.set(&self.srv.threads, Bound::Disk, upto);
    }

    /// Removes superfluous files, and begins a rewrite if one is due.
    fn see_to_files(&mut self) {
        if !self.removal.is_running
            && !self.policy.keeps_files
            && Instant::now() >= self.removal.from
            && let Some(removal) = self.appender.removal()
        {
            for name in removal.names() {
                log_notice!("Removing the history file {name} in the background");
            }
            (self.removal.is_running, self.removal.attempted) = (true, removal.names().count());
            let srv = self.srv;
            let thread = std::thread::Builder::new().name("weft-aof-remove".into());
            let spawned = thread.spawn(move || {
                weft_scheduler::placement::bind_to(&srv.placement().bio);
                aof(srv).order(Order::Removed(removal.run()));
            });
            if spawned.is_err() {
                (self.removal.is_running, self.removal.from) = (false, Instant::now() + REST);
            }
        }
        if !self.is_rewriting() {
            self.rewrite_if_due();
        }
    }

    fn rewrite_if_due(&mut self) {
        let (size, base) = self.appender.sizes();
        let needed = self.appender.waits_for_base() || self.appender.is_doubtful();
        // Growth does not count while the files have more data than the keyspace.
        let growth = self.policy.growth(size, base).filter(|_| !aof(self.srv).is_of_gone_data());
        let now = self.srv.now_ms() / 1000;
        let is_ending = self.srv.persistence.is_ending();
        if !(needed || growth.is_some()) || now < self.rewrites.next_attempt_s || is_ending {
            return;
        }
        match self.permission(now) {
            Permission::Now => {
                if let Some(growth) = growth {
                    log_notice!("Starting automatic rewriting of AOF on {growth}% growth");
                }
                // At most one attempt in a second, if it fails at once.
                self.rewrites.next_attempt_s = self.rewrites.next_attempt_s.max(now + 1);
                match rewrite::begin(self.srv, false) {
                    // Another caller has begun a rewrite, or the server is stopping.
                    Ok(_) | Err(Refusal::Busy) => {}
                    Err(Refusal::Failed) => self.rewritten(false),
                }
            }
            Permission::At(until) => self.rewrites.next_attempt_s = until,
            Permission::Paused { minutes, until } => {
                self.rewrites.next_attempt_s = until;
                log_warning!(
                    "Background AOF rewrite has repeatedly failed and triggered the limit, will \
                     retry in {minutes} minutes"
                );
            }
        }
    }

    /// Whether to rewrite now. While writes are refused until a rewrite succeeds, the retry delay
    /// stays at a few seconds: the disk may work again.
    fn permission(&mut self, now: i64) -> Permission {
        const WHILE_REFUSING_S: i64 = 5;
        if !self.appender.is_doubtful() {
            return self.rewrites.retry.ask(now);
        }
        self.rewrites.next_attempt_s =
            now + WHILE_REFUSING_S.min(i64::from(self.rewrites.retry.failures()));
        Permission::Now
    }

    /// Handles the end of a rewrite.
    fn rewritten(&mut self, well: bool) {
        if well {
            self.rewrites.retry.succeeded();
            if self.is_failing() && !self.appender.is_doubtful() && self.appender.write().is_ok() {
                self.recover();
            }
        } else {
            self.rewrites.retry.failed();
        }
        let failures = u64::from(self.rewrites.retry.failures());
        aof(self.srv).status.failures.store(failures, Ordering::Relaxed);
    }

    fn sample(&self, event: &str, began: Option<Instant>) {
        self.srv.sample_latency(event, began);
    }

    fn tell(&self) {
        let status = &aof(self.srv).status;
        let (size, base) = self.appender.sizes();
        status.size.store(size, Ordering::Relaxed);
        status.base_size.store(base, Ordering::Relaxed);
        status.buffer.store(self.appender.buffered() as u64, Ordering::Relaxed);
    }

    /// How long the thread may sleep unless it is woken.
    fn until_due(&self) -> Option<Duration> {
        if self.appender.buffered() > 0 {
            return Some(TRY_AGAIN);
        }
        // If syncs are paused by a rewrite, its end wakes the thread.
        let pauses = self.policy.pauses && self.is_rewriting();
        let wants = self.policy.sync == Sync::EverySecond && self.appender.wants_sync() && !pauses;
        let sync = wants.then(|| SECOND.saturating_sub(self.sync.last.elapsed()));
        let needs = self.appender.waits_for_base() && !self.is_rewriting();
        let rewrite = needs.then_some(SECOND);
        let removes =
            !self.removal.is_running && !self.policy.keeps_files && self.appender.has_superfluous();
        let removal = removes.then(|| self.removal.from.saturating_duration_since(Instant::now()));
        // A sync that takes long is checked every second.
        let sync = sync.map(|time| if self.sync.running.is_some() { SECOND } else { time });
        let place_from = self.place.from.checked_duration_since(Instant::now());
        let place = place_from
            .filter(|_| self.srv.links.replicator.has_position_after(self.log.position()));
        sync.into_iter().chain(rewrite).chain(place).chain(removal).min()
    }
}

/// Stops the server: under `always`, it could not reply to any write.
fn end_for_sync(why: &str) -> ! {
    end_for(&format!(
        "Can't persist AOF for fsync error when the AOF fsync policy is 'always': {why}. Exiting..."
    ))
}

/// Stops the server if the mark in the manifest could not be removed: it would be wrong from here on.
fn expect_no_mark(removed: io::Result<()>) {
    if let Err(e) = removed {
        end_for(&format!(
            "Can't remove the mark of this node from the AOF manifest: {e}. Exiting..."
        ));
    }
}

/// Stops the server.
fn end_for(why: &str) -> ! {
    log_warning!("{why}");
    weft_process::pidfile::remove_held();
    std::process::exit(1);
}

/// The error for a rewrite whose log has ended.
fn ended() -> Result<(), String> {
    Err("the append-only file was turned off".into())
}

/// Clears the cut after that unit, unless a new cut was made since.
fn forget(cut: &AtomicU64, unit: u64) {
    let _ = cut.compare_exchange(unit, u64::MAX, Ordering::Relaxed, Ordering::Relaxed);
}

/// Creates the file for units after `unit`. Returns the reason for a failure.
fn rotate(srv: &Server, appender: &mut Appender, unit: u64) -> Option<String> {
    let came = appender.rotate().map_err(|e| crate::aof::base::told(&e));
    if came.is_ok() {
        log_notice!("Creating AOF incr file {} on background rewrite", appender.file_name());
    }
    let failure = came.clone().err();
    aof(srv).lifecycle().rotated(unit, came, files(appender));
    forget(&aof(srv).progress.cut, unit);
    failure
}

/// The state of the files of an appender.
pub fn files(appender: &Appender) -> Files {
    if appender.waits_for_base() { Files::AwaitBase } else { Files::Complete }
}

/// Appends a unit's entries that belong into the file.
#[inline]
fn append(appender: &mut Appender, unit: &Unit<'_>) {
    let (number, ms) = (unit.number(), unit.ms());
    with_commands(unit, Target::AOF, |commands| match commands {
        [] => appender.skip_upto(number),
        [_, ..] => appender.unit(number, ms, commands),
    });
}

/// Runs the syncing thread. It ends when all senders are gone.
pub fn run_syncer(srv: &'static Server, jobs: &Receiver<SyncJob>, done: &Sender<Order>) {
    weft_scheduler::placement::bind_to(&srv.placement().bio);
    while let Ok(job) = jobs.recv() {
        let came = job.run();
        if done.send(Order::Synced(job, came)).is_err() {
            return;
        }
        aof(srv).order(Order::Look);
    }
}

/// A channel of orders.
pub fn orders() -> (Sender<Order>, Receiver<Order>) {
    channel()
}

/// The handle of the writing thread, set after it starts, for threads that wake it.
pub type Seat = Arc<std::sync::OnceLock<std::thread::Thread>>;
