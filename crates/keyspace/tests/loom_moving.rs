//! Model of connections that move to another thread while work is pending, and of threads that go
//! to sleep.
//!
//! Two I/O threads, a kernel that signals socket and mailbox events, a client, and another thread
//! with a message for the connection. The connection's states, the conditions for moving, the
//! steps on arrival and the interest in socket events are the server's own code (`io/state.rs`,
//! `io/interest.rs`), and so are a mailbox's wake flag and a shard's lock. The loop around them
//! is that of `io/worker/` without its commands. A lost wake-up leaves a thread asleep with work
//! to do: then no thread runs, which loom reports.
//!
//! Faults can be injected and must be detected.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-keyspace --profile quick --test loom_moving`
#![cfg(loom)]

#[path = "../../net/src/interest.rs"]
#[allow(dead_code, reason = "the server uses all of it")]
mod interest;
#[path = "../../net/src/lifecycle.rs"]
#[allow(dead_code, reason = "the server uses all of it")]
mod state;

use interest::Interest;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread::{JoinHandle, spawn};
use state::{Awaited, Executed, Pending, State};
use std::collections::VecDeque;
use weft_keyspace::Waiter;
use weft_keyspace::lock::{Park, ShardLock};
use weft_keyspace::wake_flag::WakeFlag;

const THREADS: usize = 2;

/// An injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A connection moves whatever it waits for.
    MovesAnything,
    /// The new thread does not queue the connection's requests.
    ForgetsRequests,
    /// The new thread does not send pending output.
    ForgetsOutput,
    /// Messages in the old thread's mailbox stay there.
    LeavesPushes,
    /// The route is not locked while the connection moves.
    LeavesTheRoute,
    /// The new thread does not check whether the client was killed.
    ForgetsTheKill,
    /// The interest in socket events is never widened.
    NeverWidens,
    /// The wake flag is cleared after the mailbox has been emptied.
    AnswersLate,
}

/// The kernel's state of one socket and the threads' eventfds.
#[derive(Default)]
struct Kernel {
    rung: [bool; THREADS],
    watched: Option<(usize, Interest)>,
    /// Input of the client not read yet, in halves of requests.
    input: usize,
    /// Replies and pushes that the socket can take, and has taken.
    room: usize,
    taken: usize,
    closed: bool,
    over: bool,
    /// The number of participating threads, and of those asleep since the last change.
    parties: usize,
    asleep: usize,
    stuck: bool,
}

struct Conn {
    state: State<(), ()>,
    token: u64,
    /// Halves of an incomplete request; complete requests not executed yet.
    halves: usize,
    kept: usize,
    out: usize,
    in_row: bool,
    withheld: bool,
    interest: Interest,
}

impl Conn {
    fn new() -> Conn {
        Conn {
            state: State::Reading,
            token: 0,
            halves: 0,
            kept: 0,
            out: 0,
            in_row: false,
            withheld: false,
            interest: Interest::READ,
        }
    }

    fn pending(&self) -> Pending {
        Pending {
            output: self.out > 0,
            in_row: self.in_row,
            is_elsewhere: self.withheld,
            stands: false,
        }
    }

    fn wanted(&self) -> Interest {
        Interest::of(self.state.watches_input(), self.out > 0 && !self.withheld)
    }
}

enum Message {
    Moved(Box<Conn>),
    /// As Shed and Scatter, or a cron task that finds its thread inactive.
    HandOver,
    /// The thread was activated or deactivated.
    Wake,
    Unpark(u64),
    Unpause,
    Durable,
    Push,
    Kill,
}

#[derive(Default)]
struct Thread {
    queue: Mutex<VecDeque<Message>>,
    wake_flag: WakeFlag,
    set_withholding: AtomicBool,
}

struct World {
    kernel: Mutex<Kernel>,
    changed: Condvar,
    threads: [Thread; THREADS],
    shard: ShardLock,
    /// The thread of the client; `route` is held to push to the client or move it.
    owner: AtomicUsize,
    route: Mutex<()>,
    active: AtomicUsize,
    paused: AtomicBool,
    durable: AtomicBool,
    killed: AtomicBool,
    fault: Fault,
}

impl World {
    fn new(fault: Fault) -> Arc<World> {
        Arc::new(World {
            kernel: Mutex::new(Kernel { room: 9, ..Kernel::default() }),
            changed: Condvar::new(),
            threads: Default::default(),
            shard: ShardLock::default(),
            owner: AtomicUsize::new(0),
            route: Mutex::new(()),
            active: AtomicUsize::new(THREADS),
            paused: AtomicBool::new(false),
            durable: AtomicBool::new(true),
            killed: AtomicBool::new(false),
            fault,
        })
    }

