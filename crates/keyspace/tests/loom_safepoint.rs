//! Model of the safepoints: no thread is inside while they are closed, and every thread gets
//! through.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use weft_keyspace::safepoint::Safepoints;

struct World {
    safepoints: Safepoints,
    /// Written by the closer, read by the threads inside: loom reports a race if both are
    /// possible.
    value: UnsafeCell<u32>,
}

// SAFETY: loom checks that access is exclusive.
unsafe impl Sync for World {}

fn run(enterers: usize, closers: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let world = Arc::new(World {
            safepoints: Safepoints::new(enterers, enterers),
            value: UnsafeCell::new(0),
        });
        let mut threads = Vec::new();
        for own in 0..enterers {
            let world = world.clone();
            threads.push(loom::thread::spawn(move || {
                world.safepoints.enter(own);
                // SAFETY: no thread writes while this one is inside its safepoint.
                world.value.with(|v| assert!(unsafe { *v } <= 2));
                world.safepoints.leave(own);
            }));
        }
        for _ in 1..closers {
            let world = world.clone();
            threads.push(loom::thread::spawn(move || close(&world)));
        }
        close(&world);
        threads.into_iter().for_each(|t| t.join().unwrap());
        let _all = world.safepoints.close();
        // SAFETY: all threads have ended.
        world.value.with(|v| assert_eq!(unsafe { *v }, closers as u32));
    });
}

fn close(world: &World) {
    let closed = world.safepoints.close();
    // SAFETY: the safepoints are closed.
    world.value.with_mut(|v| unsafe { *v += 1 });
    drop(closed);
}

#[test]
fn loom_one_enters_one_closes() {
    run(1, 1);
}

#[test]
fn loom_two_enter_one_closes() {
    run(2, 1);
}

#[test]
fn loom_one_enters_two_close() {
    run(1, 2);
}

/// A thread is started while another stops the world. Since its safepoint is taken into use
/// first, the closer waits for it.
#[test]
fn loom_a_safepoint_is_taken_into_use_while_another_closes() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let world =
            Arc::new(World { safepoints: Safepoints::new(1, 0), value: UnsafeCell::new(0) });
        let starter = world.clone();
        let starter = loom::thread::spawn(move || {
            starter.safepoints.use_up_to(1);
            let inside = starter.clone();
            let inside = loom::thread::spawn(move || {
                inside.safepoints.enter(0);
                // SAFETY: no thread writes while this one is inside its safepoint.
                inside.value.with(|v| assert!(unsafe { *v } <= 1));
                inside.safepoints.leave(0);
            });
            inside.join().unwrap();
        });
        close(&world);
        starter.join().unwrap();
    });
}
