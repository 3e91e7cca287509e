//! Readers that join, read, sleep, are ended and dropped in any order, compared with a plain list
//! of the published units: what each reader returns, when it is woken, and how much memory is
//! held.
//!
//! One thread performs one step after the other, chosen by a seed, so `LOG_SEED=n LOG_RUNS=1`
//! reproduces a failed run. `tests/loom_log.rs` tests the interaction of threads.

use super::draft::Draft;
use super::unit::{Arg, Target};
use super::{Log, LogReader, MAX_READERS, ReaderId};
use crate::context::Rng;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The number of publishing threads.
const THREADS: usize = 3;
const STEPS: usize = 300;

/// A published unit.
struct Made {
    /// Its encoded commands, concatenated.
    text: Vec<u8>,
    targets: Vec<Target>,
    large: Vec<Weak<Vec<u8>>>,
}

/// A reader and its expected state.
struct Known {
    /// `None` after it was dropped.
    reader: Option<LogReader>,
    id: ReaderId,
    target: Target,
    /// The last unit that it returned, and the last one that it has passed.
    position: usize,
    passed: usize,
    /// The last unit it may get, once it was ended.
    end: Option<usize>,
    /// It was dropped but not ended, and another reader has its slot.
    replaced: bool,
    wakes: Arc<AtomicUsize>,
    /// While it sleeps: the number of wake-ups before.
    sleeps: Option<usize>,
}

impl Known {
    fn reads(&self) -> bool {
        self.reader.is_some() && self.end.is_none()
    }

    /// It was dropped but not ended.
    fn was_dropped(&self) -> bool {
        self.reader.is_none() && self.end.is_none() && !self.replaced
    }

    fn is_gone(&self) -> bool {
        self.reader.is_none() && !self.was_dropped()
    }
}

struct Simulation {
    log: Arc<Log>,
    drafts: Vec<Draft>,
    /// A unit was published, and readers have not been woken since.
    wakes_readers: bool,
    made: Vec<Made>,
    known: Vec<Known>,
    /// The last unit when the last reader stopped reading.
    unread_from: usize,
    rng: Rng,
}

impl Simulation {
    fn below(&mut self, n: usize) -> usize {
        (self.rng.next() % n as u64) as usize
    }

    fn target(&mut self) -> Target {
        [Target::AOF, Target::REPLICAS, Target::ALL][self.below(3)]
    }

    fn word(&mut self) -> Vec<u8> {
        let most = [20, 20, 20, 300, 9000][self.below(5)];
        let byte = b'a' + self.below(26) as u8;
        vec![byte; 1 + self.below(most)]
    }

    fn publish(&mut self) {
        let mut unit = Made { text: Vec::new(), targets: Vec::new(), large: Vec::new() };
        let thread = self.below(THREADS);
        for _ in 0..1 + self.below(3) {
            let (db, target, word) = (self.below(3), self.target(), self.word());
            let large = (self.below(8) == 0).then(|| Arc::new(self.word()));
            let mut args = vec![Arg::Bytes(b"SET"), Arg::Bytes(&word)];
            args.extend(large.as_ref().map(Arg::Shared));
            self.drafts[thread].push(db, target, &mut args.into_iter());
            let words = [Some(&b"SET"[..]), Some(&word), large.as_ref().map(|blob| &blob[..])];
            let words: Vec<&[u8]> = words.into_iter().flatten().collect();
            unit.text.extend(format!("*{}\r\n", words.len()).bytes());
            for word in words {
                unit.text.extend(format!("${}\r\n", word.len()).bytes());
                unit.text.extend(word);
                unit.text.extend(b"\r\n");
            }
            unit.targets.push(target);
            unit.large.extend(large.as_ref().map(Arc::downgrade));
        }
        let number = self.log.publish(&mut self.drafts[thread], 0);
        self.made.push(unit);
        assert_eq!(number as usize, self.made.len());
        self.wakes_readers = true;
    }

    fn ring(&mut self) {
        if !std::mem::take(&mut self.wakes_readers) {
            return;
        }
        self.log.ring();
        self.check_wake_ups();
    }

    /// All sleeping readers were woken once.
    fn check_wake_ups(&mut self) {
        for known in &mut self.known {
            if let Some(before) = known.sleeps.take() {
                assert_eq!(known.wakes.load(Ordering::Relaxed), before + 1);
            }
        }
    }

    fn join(&mut self) {
        let (target, wakes) = (self.target(), Arc::<AtomicUsize>::default());
        let counter = wakes.clone();
        let wake = Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let places = self.known.iter().filter(|known| !known.is_gone()).count();
        let existing = self.known.iter().filter(|known| known.reader.is_some()).count();
        let Some(reader) = self.log.begin(target, wake) else {
            assert_eq!(existing, MAX_READERS);
            return;
        };
        assert!(existing < MAX_READERS);
        let (id, position) = (reader.id(), self.made.len());
        assert!(self.known.iter().all(|known| known.id != id), "an id is used once");
        if places == MAX_READERS {
            let mut left = self.known.iter_mut().filter(|known| known.was_dropped());
            left.find(|known| known.id.slot == id.slot).expect("its slot").replaced = true;
        }
        self.known.push(Known {
            reader: Some(reader),
            id,
            target,
            position,
            passed: position,
            end: None,
            replaced: false,
            wakes,
            sleeps: None,
        });
    }

    /// Ends any reader, past or present.
    fn end(&mut self) {
        if self.known.is_empty() {
            return;
        }
        let which = self.below(self.known.len());
        self.log.end(&self.known[which].id);
        let known = &mut self.known[which];
        if known.reads() || known.was_dropped() {
            known.end = Some(self.made.len());
            self.note_if_unread();
        }
        self.check_wake_ups();
    }

