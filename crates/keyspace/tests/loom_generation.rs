//! Model of a change of users' rights, against the commands that run, wait or are part of a transaction meanwhile: after
//! the change was answered, no command begins with the old rights, and none that has begun with them still runs.
//!
//! Each model has a fault that it must find.
#![cfg(loom)]

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use weft_keyspace::generation::Generations;
use weft_keyspace::safepoint::Safepoints;

/// A deliberate mistake in the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// An I/O thread reads the number before it enters its safepoint.
    ReadsOutside,
    /// EXEC is checked as a whole before the thread leaves its safepoint to stop the world, and not again.
    ChecksOnce,
    /// A slow command reads the number before it announces itself.
    AnnouncesLate,
    /// The change doesn't wait for announced commands.
    DoesNotWait,
    /// The change doesn't close the safepoints.
    DoesNotStop,
}

struct Server {
    safepoints: Safepoints,
    /// Whether the user may run commands and subscribe.
    rights: Generations<bool>,
    /// The change was answered.
    is_answered: AtomicBool,
    /// Commands of the slow lane that may do more than change keys.
    acting: Mutex<usize>,
    ended: Condvar,
    /// The user's client has a subscription, or was closed.
    subscribed: Mutex<(bool, bool)>,
}

impl Server {
    fn new(threads: usize) -> Arc<Server> {
        Arc::new(Server {
            safepoints: Safepoints::new(threads, threads),
            rights: Generations::new(true),
            is_answered: AtomicBool::new(false),
            acting: Mutex::new(0),
            ended: Condvar::new(),
            subscribed: Mutex::default(),
        })
    }

    /// A command of the user, which was found allowed, and which acts now.
    fn act(&self) {
        assert!(!self.is_answered.load(Ordering::SeqCst), "a command runs under the old rights");
    }

    /// The command that takes the rights away.
    fn change(&self, fault: Fault) {
        let stop = (fault != Fault::DoesNotStop).then(|| self.safepoints.close());
        let Ok(_) = self.rights.change(|_| Ok::<_, std::convert::Infallible>(false));
        self.close_subscriber();
        drop(stop);
        if fault != Fault::DoesNotWait {
            let mut acting = self.acting.lock().unwrap();
            while *acting > 0 {
                acting = self.ended.wait(acting).unwrap();
            }
        }
        self.close_subscriber();
        self.is_answered.store(true, Ordering::SeqCst);
    }

    fn close_subscriber(&self) {
        let mut client = self.subscribed.lock().unwrap();
        if client.0 {
            *client = (false, true);
        }
    }
}

/// The user's session: the rights that it knows, and their number.
struct Session {
    known: (bool, u64),
}

impl Session {
    /// Whether a command may run, where `number` is in force.
    fn may_run(&mut self, server: &Server, number: u64) -> bool {
        if self.known.1 != number {
            self.known = server.rights.current();
        }
        self.known.0
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// An I/O thread: batches of commands.
fn batches(server: &Server, own: usize, fault: Fault) {
    let mut session = Session { known: server.rights.current() };
    for _ in 0..2 {
        let early = server.rights.number();
        server.safepoints.enter(own);
        let number = if fault == Fault::ReadsOutside { early } else { server.rights.number() };
        if session.may_run(server, number) {
            server.act();
        }
        server.safepoints.leave(own);
    }
}

fn execute(fault: Fault) {
    check(move || {
        let server = Server::new(1);
        let thread = loom::thread::spawn({
            let server = server.clone();
            move || batches(&server, 0, fault)
        });
        server.change(fault);
        thread.join().unwrap();
    });
}

#[test]
fn loom_no_batch_runs_under_old_rights() {
    execute(Fault::None);
}

#[test]
#[should_panic(expected = "under the old rights")]
fn loom_number_read_outside_of_the_safepoint_is_found() {
    execute(Fault::ReadsOutside);
}

#[test]
#[should_panic(expected = "under the old rights")]
fn loom_change_without_a_stop_is_found() {
    execute(Fault::DoesNotStop);
}

/// EXEC on an I/O thread that has to leave its safepoint, to stop the world.
fn exec(fault: Fault) {
    check(move || {
        let server = Server::new(1);
        let thread = loom::thread::spawn({
            let server = server.clone();
            move || {
                let mut session = Session { known: server.rights.current() };
                server.safepoints.enter(0);
                let mut may = session.may_run(&server, server.rights.number());
                server.safepoints.leave(0);
                let _stop = server.safepoints.close();
                if fault != Fault::ChecksOnce {
                    may = session.may_run(&server, server.rights.number());
                }
                if may {
                    server.act();
                }
            }
        });
        server.change(fault);
        thread.join().unwrap();
    });
}

#[test]
fn loom_exec_is_checked_again_after_it_left_the_safepoint() {
    exec(Fault::None);
}

#[test]
#[should_panic(expected = "under the old rights")]
fn loom_exec_that_is_checked_once_is_found() {
    exec(Fault::ChecksOnce);
}

/// A transaction or a script in the slow lane; it subscribes, too.
fn slow(fault: Fault) {
    check(move || {
        let server = Server::new(1);
        let thread = loom::thread::spawn({
            let server = server.clone();
            move || {
                let mut session = Session { known: server.rights.current() };
                let early = server.rights.number();
                *server.acting.lock().unwrap() += 1;
                let number =
                    if fault == Fault::AnnouncesLate { early } else { server.rights.number() };
                if session.may_run(&server, number) {
                    server.act();
                    let mut client = server.subscribed.lock().unwrap();
                    client.0 = !client.1;
                }
                *server.acting.lock().unwrap() -= 1;
                server.ended.notify_all();
            }
        });
        server.change(fault);
        let client = *server.subscribed.lock().unwrap();
        assert!(!client.0, "a subscription under the old rights");
        thread.join().unwrap();
    });
}

#[test]
fn loom_slow_command_ends_before_the_answer() {
    slow(Fault::None);
}

#[test]
#[should_panic(expected = "under the old rights")]
fn loom_slow_command_that_announces_itself_late_is_found() {
    slow(Fault::AnnouncesLate);
}

#[test]
#[should_panic(expected = "under the old rights")]
fn loom_change_that_does_not_wait_is_found() {
    slow(Fault::DoesNotWait);
}

/// A client is blocked. The thread that serves it is inside its safepoint, with the number that it read there, and the
/// session's own number is from the time when the client was blocked.
fn serve(fault: Fault) {
    check(move || {
        let server = Server::new(2);
        let mut waiting = Session { known: server.rights.current() };
        let thread = loom::thread::spawn({
            let server = server.clone();
            move || {
                server.safepoints.enter(0);
                let number = match fault {
                    Fault::ChecksOnce => waiting.known.1,
                    _ => server.rights.number(),
                };
                if waiting.may_run(&server, number) {
                    server.act();
                }
                server.safepoints.leave(0);
            }
        });
        server.change(fault);
        thread.join().unwrap();
    });
}

#[test]
fn loom_blocked_client_is_checked_before_it_is_served() {
    serve(Fault::None);
}

#[test]
#[should_panic(expected = "under the old rights")]
fn loom_blocked_client_that_is_not_checked_again_is_found() {
    serve(Fault::ChecksOnce);
}
