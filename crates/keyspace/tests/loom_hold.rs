//! Model of a thread that leaves its safepoint while it holds shards. The types of `hold.rs` make
//! this fault impossible; this model shows that it is a fault and would be detected.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use weft_keyspace::safepoint::Safepoints;

/// The data of a transaction: it writes both halves or none.
struct World {
    safepoints: Safepoints,
    halves: [UnsafeCell<u32>; 2],
}

// SAFETY: loom checks that access is exclusive.
unsafe impl Sync for World {}

/// The fault of the executing thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// It leaves its safepoint in the middle of the transaction and comes back.
    LeavesInTheMiddle,
}

fn write(world: &World, half: usize) {
    // SAFETY: inside its safepoint, and the only thread that writes.
    world.halves[half].with_mut(|v| unsafe { *v += 1 });
}

/// Reads both halves with the world stopped: they agree.
fn look(world: &World) {
    let closed = world.safepoints.close();
    // SAFETY: the safepoints are closed.
    let [a, b] = [0, 1].map(|half| world.halves[half].with(|v| unsafe { *v }));
    assert_eq!(a, b, "the middle of a transaction was seen");
    drop(closed);
}

fn transaction(world: &World, planted: Planted) {
    world.safepoints.enter(0);
    write(world, 0);
    match planted {
        Planted::Nothing => {}
        Planted::LeavesInTheMiddle => {
            world.safepoints.leave(0);
            world.safepoints.enter(0);
        }
    }
    write(world, 1);
    world.safepoints.leave(0);
}

fn run(planted: Planted) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let world = Arc::new(World {
            safepoints: Safepoints::new(1, 1),
            halves: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let executing = {
            let world = world.clone();
            loom::thread::spawn(move || transaction(&world, planted))
        };
        look(&world);
        executing.join().unwrap();
        look(&world);
    });
}

#[test]
fn loom_no_thread_sees_half_a_transaction() {
    run(Planted::Nothing);
}

#[test]
#[should_panic(expected = "the middle of a transaction was seen")]
fn loom_leaving_in_the_middle_is_detected() {
    run(Planted::LeavesInTheMiddle);
}