    fn leave(&mut self) {
        let Some(which) = self.any() else { return };
        let known = &mut self.known[which];
        known.reader = None;
        known.sleeps = None;
        if known.end.is_none() {
            self.note_if_unread();
        }
    }

    fn note_if_unread(&mut self) {
        if !self.known.iter().any(Known::reads) {
            self.unread_from = self.made.len();
        }
    }

    /// A random existing reader.
    fn any(&mut self) -> Option<usize> {
        let existing = self.known.iter().enumerate().filter(|(_, known)| known.reader.is_some());
        let existing: Vec<usize> = existing.map(|(which, _)| which).collect();
        let draw = self.below(existing.len().max(1));
        existing.get(draw).copied()
    }

    fn read(&mut self, which: usize, most: usize) {
        let known = &mut self.known[which];
        let Some(reader) = &mut known.reader else { return };
        known.sleeps = None;
        for _ in 0..most {
            known.passed = known.position;
            let Some(unit) = reader.next() else {
                assert_eq!(known.position, known.end.unwrap_or(self.made.len()));
                return;
            };
            known.position += 1;
            assert_eq!(unit.number() as usize, known.position);
            assert!(known.position <= known.end.unwrap_or(usize::MAX));
            let made = &self.made[known.position - 1];
            let mut text = Vec::new();
            unit.entries().for_each(|entry| entry.append_to(&mut text));
            assert_eq!(text, made.text);
            assert!(unit.entries().map(|entry| entry.target()).eq(made.targets.iter().copied()));
        }
    }

    fn sleep(&mut self) {
        let Some(which) = self.any() else { return };
        let known = &mut self.known[which];
        let Some(reader) = &mut known.reader else { return };
        known.sleeps = None;
        let may = known.end.is_none() && known.position == self.made.len();
        assert_eq!(reader.may_sleep(), may);
        known.sleeps = may.then(|| known.wakes.load(Ordering::Relaxed));
    }

    /// After all readers have read all units, no unit stays in memory.
    fn read_all(&mut self) {
        (0..self.known.len()).for_each(|which| self.read(which, usize::MAX));
        if self.log.is_on() && !self.known.iter().any(Known::reads) {
            return;
        }
        let large = self.made.iter().flat_map(|unit| &unit.large);
        assert!(large.into_iter().all(|blob| blob.strong_count() == 0));
        assert_eq!(self.log.pending_bytes(), 0);
    }

    fn bytes(&self, is_pending: impl Fn(usize) -> bool) -> u64 {
        let pending = (1..=self.made.len()).filter(|number| is_pending(*number));
        pending.map(|number| self.made[number - 1].text.len() as u64).sum()
    }

    fn check(&self) {
        let log = &self.log;
        let wanting = || self.known.iter().filter(|known| known.reads() || known.was_dropped());
        assert_eq!(log.is_on(), wanting().count() > 0);
        for target in [Target::AOF, Target::REPLICAS, Target::ALL] {
            let wants = wanting().any(|known| known.target.has(target));
            assert_eq!(log.wants(target), wants);
        }
        let not_passed = |known: &Known, number: usize| {
            number > known.passed && number <= known.end.unwrap_or(usize::MAX)
        };
        for known in &self.known {
            let pending = self.bytes(|number| !known.is_gone() && not_passed(known, number));
            assert_eq!(log.pending_bytes_of(&known.id), pending);
            if let Some(reader) = &known.reader {
                let last = known.end.unwrap_or(self.made.len());
                assert_eq!(reader.position() as usize, known.position);
                assert_eq!((reader.last() as usize, reader.pending_bytes()), (last, pending));
                assert_eq!(reader.is_over(), known.end == Some(known.position));
            }
            if let Some(before) = known.sleeps {
                assert_eq!(known.wakes.load(Ordering::Relaxed), before);
            }
        }
        let existing = || self.known.iter().filter(|known| known.reader.is_some());
        let in_thread_logs = log.is_on() && !self.known.iter().any(Known::reads);
        let pending = self.bytes(|number| {
            existing().any(|known| not_passed(known, number))
                || in_thread_logs && number > self.unread_from
        });
        assert_eq!(log.pending_bytes(), pending);
    }

    fn step(&mut self) {
        match self.below(100) {
            0..45 if self.log.is_on() => self.publish(),
            0..55 => self.ring(),
            55..75 => {
                let most = 1 + self.below(20);
                if let Some(which) = self.any() {
                    self.read(which, most);
                }
            }
            75..85 => self.sleep(),
            85..91 => self.join(),
            91..95 => self.end(),
            95..98 => self.leave(),
            _ => self.read_all(),
        }
        self.check();
        // Bounds the number of past readers that are checked.
        if self.known.len() > 4 * MAX_READERS {
            self.known.retain(|known| !known.is_gone());
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn readers_get_exactly_the_units_between_join_and_end() {
    let (seed, runs) = (number("LOG_SEED", 1), number("LOG_RUNS", 200));
    for seed in seed..seed + runs {
        // On failure, dropping it prints the seed.
        let seed_printer = PrintSeed(seed);
        let mut world = Simulation {
            log: Arc::default(),
            drafts: (0..THREADS).map(|_| Draft::default()).collect(),
            wakes_readers: false,
            made: Vec::new(),
            known: Vec::new(),
            unread_from: 0,
            rng: Rng::new(seed),
        };
        (0..STEPS).for_each(|_| world.step());
        std::mem::forget(seed_printer);
    }
}

struct PrintSeed(u64);

impl Drop for PrintSeed {
    fn drop(&mut self) {
        eprintln!("LOG_SEED={}", self.0);
    }
}