    fn kernel(&self) -> MutexGuard<'_, Kernel> {
        self.kernel.lock().unwrap()
    }

    /// Changes the kernel's state and wakes all sleepers.
    fn change(&self, change: impl FnOnce(&mut Kernel)) {
        let mut kernel = self.kernel();
        change(&mut kernel);
        kernel.asleep = 0;
        self.changed.notify_all();
    }

    /// Sleeps until the state changes. The last awake thread detects that it never will.
    fn sleep<'a>(&self, mut kernel: MutexGuard<'a, Kernel>) -> MutexGuard<'a, Kernel> {
        kernel.asleep += 1;
        self.detect_stuck(&mut kernel);
        if kernel.stuck { kernel } else { self.changed.wait(kernel).unwrap() }
    }

    fn detect_stuck(&self, kernel: &mut Kernel) {
        if kernel.asleep == kernel.parties {
            (kernel.stuck, kernel.over) = (true, true);
            self.changed.notify_all();
        }
    }

    /// A participant has ended.
    fn leave(&self) {
        let mut kernel = self.kernel();
        kernel.parties -= 1;
        self.detect_stuck(&mut kernel);
    }

    fn put(&self, thread: usize, message: Message) {
        self.threads[thread].queue.lock().unwrap().push_back(message);
    }

    fn ring(&self, thread: usize) {
        if self.threads[thread].wake_flag.set() {
            self.change(|kernel| kernel.rung[thread] = true);
        }
    }

    fn send(&self, thread: usize, message: Message) {
        self.put(thread, message);
        self.ring(thread);
    }

    fn release_shard(&self) {
        for waiter in self.shard.release() {
            self.send(waiter.thread as usize, Message::Unpark(waiter.token));
        }
    }

    /// The client sends that many halves of requests.
    fn write(&self, halves: usize) {
        self.change(|kernel| kernel.input += halves);
    }

    /// The client reads replies, so that the socket has room.
    fn make_room(&self) {
        self.change(|kernel| kernel.room += 9);
    }

    fn push(&self) {
        let route = self.route.lock().unwrap();
        let owner = self.owner.load(SeqCst);
        self.put(owner, Message::Push);
        drop(route);
        self.ring(owner);
    }

    fn kill(&self) {
        self.killed.store(true, SeqCst);
        self.send(self.owner.load(SeqCst), Message::Kill);
    }

    fn unpause(&self) {
        self.paused.store(false, SeqCst);
        (0..THREADS).for_each(|thread| self.send(thread, Message::Unpause));
    }

    fn make_durable(&self) {
        self.durable.store(true, SeqCst);
        for (n, thread) in self.threads.iter().enumerate() {
            if thread.set_withholding.swap(false, SeqCst) {
                self.send(n, Message::Durable);
            }
        }
    }

    fn set_active(&self, count: usize) {
        self.active.store(count, SeqCst);
        self.send(1, Message::Wake);
    }

    /// The client waits for that many replies and pushes, or for the end of its connection; then
    /// ends the run.
    fn wait_for(&self, replies: Option<usize>) {
        let mut kernel = self.kernel();
        while !kernel.stuck && !replies.map_or(kernel.closed, |replies| kernel.taken == replies) {
            kernel = self.sleep(kernel);
        }
        drop(kernel);
        self.change(|kernel| kernel.over = true);
    }
}

/// One I/O thread.
struct Worker {
    world: Arc<World>,
    id: usize,
    conn: Option<Conn>,
    queued: bool,
    row: bool,
    /// Messages taken out of the mailbox during a move, except pushes.
    staged: VecDeque<Message>,
    /// The connection whose replies wait for the disk.
    withheld: Option<u64>,
    generation: u64,
}

impl Worker {
    fn start(world: &Arc<World>, id: usize, conn: Option<Conn>) -> JoinHandle<()> {
        let (queued, row) = conn
            .as_ref()
            .map_or((false, false), |conn| (matches!(conn.state, State::Ready), conn.in_row));
        if let Some(conn) = &conn {
            world.kernel().watched = Some((id, conn.interest));
        }
        let mut worker = Worker {
            world: world.clone(),
            id,
            conn,
            queued,
            row,
            staged: VecDeque::new(),
            withheld: None,
            generation: 10 * (id as u64 + 1),
        };
        spawn(move || while worker.iterate() {})
    }

