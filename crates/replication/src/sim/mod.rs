//! Servers that replicate in a simulated network, by seed.
//!
//! Each run has two to four servers with the real machines. Clients write transactions over several
//! databases. Links are cut at any byte, or die silently. Replies arrive late, or after they are no
//! longer expected. Copies fail. Servers restart with current, old or no data. Roles change at any
//! time, clocks jump, backlogs and limits are too small. Then the faults stop: one server is
//! primary, the others follow it in a chain or directly. All must reach the same offset with the
//! same data. `truth` and `world::check_invariants` check the invariants at all times.
//!
//! `REPL_RUNS` is the number of runs; `REPL_SEED` repeats one with all output.

mod io;
mod net;
mod server;
mod shard;
mod truth;
mod world;

use crate::planted::{Fault, plant};
use io::Event;
use shard::Shard;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::{Tally, World, port_of};

/// Duration of the faults, of the writes after them, and of the limit for convergence, in ms.
const FAULTS: u64 = 12_000;
const WRITES: u64 = 1500;
const REST: u64 = 60_000;

/// Runs a seed. Returns its totals, or the violation.
fn run(seed: u64, verbose: bool) -> Result<Tally, String> {
    run_world(World::new(seed, false), verbose).map(|(tally, _)| tally)
}

/// The same with a cluster that sets the roles.
fn run_shard(seed: u64, verbose: bool) -> Result<(Tally, Option<Shard>), String> {
    let mut world = World::new(seed, true);
    for server in 0..world.servers.len() {
        let life = world.life(server);
        world.soon(300, Event::See(life));
    }
    world.soon(300, Event::Rule);
    run_world(world, verbose)
}

/// Runs a world to its end.
fn run_world(mut world: World, verbose: bool) -> Result<(Tally, Option<Shard>), String> {
    world.verbose = verbose;
    world.later(FAULTS, Event::Calm);
    world.later(FAULTS + WRITES, Event::Quiet);
    world.soon(300, Event::Chaos);
    let mut quiet = false;
    while let Some(event) = world.next() {
        match event {
            Event::Check if quiet && world.is_at_rest() && world.is_shard_settled() => {
                return Ok((world.tally, world.shard));
            }
            Event::Check if world.now > FAULTS + REST => {
                let servers = world.servers.iter().map(|server| {
                    let state = server.node.follower().map(crate::replica::Follower::state_name);
                    format!(
                        "{:?}: data {}, {:?}",
                        state,
                        server.data,
                        server.node.stream().history()
                    )
                });
                return Err(format!("no rest: {}", servers.collect::<Vec<_>>().join("; ")));
            }
            Event::Check => world.later(97, Event::Check),
            Event::Quiet => {
                quiet = true;
                // A delayed PSYNC ... FAILOVER may have promoted another server.
                if world.shard.is_none() {
                    arrange(&mut world);
                }
                world.later(97, Event::Check);
            }
            Event::Write(_) if quiet => {}
            event => happen(&mut world, event),
        }
        if let Some(wrong) = world.wrong.take() {
            return Err(wrong);
        }
    }
    Err("nothing happens any more".to_string())
}

fn happen(world: &mut World, event: Event) {
    match event {
        Event::Tick(life) if world.is_alive(life) => {
            world.call(life.server, |node, now, out| node.tick(now, out));
            world.soon(200, event);
        }
        Event::Write(server) => {
            world.write(server);
            world.soon(world.pause, event);
        }
        Event::Connected(at) => {
            let (life, link) = (world.connections[at].replica, world.connections[at].link);
            if world.is_alive(life) {
                world.call(life.server, |node, now, out| node.connected(now, link, out));
            }
        }
        Event::NoConnection(life, link) | Event::LateEnd(life, link) if world.is_alive(life) => {
            world.call(life.server, |node, now, out| node.link_closed(now, link, "refused", out));
        }
        Event::Deliver(at, end) => world.deliver(at, end),
        Event::Reread(life, link) if world.is_alive(life) => world.arrives(life, link, &[]),
        Event::Pump(at) => world.pump(at),
        Event::BulkSent(at) | Event::Written(at, _) => {
            let (life, conn) = (world.connections[at].primary, world.connections[at].conn);
            if world.is_alive(life) {
                world.call(life.server, |node, now, out| match event {
                    Event::Written(_, to) => node.written(now, conn, to, out),
                    _ => node.bulk_sent(now, conn, out),
                });
            }
        }
        Event::SnapshotBegan(life, snapshot) if world.is_alive(life) => {
            world.snapshot_began(life, snapshot)
        }
        Event::SnapshotReady(life, snapshot) if world.is_alive(life) => {
            world.snapshot_ready(life, snapshot)
        }
        Event::Loaded(life, link) if world.is_alive(life) => world.loaded(life, link),
        Event::Paused(life) if world.is_alive(life) => {
            // The failover may have been aborted meanwhile.
            let waits = world.servers[life.server].node.failover().name() != "no-failover";
            world.servers[life.server].paused = waits;
            world.collect(life.server);
            world.call(life.server, |node, now, out| node.writes_paused(now, out));
        }
        Event::Apply(life, link) if world.is_alive(life) => world.apply(life, link),
        Event::Collect(life) if world.is_alive(life) => world.collect(life.server),
        Event::Rule => world.rule_shard(),
        Event::See(life) if world.is_alive(life) => world.see_shard(life),
        Event::Duty(life) if world.is_alive(life) => world.carry_duty(life),
        Event::Commit(life) => world.commit_role(life),
        Event::Tick(_)
        | Event::Paused(_)
        | Event::Collect(_)
        | Event::See(_)
        | Event::Duty(_)
        | Event::NoConnection(..)
        | Event::LateEnd(..)
        | Event::Reread(..)
        | Event::SnapshotBegan(..)
        | Event::SnapshotReady(..)
        | Event::Loaded(..)
        | Event::Apply(..) => {}
        Event::Chaos if !world.calm => {
            chaos(world);
            world.soon(700, Event::Chaos);
        }
        Event::Chaos => {}
        Event::Calm => calm(world),
        Event::Quiet | Event::Check => unreachable!("the run has seen to it"),
    }
}

