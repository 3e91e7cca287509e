//! The kinds of pending work when a connection moves, one by one, each with the fault that would
//! lose it.

use super::*;

/// Makes the first thread move the connection.
fn hand_over(world: &World) {
    world.send(0, Message::HandOver);
}

fn a_request_in_pieces(fault: Fault) {
    check(
        fault,
        |_, _| {},
        None,
        |world| {
            world.write(1);
            hand_over(world);
            world.write(2);
            world.write(1);
            world.wait_for(Some(2));
        },
    );
}

#[test]
fn bytes_in_the_socket_and_half_a_request_are_found() {
    a_request_in_pieces(Fault::None);
}

/// The connection has two requests that are read but not executed.
fn requests_that_are_read(fault: Fault) {
    let ready = |world: &World, conn: &mut Conn| {
        (conn.state, conn.kept) = (State::Ready, 2);
        hand_over(world);
    };
    check(fault, ready, None, |world| world.wait_for(Some(2)));
}

#[test]
fn requests_that_are_read_are_executed() {
    requests_that_are_read(Fault::None);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn requests_that_are_not_queued_are_never_executed() {
    requests_that_are_read(Fault::ForgetsRequests);
}

/// Another thread holds the shard and releases it.
fn a_busy_shard(fault: Fault) {
    let held = |world: &World, _: &mut Conn| assert!(world.shard.try_lock());
    check(fault, held, Some(World::release_shard), |world| {
        world.write(2);
        hand_over(world);
        world.wait_for(Some(1));
    });
}

#[test]
fn client_waiting_for_a_shard_is_woken() {
    a_busy_shard(Fault::None);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn client_moved_while_it_waits_for_a_shard_is_not_woken() {
    a_busy_shard(Fault::MovesAnything);
}

fn a_pause(fault: Fault) {
    let paused = |world: &World, _: &mut Conn| world.paused.store(true, SeqCst);
    check(fault, paused, Some(World::unpause), |world| {
        world.write(2);
        hand_over(world);
        world.wait_for(Some(1));
    });
}

#[test]
fn client_held_back_by_a_pause_continues() {
    a_pause(Fault::None);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn client_moved_during_a_pause_misses_its_end() {
    a_pause(Fault::MovesAnything);
}

fn a_slow_disk(fault: Fault) {
    let slow = |world: &World, _: &mut Conn| world.durable.store(false, SeqCst);
    check(fault, slow, Some(World::make_durable), |world| {
        world.write(2);
        hand_over(world);
        world.wait_for(Some(1));
    });
}

#[test]
fn replies_that_wait_for_the_disk_are_sent() {
    a_slow_disk(Fault::None);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn replies_of_a_moved_client_wait_forever() {
    a_slow_disk(Fault::MovesAnything);
}

/// Pushes are queued for a connection whose socket is full.
fn a_full_socket(fault: Fault) {
    let full = |world: &World, conn: &mut Conn| {
        world.kernel().room = 0;
        (conn.out, conn.in_row) = (1, true);
        hand_over(world);
    };
    check(fault, full, None, |world| {
        world.write(2);
        world.make_room();
        world.wait_for(Some(2));
    });
}

#[test]
fn output_that_the_socket_did_not_take_is_sent() {
    a_full_socket(Fault::None);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn a_socket_that_is_not_watched_again_is_never_written() {
    a_full_socket(Fault::NeverWidens);
}

/// The same without any other event.
fn unsent_pushes(fault: Fault) {
    let pushed = |world: &World, conn: &mut Conn| {
        (conn.out, conn.in_row) = (1, true);
        hand_over(world);
    };
    check(fault, pushed, None, |world| world.wait_for(Some(1)));
}

#[test]
fn unsent_pushes_are_sent() {
    unsent_pushes(Fault::None);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn unsent_pushes_in_no_row_are_never_sent() {
    unsent_pushes(Fault::ForgetsOutput);
}

fn pushes_on_the_way(fault: Fault) {
    check(
        fault,
        |_, _| {},
        Some(World::push),
        |world| {
            hand_over(world);
            world.write(2);
            world.wait_for(Some(2));
        },
    );
}

#[test]
fn pushes_that_meet_a_move_arrive() {
    pushes_on_the_way(Fault::None);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn pushes_left_in_the_old_mailbox_are_lost() {
    pushes_on_the_way(Fault::LeavesPushes);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn pushes_along_a_route_that_changes_are_lost() {
    pushes_on_the_way(Fault::LeavesTheRoute);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn messages_are_lost_if_the_wake_flag_is_cleared_late() {
    pushes_on_the_way(Fault::AnswersLate);
}

fn a_kill(fault: Fault) {
    check(
        fault,
        |_, _| {},
        Some(World::kill),
        |world| {
            hand_over(world);
            world.wait_for(None);
        },
    );
}

#[test]
fn a_kill_finds_its_client() {
    a_kill(Fault::None);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn a_kill_that_overtakes_its_client_is_lost() {
    a_kill(Fault::ForgetsTheKill);
}

/// A connection arrives at the second thread, which is no longer active.
#[test]
fn client_moved_to_a_thread_going_to_sleep_is_served() {
    let on_the_way = |world: &World, conn: &mut Conn| {
        (conn.state, conn.kept) = (State::Ready, 1);
        hand_over(world);
    };
    check(Fault::None, on_the_way, Some(|world| world.set_active(1)), |world| {
        world.write(2);
        world.wait_for(Some(2));
    });
}

/// Moves there and back, with a busy shard.
#[test]
fn client_moved_back_and_forth_is_served() {
    let held = |world: &World, _: &mut Conn| {
        assert!(world.shard.try_lock());
        world.put(1, Message::HandOver);
        hand_over(world);
    };
    check(Fault::None, held, Some(World::release_shard), |world| {
        world.ring(1);
        world.write(2);
        world.wait_for(Some(1));
    });
}