    /// One iteration of the loop. Returns whether to continue.
    fn iterate(&mut self) -> bool {
        let (over, has_messages, read, write) = self.sleep();
        if over {
            return false;
        }
        if write {
            self.send_output();
        }
        if read {
            self.on_input();
        }
        if has_messages {
            self.flush();
            self.on_messages();
        }
        if std::mem::take(&mut self.queued) {
            self.run_queued();
        }
        self.flush();
        if std::mem::take(&mut self.row) && self.conn.as_ref().is_some_and(|conn| conn.in_row) {
            self.send_output();
        }
        true
    }

    fn sleep(&self) -> (bool, bool, bool, bool) {
        let mut kernel = self.world.kernel();
        loop {
            let has_messages = kernel.rung[self.id];
            let (read, write) = match kernel.watched {
                Some((id, interest)) if id == self.id => {
                    (interest.read && kernel.input > 0, interest.write && kernel.room > 0)
                }
                _ => (false, false),
            };
            if kernel.over || self.queued || self.row || has_messages || read || write {
                return (kernel.over, has_messages, read, write);
            }
            kernel = self.world.sleep(kernel);
        }
    }

    fn watch(&mut self, only_wider: bool) {
        let Some(conn) = &mut self.conn else { return };
        let want = conn.wanted();
        let covers = conn.interest.covers(want) || self.world.fault == Fault::NeverWidens;
        if (only_wider && covers) || want == conn.interest {
            return;
        }
        conn.interest = want;
        self.world.kernel().watched = Some((self.id, want));
    }

    fn on_input(&mut self) {
        let Some(conn) = &mut self.conn else { return };
        if !conn.state.reads() {
            return self.watch(false);
        }
        conn.halves += std::mem::take(&mut self.world.kernel().input);
        conn.kept += conn.halves / 2;
        conn.halves %= 2;
        if conn.kept > 0 {
            conn.state.batched();
        }
    }

    fn run_queued(&mut self) {
        let Some(conn) = &mut self.conn else { return };
        if conn.state.dequeue(conn.kept > 0) {
            conn.state.batched();
        } else {
            self.watch(true);
        }
    }

    /// Executes the batch.
    fn flush(&mut self) {
        let world = self.world.clone();
        let Some(conn) = self.conn.as_mut().filter(|conn| conn.state.is_in_batch()) else { return };
        if world.killed.load(SeqCst) {
            return self.close();
        }
        let mut how = Executed::All;
        while conn.kept > 0 {
            if world.paused.load(SeqCst) {
                how = Executed::Paused;
                break;
            }
            let waiter = Waiter { thread: self.id as u32, token: conn.token };
            if !world.shard.try_lock() {
                how = match world.shard.park(waiter) {
                    Park::Parked => Executed::Parked,
                    Park::Acquired => {
                        world.release_shard();
                        Executed::Again
                    }
                };
                break;
            }
            world.release_shard();
            (conn.kept, conn.out) = (conn.kept - 1, conn.out + 1);
            if !world.durable.load(SeqCst) {
                conn.withheld = true;
                self.withheld = Some(conn.token);
            }
        }
        if conn.withheld && matches!(how, Executed::All) {
            how = Executed::Withheld(1);
        }
        self.queued |= conn.state.executed(how);
        self.send_output();
        self.register_withheld();
    }

    fn register_withheld(&mut self) {
        if self.withheld.is_some() {
            self.world.threads[self.id].set_withholding.store(true, SeqCst);
            self.release_withheld();
        }
    }

    fn release_withheld(&mut self) {
        if self.world.durable.load(SeqCst)
            && let Some(token) = self.withheld.take()
            && let Some(conn) = self.conn.as_mut().filter(|conn| conn.token == token)
        {
            conn.withheld = false;
            self.resume(Awaited::Durable(1));
            self.send_output();
        }
    }

    fn resume(&mut self, by: Awaited) {
        if let Some(conn) = &mut self.conn {
            self.queued |= conn.state.resumed(by);
        }
    }

    /// Sends as much as the socket takes.
    fn send_output(&mut self) {
        let Some(conn) = &mut self.conn else { return };
        conn.in_row = false;
        if !conn.withheld && conn.out > 0 {
            self.world.change(|kernel| {
                let sent = conn.out.min(kernel.room);
                (kernel.room, kernel.taken) = (kernel.room - sent, kernel.taken + sent);
                conn.out -= sent;
            });
        }
        self.watch(true);
    }

    fn take(&self) -> Option<Message> {
        self.world.threads[self.id].queue.lock().unwrap().pop_front()
    }

