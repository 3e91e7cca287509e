//! Tests writing and loading on a disk that fails and loses writes: random histories by seed.
//!
//! Like a server, a run feeds units, writes, syncs (also while it writes more), rewrites and
//! removes. At some step the power fails, the process is killed, or calls fail now and then. The
//! data loaded afterwards must be a prefix of the units, complete, and include every unit reported
//! as durable. Then the run continues from there.
//!
//! With zeros written ahead the test is stricter. Single pages of a file are lost even if its
//! length is durable, and the loader must distinguish the rest from damage, so a server starts
//! without repair.

use super::load::{EndPolicy, Rest, Sink, load};
use super::manifest::Role;
use super::{Ahead, Annotations, Appender, Directory, Position, SyncJob};
use crate::storage::{Output, Storage};
use std::collections::BTreeSet;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use weft_testkit::disk::{SimDisk, SimFile};
use weft_testkit::rng::Rng;

impl Output for SimFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        SimFile::write(self, bytes)
    }

    fn write_zeros(&self, at: u64, n: usize) -> io::Result<usize> {
        SimFile::write_zeros(self, at, n)
    }

    fn sync(&self) -> io::Result<()> {
        SimFile::sync(self)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        SimFile::truncate(self, length)
    }
}

impl Storage for SimDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        SimDisk::create_dir(self, dir)
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn Output>> {
        Ok(Arc::new(self.open(path, false)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn Output>> {
        Ok(Arc::new(self.open(path, true)?))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(Cursor::new(SimDisk::read(self, path)?)))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        SimDisk::length(self, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SimDisk::rename(self, from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SimDisk::remove(self, path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        SimDisk::list(self, dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        SimDisk::sync_dir(self, dir)
    }
}

const ROOT: &str = "data";
/// The file into which a base is written.
const BASE: &str = "temp-base";
const LENIENT: EndPolicy =
    EndPolicy { truncated: true, corrupt: u64::MAX, checks: true, cuts: true };
/// The default configuration.
const USUAL: EndPolicy = EndPolicy { truncated: true, corrupt: 0, checks: true, cuts: true };
/// A configuration that refuses any torn end.
const STRICT: EndPolicy = EndPolicy { truncated: false, corrupt: 0, checks: true, cuts: true };
/// Short chunks, because the pages of the simulated disk are short.
const AHEAD: Ahead = Ahead { least: 512, most: 2048 };

/// A planted fault, which the test must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// Written units are reported as durable before they are synced.
    EarlyPromise,
    /// Batches claim a durable length that is too large.
    EarlySafe,
    /// Obsolete zeros are not truncated.
    ZerosLeft,
}

fn directory(disk: &SimDisk) -> Directory {
    Directory::new(Arc::new(disk.clone()), Path::new(ROOT), "dir", "log")
}

/// The commands of unit `number`: one or three.
fn commands(number: u64) -> Vec<(usize, Vec<u8>)> {
    let count = if number.is_multiple_of(3) { 3 } else { 1 };
    let command = |nth: u64| {
        let value = vec![b'a' + (number % 26) as u8; (number % 40 * 7) as usize];
        let head = format!("*4\r\n$4\r\nUNIT\r\n$6\r\n{number:06}\r\n$1\r\n{nth}\r\n");
        let mut bytes = format!("{head}${}\r\n", value.len()).into_bytes();
        bytes.extend(value);
        bytes.extend(b"\r\n");
        ((number % 4) as usize, bytes)
    };
    (0..count).map(command).collect()
}

/// The loaded data: all units up to this number.
#[derive(Default)]
struct Loaded {
    upto: u64,
    /// The files end with a position.
    has_position: bool,
    open: Option<Vec<Vec<u8>>>,
    current: Vec<Vec<u8>>,
}

impl Loaded {
    fn take(&mut self, commands: Vec<Vec<u8>>) {
        self.current.extend(commands);
        let wanted = self::commands(self.upto + 1);
        assert_eq!(self.current, wanted.iter().map(|(_, c)| c.clone()).collect::<Vec<_>>());
        self.current.clear();
        self.upto += 1;
    }
}

impl Sink for Loaded {
    fn snapshot(&mut self, mut input: Box<dyn Read + Send>) -> Result<Rest, String> {
        let mut head = [0; 13];
        input.read_exact(&mut head).map_err(|e| e.to_string())?;
        self.upto = u64::from_le_bytes(head[5..].try_into().expect("eight bytes"));
        Ok(Rest { taken: 13, input })
    }

    fn settle(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn command(&mut self, args: &mut dyn ExactSizeIterator<Item = &[u8]>) -> Result<(), String> {
        let args: Vec<&[u8]> = args.collect();
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in &args {
            bytes.extend(format!("${}\r\n", arg.len()).bytes());
            bytes.extend(*arg);
            bytes.extend(b"\r\n");
        }
        match args[0] {
            b"MULTI" => self.open = Some(Vec::new()),
            b"EXEC" => {
                let whole = self.open.take().expect("a transaction is open");
                self.take(whole);
            }
            b"SELECT" => {}
            b"BASE" => {
                self.upto = std::str::from_utf8(args[1]).unwrap().parse().unwrap();
            }
            b"UNIT" => match &mut self.open {
                Some(open) => open.push(bytes),
                None => self.take(vec![bytes]),
            },
            other => panic!("no unit has {}", other.escape_ascii()),
        }
        Ok(())
    }

    fn end_file(&mut self, _role: Role, _name: &str) -> Result<(), String> {
        self.open = None;
        Ok(())
    }

    fn progress(&mut self, _bytes: u64) {}

    fn note(&mut self, _line: String) {}

    fn warn(&mut self, _line: String) {}
}

/// The base of all units up to `cut`.
fn base(cut: u64, snapshot: bool) -> Vec<u8> {
    match snapshot {
        true => [b"REDIS", &cut.to_le_bytes()[..]].concat(),
        false => format!("*2\r\n$4\r\nBASE\r\n$6\r\n{cut:06}\r\n").into_bytes(),
    }
}

fn put_base(disk: &SimDisk, cut: u64, snapshot: bool) -> io::Result<()> {
    let file = Storage::create(disk, &Path::new(ROOT).join("dir").join(BASE))?;
    file.write_all(&base(cut, snapshot))?;
    Output::sync(&*file)
}

/// The parts of a server that use the log.
struct Server {
    disk: SimDisk,
    rng: Rng,
    log: Appender,
    fed: u64,
    /// The greatest number reported as durable.
    promised: u64,
    /// A sync in progress.
    job: Option<SyncJob>,
    /// A rewrite in progress: its cut, and whether its base is a snapshot.
    rewrite: Option<(u64, bool)>,
    always: bool,
    /// Zeros are written ahead of all units after `ahead_after`; `over_zeros` has the files in
    /// which some of those units were synced.
    ahead: bool,
    ahead_after: u64,
    over_zeros: BTreeSet<String>,
    planted: Planted,
}

impl Server {
    /// Loads the data on the disk and starts a server with it.
    fn start(disk: SimDisk, rng: Rng, loaded: &Loaded, planted: Planted) -> io::Result<Server> {
        let mut rng = rng;
        let dir = directory(&disk);
        let notes = Annotations { timestamps: rng.percent(50), checksums: true };
        let manifest = dir.manifest().map_err(|e| io::Error::other(e.to_string()))?;
        let mut log = if manifest.is_empty() {
            dir.create()?;
            put_base(&disk, 0, true)?;
            Appender::create(dir, manifest, notes, BASE, true)?
        } else if rng.percent(10) {
            // As if the log is switched on at run time.
            Appender::wait_for_base(dir, manifest, notes)?
        } else {
            Appender::open(dir, manifest, notes)?
        };
        log.begin_at(loaded.upto);
        let ahead = rng.percent(50);
        let _ = log.write_ahead(ahead.then_some(AHEAD));
        let mut server = Server {
            disk,
            always: rng.percent(50),
            ahead,
            ahead_after: loaded.upto,
            over_zeros: BTreeSet::new(),
            planted,
            rng,
            log,
            fed: loaded.upto,
            promised: 0,
            job: None,
            rewrite: None,
        };
        if server.log.waits_for_base() {
            server.rewrite = Some((server.fed, true));
        }
        Ok(server)
    }

    fn promise(&mut self) {
        if !self.log.waits_for_base() {
            let promised = match self.planted {
                Planted::EarlyPromise if self.always => self.log.written(),
                _ => self.log.durable(),
            };
            self.promised = self.promised.max(promised);
        }
        assert!(self.log.durable() <= self.log.written() && self.log.written() <= self.fed);
    }

    /// Does a random action of a server. A failed action is retried later, as in the server.
    fn act(&mut self) {
        match self.rng.below(10) {
            0..4 => {
                for _ in 0..self.rng.below(6) {
                    self.fed += 1;
                    let commands = commands(self.fed);
                    let commands: Vec<_> = commands.iter().map(|(db, c)| (*db, &c[..])).collect();
                    if self.planted == Planted::EarlySafe {
                        self.log.claim_safe();
                    }
                    self.log.unit(self.fed, self.fed as i64 * 100, &commands);
                    if self.rng.percent(30) {
                        self.write_position();
                    }
                }
                let written = self.log.write();
                if self.always && written.is_ok() {
                    self.sync_now();
                }
            }
            4 if self.rng.percent(10) => {
                // The configuration changes.
                self.ahead = !self.ahead;
                if self.planted == Planted::ZerosLeft && !self.ahead {
                    self.log.forget_zeros();
                }
                let _ = self.log.write_ahead(self.ahead.then_some(AHEAD));
                self.ahead_after = self.fed;
                self.over_zeros.clear();
            }
            4 if self.rng.percent(10) => drop(self.log.write_and_trim()),
            4 => drop(self.log.write()),
            5 if self.job.is_none() && self.log.wants_sync() => {
                self.job = Some(self.log.sync_job())
            }
            5 | 6 => self.end_sync(),
            7 if self.rewrite.is_none() => {
                if self.log.rotate().is_ok() {
                    self.ahead_after = self.fed;
                    self.rewrite = Some((self.fed, self.rng.percent(50)));
                    // The position in the old file is removed with that file.
                    if self.rng.percent(50) {
                        self.write_position();
                        let _ = self.log.write();
                    }
                }
            }
            7 | 8 => self.end_rewrite(),
            _ => {
                if let Some(removal) = self.log.removal() {
                    let gone = removal.run();
                    let _ = self.log.removed(&gone);
                }
            }
        }
        self.promise();
    }

    /// Writes a position whose offset is the number of the last unit.
    fn write_position(&mut self) {
        self.log.position(&Position { id: [b'0'; 40], offset: self.fed, db: 0 });
    }

    fn sync_now(&mut self) {
        let job = self.log.sync_job();
        let came = job.run();
        self.log.synced(&job, &came);
        self.see_zeros();
    }

    fn see_zeros(&mut self) {
        if self.ahead && self.log.synced_upto() > self.ahead_after {
            self.over_zeros.insert(self.log.file_name());
        }
    }

    fn end_sync(&mut self) {
        if let Some(job) = self.job.take() {
            let came = job.run();
            self.log.synced(&job, &came);
            self.see_zeros();
        }
    }

    fn end_rewrite(&mut self) {
        let Some((cut, snapshot)) = self.rewrite.take() else { return };
        if self.rng.percent(80) && put_base(&self.disk, cut, snapshot).is_ok() {
            let _ = self.log.rebase(BASE, snapshot);
        }
    }
}

/// Whether a server with the default configuration accepts the files after the power failure.
fn is_taken(disk: &SimDisk, server: &Server) -> bool {
    let dir = directory(disk);
    let Ok(manifest) = dir.manifest() else { return true };
    let last = manifest.increments.last();
    let concerns = last.is_some_and(|last| server.over_zeros.contains(&last.name));
    !concerns || load(&dir, &manifest, USUAL, &mut Loaded::default()).is_ok()
}

fn recover(disk: &SimDisk, context: &str) -> Loaded {
    let dir = directory(disk);
    let manifest = dir.manifest().unwrap_or_else(|e| panic!("{context}: {e}"));
    let mut loaded = Loaded::default();
    let end = load(&dir, &manifest, LENIENT, &mut loaded);
    if let Some(position) = end.unwrap_or_else(|e| panic!("{context}: {e}")).position {
        assert_eq!(position.offset, loaded.upto, "{context}: a wrong position");
        loaded.has_position = true;
    }
    loaded
}

/// Totals over all histories.
#[derive(Default)]
struct Seen {
    lives: u64,
    units: u64,
    /// Positions at the end of a log.
    positions: u64,
    /// Ends over zeros that had to be accepted.
    over_zeros: u64,
}

/// Runs one history: three lives of a server on one disk.
fn run(seed: u64, planted: Planted, seen: &mut Seen) {
    let mut rng = Rng::new(seed);
    let mut disk = SimDisk::new(seed, Path::new(ROOT));
    let mut units = 0;
    let mut loaded = Loaded::default();
    // Loaded data count as durable: the next life must not lose them.
    let mut promised = 0;
    for life in 0..3 {
        let context = format!("seed {seed}, life {life}");
        let faults = *rng.pick(&[0, 0, 0, 1, 5, 20]);
        let off_at = if rng.percent(70) { rng.below(150) as u64 } else { u64::MAX };
        disk.cut_power_at(off_at);
        disk.fail(faults);
        let mut written = 0;
        let server = Server::start(disk.clone(), Rng::new(rng.next_u64()), &loaded, planted);
        let mut server = server.ok();
        if let Some(server) = &mut server {
            for _ in 0..rng.below(120) {
                server.act();
                if disk.is_off() {
                    break;
                }
            }
            promised = promised.max(server.promised);
            if !server.log.waits_for_base() {
                written = server.log.written();
            }
            units = server.fed;
        }
        let killed = off_at == u64::MAX && rng.percent(30);
        disk = if killed { disk.after_crash() } else { disk.after_power_loss() };
        if let Some(server) = server.filter(|server| faults == 0 && !server.over_zeros.is_empty()) {
            assert!(is_taken(&disk, &server), "{context}: refused");
            seen.over_zeros += 1;
        }
        // After a kill, everything written is in the files, and complete.
        if killed && faults == 0 {
            let dir = directory(&disk);
            let manifest = dir.manifest().unwrap_or_else(|e| panic!("{context}: {e}"));
            if let Err(e) = load(&dir, &manifest, STRICT, &mut Loaded::default()) {
                panic!("{context}: refused after it was killed: {e}");
            }
        }
        loaded = recover(&disk, &context);
        assert!(loaded.upto >= promised, "{context}: {} of {promised} promised", loaded.upto);
        if killed {
            assert!(loaded.upto >= written, "{context}: {} of {written} written", loaded.upto);
        }
        assert!(loaded.upto <= units, "{context}: a unit that was never written");
        // The next life begins with the loaded data.
        promised = loaded.upto;
        seen.lives += 1;
        seen.positions += u64::from(loaded.has_position);
    }
    seen.units += units;
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn power_loss_at_any_step_leaves_a_prefix_with_all_durable_units() {
    let mut seen = Seen::default();
    for seed in 0..5000 {
        run(seed, Planted::Nothing, &mut seen);
    }
    let Seen { lives, units, positions, over_zeros } = seen;
    assert!(lives == 15_000 && units > 100_000, "{lives} lives, {units} units");
    assert!(positions > 1000, "positions at the end: {positions}");
    assert!(over_zeros > 1000, "ends over zeros: {over_zeros}");
}

#[test]
fn planted_faults_are_found() {
    for planted in [Planted::EarlyPromise, Planted::EarlySafe, Planted::ZerosLeft] {
        let found = (0..2000).any(|seed| {
            std::panic::catch_unwind(|| run(seed, planted, &mut Seen::default())).is_err()
        });
        assert!(found, "{planted:?}");
    }
}

/// Runs a fixed history in which call number `fails_at` fails; returns the number of calls. All
/// units are loaded at the end, so the failure has no lasting effect.
fn run_with_failure(fails_at: u64, ahead: bool) -> u64 {
    let disk = SimDisk::new(fails_at, Path::new(ROOT));
    let mut server = Server::start(disk.clone(), Rng::new(7), &Loaded::default(), Planted::Nothing)
        .expect("no faults");
    server.always = false;
    server.ahead = ahead;
    server.log.write_ahead(ahead.then_some(AHEAD)).expect("no faults");
    let steps = disk.steps();
    disk.fail_at(steps + fails_at);
    for _ in 0..300 {
        server.act();
    }
    let calls = disk.steps() - steps;
    // The disk works again, and the next rewrite repairs doubtful files.
    disk.fail_at(u64::MAX);
    server.rewrite = None;
    server.log.rotate().expect("no faults");
    server.rewrite = Some((server.fed, true));
    while server.rewrite.is_some() || server.log.is_doubtful() {
        server.end_rewrite();
        if server.rewrite.is_none() && server.log.is_doubtful() {
            server.log.rotate().expect("no faults");
            server.rewrite = Some((server.fed, true));
        }
    }
    server.log.write().expect("no faults");
    server.sync_now();
    assert_eq!(server.log.durable(), server.fed, "call {fails_at}");
    let loaded = recover(&disk.after_power_loss(), &format!("call {fails_at}"));
    assert_eq!(loaded.upto, server.fed, "call {fails_at}");
    calls
}

#[test]
fn log_recovers_from_a_failure_of_any_call() {
    for ahead in [false, true] {
        let calls = run_with_failure(u64::MAX / 2, ahead);
        assert!(calls > 200, "{calls}");
        for fails_at in 1..=calls {
            run_with_failure(fails_at, ahead);
        }
    }
}

/// A load while a server writes the files (DEBUG LOADAOF) must not change them: the server may
/// write positions at any time.
#[test]
fn load_during_writes_does_not_truncate() {
    let disk = SimDisk::new(1, Path::new(ROOT));
    let mut server = Server::start(disk.clone(), Rng::new(7), &Loaded::default(), Planted::Nothing)
        .expect("no faults");
    server.log.write_ahead(Some(AHEAD)).expect("no faults");
    let feed = |server: &mut Server| {
        server.fed += 1;
        let commands = commands(server.fed);
        let commands: Vec<_> = commands.iter().map(|(db, c)| (*db, &c[..])).collect();
        server.log.unit(server.fed, 1, &commands);
        server.log.write().expect("no faults");
        server.sync_now();
    };
    feed(&mut server);
    server.log.write_and_trim().expect("no faults");
    server.write_position();
    server.log.write().expect("no faults");
    let dir = directory(&disk);
    let manifest = dir.manifest().expect("it is there");
    let path = dir.path(&manifest.increments[0].name);
    let before = SimDisk::read(&disk, &path).expect("it is there");
    assert_eq!(before.last(), Some(&0), "zeros were written ahead");
    for lenient in [USUAL, STRICT] {
        load(&dir, &manifest, EndPolicy { cuts: false, ..lenient }, &mut Loaded::default())
            .expect("whole");
    }
    // The load doesn't truncate a torn write either.
    let file = disk.open(&path, false).expect("it is there");
    file.write(b"#CRC:").expect("no faults");
    let torn = SimDisk::read(&disk, &path).expect("it is there");
    load(&dir, &manifest, EndPolicy { cuts: false, ..LENIENT }, &mut Loaded::default())
        .expect("cut");
    assert_eq!(SimDisk::read(&disk, &path).expect("it is there"), torn);
    file.truncate(before.len() as u64).expect("no faults");
    server.write_position();
    feed(&mut server);
    assert_eq!(recover(&disk.after_crash(), "killed").upto, 2);
}
