//! weft-repl: reads the effect log into the stream, advances the machines' time, and executes
//! actions that must stop the world.
//!
//! It starts with the first replica, or when this server becomes one, and never ends. It sleeps
//! while time doesn't matter.

use crate::State;
use crate::hub;
use crate::{pass_event, perform, primary};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use std::thread::Thread;
use std::time::{Duration, Instant};
use weft_keyspace::log::{Target, Unit};
use weft_keyspace::{ExecContext, LogReader};
use weft_memory::ThreadMemory;
use weft_state::logged::with_commands;
use weft_state::server::Server;

/// Interval of ticks.
const TICK: Duration = Duration::from_millis(100);
/// After reading this many units, the thread lets more accumulate for this long before it reads
/// again. The cost of a round, here and on the threads with replicas' connections, is the same for
/// a hundred units as for one. Clients that wait for replicas aren't delayed, because WAIT reads
/// the log itself.
const MANY: u64 = 8;
const GATHERS: Duration = Duration::from_micros(500);
/// Bytes appended to the stream before the machine's mutex is released.
pub const AT_ONCE: usize = 256 << 10;

/// Starts the thread.
///
/// # Panics
/// If the system can't create a thread.
pub fn start(srv: &'static Server) -> Thread {
    let thread = std::thread::Builder::new().name("weft-repl".into()).spawn(move || {
        let _stack = weft_process::crash::second_stack();
        weft_scheduler::placement::bind_to(&srv.placement().bio);
        run(srv);
    });
    thread.expect("starts the replication thread").thread().clone()
}

fn run(srv: &'static Server) {
    // This thread frees memory that executing threads have allocated.
    let mut memory = ThreadMemory::new();
    let mut ticked = Instant::now();
    loop {
        let hub = hub(srv);
        let needs_world = {
            let mut state = hub.lock();
            state.waits_for_log = false;
            !state.pending.is_empty() || state.pause_requested
        };
        if needs_world {
            with_world(srv);
        }
        let mut state = hub.lock();
        // Actions that failed even with the world stopped are retried later.
        let is_left = needs_world && !state.pending.is_empty();
        let read_before = position(&state);
        let has_more = drain(srv, &mut state, AT_ONCE);
        let has_read_many = position(&state).saturating_sub(read_before) >= MANY;
        if ticked.elapsed() >= TICK {
            ticked = Instant::now();
            pass_event(srv, &mut state, |node, now, out| node.tick(now, out));
        }
        primary::waits::check_waiters(srv, &mut state);
        primary::quorum::ask(srv, &mut state);
        perform::execute_pending(srv, &mut state, None);
        if let Some(unit) = state.log.as_ref().map(LogReader::position) {
            state.note_place(srv, unit);
        }
        hub.publish(srv, &state);
        state.wake_settled_link();
        perform::notify_growth(srv, &mut state);
        let is_busy = state.is_busy();
        let waits = (state.pending.is_empty() || is_left) && !state.pause_requested && !has_more;
        let gathers = waits && has_read_many && !state.replicas.has_waits();
        let sleeps = waits && !gathers && state.log.as_mut().is_none_or(|log| log.may_sleep());
        state.thread_sleeps = sleeps && !is_busy;
        state.waits_for_log = sleeps;
        drop(state);
        if has_more {
            // Without it, a thread that waits for the mutex would rarely get it.
            std::thread::yield_now();
        }
        memory.publish(&srv.memory);
        // After the read, because its units are no longer in use.
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

/// The last unit read.
fn position(state: &State) -> u64 {
    state.log.as_ref().map_or(0, LogReader::position)
}

/// Executes the actions that must stop the world.
pub fn with_world(srv: &'static Server) {
    let mut hand = srv.hand();
    let mut context = ExecContext::new(srv.now_ms(), 0);
    let guard = hand.world(&mut context);
    let paused = std::mem::take(&mut hub(srv).lock().pause_requested);
    hub(srv).cut(srv, Some(&guard), |node, now, out| {
        if paused {
            node.writes_paused(now, out);
        }
    });
}

/// Appends units of the log to the stream, up to about `most` bytes. Returns whether there may be
/// more. Units read while this server is a replica are dropped.
pub fn drain(srv: &'static Server, state: &mut State, most: usize) -> bool {
    let Some(mut log) = state.log.take() else { return false };
    let mut more = false;
    let mut ends = SmallVec::<[(u64, u64); 16]>::new();
    if state.node.is_primary() {
        more = pass_event(srv, state, |node, now, out| {
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
    srv.nodes.replication.unit.store(log.position(), Ordering::SeqCst);
    state.log = Some(log);
    more
}

/// Appends the commands of a unit that are for replicas. Returns the end of the stream after it.
#[inline]
fn append_unit(units: &mut weft_replication::stream::Units<'_>, unit: &Unit<'_>) -> u64 {
    with_commands(unit, Target::REPLICAS, |commands| units.unit(commands))
}

/// Records the end of the stream after a unit: after the last one of a batch, and after some before
/// it.
fn note(ends: &mut SmallVec<[(u64, u64); 16]>, end: (u64, u64)) {
    /// Distance between two recorded units.
    const APART: u64 = 32;
    let has_just = |apart| ends.len() >= 2 && end.0 - ends[ends.len() - 2].0 < apart;
    if has_just(APART) {
        ends.pop();
    }
    ends.push(end);
}
