//! weft-repl: reads the log of effects into the stream, tells the machines the time, and does what needs the
//! world.
//!
//! It is started when the first replica comes, or this server becomes one, and stays. Where nothing has
//! to be told it sleeps until it is woken.

use crate::State;
use crate::hub;
use crate::{perform, primary, tell};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use std::thread::Thread;
use std::time::{Duration, Instant};
use weft_keyspace::log::{Entry, Target, Unit};
use weft_keyspace::{ExecContext, LogReader};
use weft_memory::ThreadMemory;
use weft_replication::encode;
use weft_state::server::Server;

/// Between two looks at the clock.
const TICK: Duration = Duration::from_millis(100);
/// A thread that has just read so many units lets more gather for so long before it reads again: what it does
/// beside reading, and what the threads with the connections of replicas do, costs the same for a hundred
/// units as for one. Who waits for replicas does not wait for this: a WAIT reads the log itself.
const MANY: u64 = 8;
const GATHERS: Duration = Duration::from_micros(500);
/// Bytes of commands that are appended before others may have the machine.
pub const AT_ONCE: usize = 256 << 10;

/// Starts the thread.
///
/// # Panics
/// If the system has no thread for it.
pub fn start(srv: &'static Server) -> Thread {
    let thread = std::thread::Builder::new().name("weft-repl".into()).spawn(move || {
        let _stack = weft_process::crash::second_stack();
        weft_scheduler::placement::bind_to(&srv.placement().bio);
        run(srv);
    });
    thread.expect("a thread for replication").thread().clone()
}

fn run(srv: &'static Server) {
    // What the threads that execute commands have allocated is freed here.
    let mut memory = ThreadMemory::new();
    let mut ticked = Instant::now();
    loop {
        let hub = hub(srv);
        let needs_world = {
            let state = hub.lock();
            !state.pending.is_empty() || state.tells_paused
        };
        if needs_world {
            with_world(srv);
        }
        let mut state = hub.lock();
        // What could not be done with the world in hand is tried again later.
        let is_left = needs_world && !state.pending.is_empty();
        let read_before = position(&state);
        let has_more = drain(srv, &mut state, AT_ONCE);
        let has_read_many = position(&state).saturating_sub(read_before) >= MANY;
        if ticked.elapsed() >= TICK {
            ticked = Instant::now();
            tell(srv, &mut state, |node, now, out| node.tick(now, out));
        }
        primary::waits::look(srv, &mut state);
        perform::all(srv, &mut state, None);
        if let Some(unit) = state.log.as_ref().map(LogReader::position) {
            state.note_place(srv, unit);
        }
        hub.publish(srv, &state);
        state.tell_link();
        perform::spread(srv, &mut state);
        let is_busy = state.is_busy();
        let waits = (state.pending.is_empty() || is_left) && !state.tells_paused && !has_more;
        let gathers = waits && has_read_many && state.replicas.waiters.is_empty();
        let sleeps = waits && !gathers && state.log.as_mut().is_none_or(|log| log.may_sleep());
        state.thread_rests = sleeps && !is_busy;
        drop(state);
        if has_more {
            // Who waits for the machine would not get it from one that takes it again at once.
            std::thread::yield_now();
        }
        memory.publish(&srv.memory);
        // Behind that: what was read is not in use any more.
        srv.note_unread();
        if gathers {
            std::thread::park_timeout(GATHERS);
        } else if sleeps {
            match is_busy || is_left {
                true => std::thread::park_timeout(TICK.saturating_sub(ticked.elapsed())),
                false => std::thread::park(),
            }
        }
    }
}

/// The last unit that was read.
fn position(state: &State) -> u64 {
    state.log.as_ref().map_or(0, LogReader::position)
}

/// Does what was left because it needs the world.
pub fn with_world(srv: &'static Server) {
    let mut hand = srv.hand();
    let mut context = ExecContext::new(srv.now_ms(), 0);
    let guard = hand.world(&mut context);
    let paused = std::mem::take(&mut hub(srv).lock().tells_paused);
    hub(srv).cut(srv, Some(&guard), |node, now, out| {
        if paused {
            node.writes_paused(now, out);
        }
    });
}

/// Appends what is in the log to the stream, up to about `most` bytes; whether there may be more. What is
/// read while this server is a replica is nobody's.
pub fn drain(srv: &'static Server, state: &mut State, most: usize) -> bool {
    let Some(mut log) = state.log.take() else { return false };
    let mut more = false;
    let mut ends = SmallVec::<[(u64, u64); 16]>::new();
    if state.node.is_primary() {
        more = tell(srv, state, |node, now, out| {
            let append = |units: &mut weft_replication::stream::Units<'_>| {
                let begin = units.end();
                while let Some(unit) = log.next() {
                    let end = append_unit(units, &unit);
                    note(&mut ends, (unit.number(), end));
                    if end - begin >= most as u64 {
                        return true;
                    }
                }
                false
            };
            node.write(now, append, out)
        });
        ends.iter().for_each(|(unit, end)| state.replicas.waiters.marks.note(*unit, *end));
    } else {
        while log.next().is_some() {}
    }
    srv.replication.unit.store(log.position(), Ordering::SeqCst);
    state.log = Some(log);
    more
}

/// Appends what replicas are to have of a unit; where the stream ends after it.
#[inline]
fn append_unit(units: &mut weft_replication::stream::Units<'_>, unit: &Unit<'_>) -> u64 {
    if let Some(entry) = unit.only_entry().filter(|entry| entry.target().has(Target::REPLICAS)) {
        return units.unit(&[Logged(entry)]);
    }
    let entries = unit.entries().filter(|entry| entry.target().has(Target::REPLICAS));
    let commands: SmallVec<[Logged<'_>; 4]> = entries.map(Logged).collect();
    units.unit(&commands)
}

/// Remembers where the stream ends behind a unit: behind the last of those that come together, and some
/// before it.
fn note(ends: &mut SmallVec<[(u64, u64); 16]>, end: (u64, u64)) {
    /// Units from one that is remembered to the next.
    const APART: u64 = 32;
    let has_just = |apart| ends.len() >= 2 && end.0 - ends[ends.len() - 2].0 < apart;
    if has_just(APART) {
        ends.pop();
    }
    ends.push(end);
}

/// An entry as the stream wants it.
struct Logged<'a>(Entry<'a>);

impl encode::Command for Logged<'_> {
    fn db(&self) -> usize {
        self.0.db()
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        self.0.append_to(out);
    }
}