/// Injects a fault or an operator's command.
fn chaos(world: &mut World) {
    let count = world.servers.len() as u64;
    let server = world.rng.below(count) as usize;
    let other = (server + 1 + world.rng.below(count - 1) as usize) % count as usize;
    let what = world.rng.below(100);
    world.say(|| format!("---- {what} for {server} and {other}"));
    if what >= 35 {
        // Saving and a change of role are cuts: earlier writes must be in the stream.
        world.collect(server);
    }
    match what {
        0..35 => {
            let open: Vec<usize> = (0..world.connections.len())
                .filter(|at| {
                    !world.connections[*at].to_primary.ended
                        || !world.connections[*at].to_replica.ended
                })
                .collect();
            if !open.is_empty() {
                let at = open[world.rng.below(open.len() as u64) as usize];
                world.tally.cuts += 1;
                if what < 4 {
                    world.connections[at].dead = true;
                } else {
                    world.connections[at].cut(&mut world.rng);
                    world.schedule(at, net::End::Replica);
                    world.schedule(at, net::End::Primary);
                }
            }
        }
        35..45 => {
            if let Some(file) = world.file(server) {
                world.servers[server].file = Some(file);
            }
        }
        45..60 => {
            let file = match what {
                45..53 => world.file(server),
                53..57 => world.servers[server].file,
                _ => None,
            };
            if world.shard.is_some() {
                return world.restart_member(server, file);
            }
            let follows = match world.rng.below(6) {
                0 => None,
                1 => Some(other),
                _ => world.follows(server),
            };
            world.restart(server, file, follows);
        }
        60..78 | 82..94 if world.shard.is_some() => {}
        60..68 => drop(world.call(server, |node, now, out| node.replica_of_none(now, out))),
        68..78 => drop(
            world.call(server, |node, now, out| node.replica_of(now, "h", port_of(other), out)),
        ),
        78..82 => world.servers[server].skew += 1 + world.rng.below(8000),
        82..92 => {
            let (port, force) = (port_of(other).to_string(), world.chance(30));
            let forced: [&[u8]; 6] = [b"to", b"h", port.as_bytes(), b"timeout", b"500", b"force"];
            let args: &[&[u8]] =
                if force { &forced } else { [&[][..], &forced[..5]][world.rng.below(2) as usize] };
            drop(world.call(server, |node, now, out| node.fail_over(now, args, out)));
        }
        92..94 => drop(world.call(server, |node, now, out| node.fail_over(now, &[b"abort"], out))),
        94..97 => world.call(server, |node, now, out| node.request_acks(now, out)),
        _ => {
            let mut settings = world.settings(server);
            // The checks use the initial sizes of backlog and limit.
            settings.backlog_size = world.servers[server].node.settings().backlog_size;
            settings.output.hard = world.servers[server].node.settings().output.hard;
            world.call(server, |node, now, out| node.set(now, settings, out));
        }
    }
}

/// Stops the faults: one primary, and the others below it.
fn calm(world: &mut World) {
    world.calm = true;
    if world.shard.is_some() {
        return;
    }
    let mut order: Vec<usize> = (0..world.servers.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, world.rng.below(at as u64 + 1) as usize);
    }
    world.say(|| format!("==== calm: {order:?}"));
    for (at, &server) in order.iter().enumerate() {
        world.collect(server);
        let _ = world.call(server, |node, now, out| node.fail_over(now, &[b"abort"], out));
        let above = (at > 0).then(|| order[world.rng.below(at as u64) as usize]);
        world.final_roles.push((server, above));
    }
    arrange(world);
}