    fn on_messages(&mut self) {
        let late = self.world.fault == Fault::AnswersLate;
        self.world.kernel().rung[self.id] = false;
        if !late {
            self.world.threads[self.id].wake_flag.clear();
        }
        while let Some(message) = self.staged.pop_front().or_else(|| self.take()) {
            self.on_message(message);
        }
        if late {
            self.world.threads[self.id].wake_flag.clear();
        }
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Moved(conn) => self.move_in(*conn),
            Message::HandOver => self.move_out(1 - self.id),
            Message::Wake if self.id >= self.world.active.load(SeqCst) => self.move_out(0),
            Message::Wake => {}
            Message::Unpark(token) => {
                if self.conn.as_ref().is_some_and(|conn| conn.token == token) {
                    self.resume(Awaited::Shard);
                }
            }
            Message::Unpause => self.resume(Awaited::Pause),
            Message::Durable => {
                self.release_withheld();
                self.register_withheld();
            }
            Message::Push => {
                if let Some(conn) = &mut self.conn {
                    conn.out += 1;
                    // A connection with a full socket is sent to when the socket has room.
                    if !conn.interest.write && !conn.in_row {
                        conn.in_row = true;
                        self.row = true;
                    }
                }
            }
            Message::Kill if self.conn.is_some() => self.close(),
            // The client has moved, or is about to arrive here.
            Message::Kill => {
                let owner = self.world.owner.load(SeqCst);
                if owner != self.id {
                    self.world.send(owner, Message::Kill);
                }
            }
        }
    }

    fn move_out(&mut self, to: usize) {
        let world = self.world.clone();
        let any = world.fault == Fault::MovesAnything;
        let may = |conn: &Conn| any || conn.state.may_move(conn.pending());
        let Some(mut conn) = self.conn.take_if(|conn| may(conn)) else { return };
        world.kernel().watched = None;
        self.queued = false;
        let holds = world.fault != Fault::LeavesTheRoute;
        let mut route = holds.then(|| world.route.lock().unwrap());
        if world.fault != Fault::LeavesPushes {
            // Takes out all messages; those for the connection move with it.
            while let Some(message) = self.take() {
                match message {
                    Message::Push => conn.out += 1,
                    other => self.staged.push_back(other),
                }
            }
        }
        world.owner.store(to, SeqCst);
        world.put(to, Message::Moved(Box::new(conn)));
        drop(route.take());
        world.ring(to);
    }

    fn move_in(&mut self, mut conn: Conn) {
        self.generation += 1;
        conn.token = self.generation;
        conn.interest = Interest::READ;
        let arrival = conn.state.on_arrival(conn.pending());
        let fault = self.world.fault;
        conn.in_row = arrival.send;
        self.row |= arrival.send && fault != Fault::ForgetsOutput;
        self.queued |= arrival.queue && fault != Fault::ForgetsRequests;
        self.world.kernel().watched = Some((self.id, Interest::READ));
        self.conn = Some(conn);
        if self.world.killed.load(SeqCst) && fault != Fault::ForgetsTheKill {
            self.close();
        }
    }

    fn close(&mut self) {
        self.conn = None;
        self.queued = false;
        self.world.change(|kernel| (kernel.watched, kernel.closed) = (None, true));
    }
}

/// Runs `client` with two threads, the first of which has `conn`, and with `other` on a further
/// thread.
fn check(
    fault: Fault,
    prepare: impl Fn(&World, &mut Conn) + Sync + Send + 'static,
    other: Option<fn(&World)>,
    client: impl Fn(&World) + Sync + Send + 'static,
) {
    let mut model = loom::model::Builder::new();
    // With a bound of two, a fourth thread takes minutes.
    model.preemption_bound = Some(if other.is_some() { 1 } else { 2 });
    model.max_branches = 100_000;
    model.check(move || {
        let world = World::new(fault);
        world.kernel().parties = THREADS + 1 + usize::from(other.is_some());
        let mut conn = Conn::new();
        prepare(&world, &mut conn);
        let threads = [Worker::start(&world, 0, Some(conn)), Worker::start(&world, 1, None)];
        let other = other.map(|other| {
            let world = world.clone();
            spawn(move || {
                other(&world);
                world.leave();
            })
        });
        client(&world);
        threads.into_iter().chain(other).for_each(|thread| thread.join().unwrap());
        assert!(!world.kernel().stuck, "a wake-up was lost");
    });
}

#[path = "loom_moving/pending.rs"]
mod pending;
