//! Model of a command that waits outside of the process while it holds its shards, of one in the
//! slow lane and of one that stops the world: each comes to its end, and the world is only held
//! when neither of the others is in progress.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use weft_keyspace::{ExecContext, Guard, Keyspace, SHARDS, ShardSet, SlowLaneThread, Waiter};

const NOW: i64 = 1000;

/// Halves of the work of each command.
#[derive(Default)]
struct Done([AtomicU32; 2]);

impl Done {
    fn twice(&self, of: usize) {
        self.0[of].fetch_add(1, Ordering::Relaxed);
        thread::yield_now();
        self.0[of].fetch_add(1, Ordering::Relaxed);
    }

    fn look(&self) {
        for done in &self.0 {
            assert_eq!(done.load(Ordering::Relaxed) % 2, 0, "the middle of a command was seen");
        }
    }
}

fn with_hand(
    ks: &Keyspace,
    thread: u32,
    run: impl FnOnce(&mut SlowLaneThread<'_>, &mut ExecContext),
) {
    let waiter = Waiter { thread, token: 0 };
    let mut hand = SlowLaneThread::new(ks, waiter, &thread::yield_now, &|| NOW);
    run(&mut hand, &mut ExecContext::new(NOW, u64::from(thread)));
}

fn end(mut guard: Guard<'_>) {
    guard.begin_commit();
    guard.publish();
}

fn check(other: fn(&Keyspace, &Done)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.max_branches = 100_000;
    model.check(move || {
        assert_eq!(SHARDS, 2);
        let shared = Arc::new((Keyspace::seeded(1, 1, 7), Done::default()));
        let outside = {
            let shared = shared.clone();
            thread::spawn(move || {
                with_hand(&shared.0, 1, |hand, context| {
                    let guard = hand.hold_outside(context, &ShardSet::one(0));
                    shared.1.twice(0);
                    end(guard);
                });
            })
        };
        let other = {
            let shared = shared.clone();
            thread::spawn(move || other(&shared.0, &shared.1))
        };
        with_hand(&shared.0, 3, |hand, context| {
            let guard = hand.world(context);
            assert!(guard.is_world());
            shared.1.look();
        });
        outside.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn loom_the_world_waits_for_both_kinds_of_commands() {
    check(|ks, done| {
        with_hand(ks, 2, |hand, context| {
            let guard = hand.hold(context, &ShardSet::one(1));
            done.twice(1);
            end(guard);
        });
    });
}

#[test]
fn loom_a_command_gets_a_shard_held_outside_eventually() {
    check(|ks, done| {
        with_hand(ks, 2, |hand, context| {
            let guard = hand.hold(context, &ShardSet::of([0, 1]));
            done.look();
            end(guard);
        });
    });
}