/// Sets every server's role, as an operator would.
fn arrange(world: &mut World) {
    for (server, above) in world.final_roles.clone() {
        world.collect(server);
        let result = match above {
            None => world.call(server, |node, now, out| node.replica_of_none(now, out)),
            Some(above) => {
                let above = port_of(above);
                world.call(server, |node, now, out| node.replica_of(now, "h", above, out)).map(drop)
            }
        };
        if let Err(wrong) = result {
            world.fault(wrong);
        }
    }
}

fn runs(default: u64) -> u64 {
    std::env::var("REPL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(default)
}

#[test]
fn replicas_are_prefixes_and_converge() {
    if let Some(seed) = std::env::var("REPL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", run(seed, true));
        return;
    }
    let runs = runs(2000);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(2);
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let part = |thread: u64| {
            move || {
                let mut tally = Tally::default();
                for seed in (thread..runs).step_by(threads as usize) {
                    match run(seed, false) {
                        Ok(more) => tally.add(&more),
                        Err(wrong) => panic!("REPL_SEED={seed}: {wrong}"),
                    }
                }
                tally
            }
        };
        let parts: Vec<_> = (0..threads).map(|thread| scope.spawn(part(thread))).collect();
        for part in parts {
            tally.add(&part.join().expect("every run is right"));
        }
    });
    println!("{runs} runs: {tally:?}");
    for (what, count) in [
        ("partial resynchronizations", tally.partial),
        ("full synchronizations", tally.full),
        ("promotions", tally.promotions),
        ("failovers", tally.failovers),
        ("restarts", tally.restarts),
        ("failed loads", tally.loads_failed),
        ("replicas dropped for their limits", tally.dropped_for_limits),
        ("timeouts", tally.timeouts),
    ] {
        assert!(runs < 200 || count > runs / 50, "few {what}: {count}");
    }
}

#[test]
fn shard_loses_no_confirmed_write() {
    if let Some(seed) = std::env::var("REPL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", run_shard(seed, true).map(|_| ()));
        return;
    }
    let runs = runs(600);
    let (mut tally, mut failovers, mut handovers, mut confirmations) = (Tally::default(), 0, 0, 0);
    for seed in 0..runs {
        match run_shard(seed, false) {
            Ok((more, shard)) => {
                let shard = shard.expect("a run with a shard");
                tally.add(&more);
                failovers += shard.failovers;
                handovers += shard.handovers;
                confirmations += shard.confirmations;
            }
            Err(wrong) => panic!("REPL_SEED={seed}: {wrong}"),
        }
    }
    println!(
        "{runs} runs: {tally:?}, {failovers} failovers, {handovers} handovers, {confirmations} confirmations"
    );
    for (what, count) in [
        ("partial resynchronizations", tally.partial),
        ("full synchronizations", tally.full),
        ("restarts", tally.restarts),
        ("failovers", failovers),
        ("handovers", handovers),
        ("confirmations", confirmations),
    ] {
        assert!(runs < 200 || count > runs / 50, "few {what}: {count}");
    }
}

#[test]
fn planted_faults_of_shards_are_found() {
    for fault in [Fault::CopyNotAsked, Fault::OldEpochApplied, Fault::ReportedLate] {
        plant::set(Some(fault));
        let found = (0..3000).find(|seed| {
            catch_unwind(AssertUnwindSafe(|| run_shard(*seed, false)))
                .map_or(true, |result| result.is_err())
        });
        plant::set(None);
        let Some(seed) = found else { panic!("{fault:?} is not found") };
        println!("{fault:?}: seed {seed}");
        assert!(run_shard(seed, false).is_ok(), "the run succeeds without the fault");
    }
}

#[test]
fn planted_faults_are_found() {
    for fault in [
        Fault::SecondIdForever,
        Fault::BacklogShort,
        Fault::IdNotShifted,
        Fault::AcksReceived,
        Fault::TornTransactions,
        Fault::DroppedDataClaimed,
        Fault::ChainNotCut,
        Fault::DatabaseForgotten,
        Fault::LateAnswersCount,
        Fault::UnkeptWritesIgnored,
        Fault::NoTimeouts,
        Fault::PauseNotAwaited,
    ] {
        plant::set(Some(fault));
        let found = (0..3000).find(|seed| {
            catch_unwind(AssertUnwindSafe(|| run(*seed, false)))
                .map_or(true, |result| result.is_err())
        });
        plant::set(None);
        let Some(seed) = found else { panic!("{fault:?} is not found") };
        println!("{fault:?}: seed {seed}");
        assert!(run(seed, false).is_ok(), "the run succeeds without the fault");
    }
}
