//! The published placements, and rules for every plan on every machine.

use std::collections::BTreeSet;

use proptest::prelude::*;
use weft_base::cgroup::CpuQuota;
use weft_base::cpulist::{self, CpuSet};
use weft_base::machine::{Cpu, Machine, Node};
use weft_testkit::machines::{self, Layout, known};

use super::interrupts;
use super::model::{Kind, Plan, Scheme};
use super::planner::{self, Impossible};
use super::request::{Card, Choice, Request, Server};
use super::show;
use crate::cpus::Cpus;

pub(super) fn read(layout: &Layout) -> Machine {
    Machine::read(layout.build().root())
}

fn list(text: &str) -> CpuSet {
    cpulist::parse(text).unwrap()
}

pub(super) fn servers(threads: &[usize]) -> Vec<Server> {
    let server = |(at, &threads)| Server { name: format!("s{at}"), threads, ..Server::default() };
    threads.iter().enumerate().map(server).collect()
}

fn card(queues: usize, node: Option<usize>) -> Card {
    let named = |kind: &str| (0..queues).map(|queue| format!("{kind}-{queue}")).collect();
    Card {
        name: "eth0".to_string(),
        node,
        irqs: (0..queues).map(|queue| (60 + queue as u32, format!("eth0-{queue}"))).collect(),
        receive: named("rx"),
        transmit: named("tx"),
    }
}

fn plan(machine: &Machine, threads: &[usize], cards: &[Card], irq: Choice) -> Plan {
    let servers = servers(threads);
    let request = Request { servers, cards: cards.to_vec(), irq, ..Request::default() };
    planner::plan(machine, &request).unwrap()
}

fn masks(plan: &Plan) -> Vec<String> {
    plan.instances.iter().map(|instance| instance.mask().to_string()).collect()
}

fn irqs(plan: &Plan) -> Vec<String> {
    let irqs = plan.interfaces.iter().flat_map(|interface| &interface.irqs);
    irqs.map(|irq| irq.cpus.to_string()).collect()
}

#[test]
fn three_servers_on_six_cores_as_published_with_dedicated_interrupts() {
    let machine = read(&known::six_cores());
    let plan = plan(&machine, &[1, 1, 1], &[card(4, None)], Choice::Dedicated);
    assert_eq!(plan.interrupts.to_string(), "0-1");
    assert_eq!(irqs(&plan), ["0", "1", "0", "1"]);
    assert_eq!(masks(&plan), ["2-3", "4-5", "3-5"]);
    let io: Vec<&[usize]> = plan.instances.iter().map(|instance| &instance.io[..]).collect();
    assert_eq!(io, [[2], [4], [3]], "no two main threads on one CPU");
    // One queue: both CPUs still process its packets.
    let plan = self::plan(&machine, &[1, 1, 1], &[card(1, None)], Choice::Dedicated);
    assert_eq!(irqs(&plan), ["0"]);
    assert_eq!(plan.interfaces[0].receive[0].cpus.to_string(), "0-1");
    assert_eq!(masks(&plan), ["2-3", "4-5", "3-5"]);
}

#[test]
fn three_servers_on_six_cores_as_published_with_spread_interrupts() {
    let machine = read(&known::six_cores());
    for irq in [Choice::Spread, Choice::Auto] {
        let plan = plan(&machine, &[1, 1, 1], &[card(6, None)], irq);
        assert_eq!(plan.scheme, Scheme::Spread);
        assert_eq!(masks(&plan), ["0-1", "2-3", "4-5"]);
        assert_eq!(irqs(&plan), ["0", "1", "2", "3", "4", "5"]);
        assert!(plan.interfaces[0].receive.iter().all(|queue| queue.cpus.is_empty()));
    }
    let plan = plan(&machine, &[1, 1, 1], &[card(2, None)], Choice::Spread);
    let receive: Vec<String> =
        plan.interfaces[0].receive.iter().map(|queue| queue.cpus.to_string()).collect();
    assert_eq!(
        (irqs(&plan), receive),
        (vec!["0".into(), "1".into()], vec!["0,2,4".into(), "1,3,5".into()])
    );
}

#[test]
fn four_threads_on_two_interleaved_nodes_stay_on_one() {
    let machine = read(&known::interleaved());
    let alone = plan(&machine, &[4], &[], Choice::Auto);
    assert_eq!(alone.instances[0].io, [0, 2, 4, 6]);
    assert_eq!(alone.instances[0].background.to_string(), "8");
    assert_eq!(alone.scheme, Scheme::None);
    let with_card = plan(&machine, &[4], &[card(4, Some(0))], Choice::Auto);
    assert_eq!(with_card.interrupts.to_string(), "0,2");
    assert_eq!(with_card.instances[0].io, [4, 6, 8, 10]);
    // A card on the other node draws the server there.
    let other = plan(&machine, &[4], &[card(4, Some(1))], Choice::Auto);
    assert_eq!(
        (other.interrupts.to_string().as_str(), &other.instances[0].io[..]),
        ("1,3", &[5, 7, 9, 11][..])
    );
    // Two servers without a card: a node each.
    let two = plan(&machine, &[4, 4], &[], Choice::Auto);
    assert_eq!(
        (&two.instances[0].io[..], &two.instances[1].io[..]),
        (&[0, 2, 4, 6][..], &[1, 3, 5, 7][..])
    );
}

#[test]
fn with_smt_no_two_threads_share_a_core_while_one_is_free() {
    let machine = read(&known::two_sockets(true));
    for (threads, irq) in [
        (vec![4], Choice::Auto),
        (vec![12], Choice::None),
        (vec![16], Choice::None),
        (vec![4; 6], Choice::None),
        (vec![1; 24], Choice::None),
        (vec![5, 7, 3, 8], Choice::None),
    ] {
        let plan = plan(&machine, &threads, &[card(8, Some(1))], irq);
        let io: CpuSet = plan.instances.iter().flat_map(|instance| instance.io.clone()).collect();
        assert_eq!(machine.cores(&io), threads.iter().sum::<usize>(), "{threads:?}");
        assert!(!plan.notes.iter().any(|note| note.contains("share")), "{:?}", plan.notes);
    }
    // With one thread more than cores, two share one, and a remark says so.
    let plan = plan(&machine, &[25], &[], Choice::None);
    let io: CpuSet = plan.instances[0].io.iter().copied().collect();
    assert_eq!((io.len(), machine.cores(&io)), (25, 24));
    assert!(plan.notes.iter().any(|note| note.contains("share theirs")), "{:?}", plan.notes);
    assert!(plan.notes.iter().any(|note| note.contains("nodes 0 and 1")), "{:?}", plan.notes);
}

#[test]
fn interrupt_cores_are_set_aside_with_their_siblings() {
    let machine = read(&known::two_sockets(true));
    let plan = plan(&machine, &[4], &[card(8, Some(1))], Choice::Auto);
    assert_eq!(plan.scheme, Scheme::Dedicated);
    assert_eq!(plan.interrupts.to_string(), "12-13,36-37");
    assert_eq!(plan.instances[0].io, [14, 15, 16, 17]);
    // Two cards on two nodes: a core on each, and each card's interrupts near to it.
    let cards = [card(2, Some(0)), card(2, Some(1))];
    let plan = self::plan(&machine, &[4], &cards, Choice::Dedicated);
    assert_eq!(plan.interrupts.to_string(), "0,12,24,36");
    assert_eq!(irqs(&plan), ["0", "24", "12", "36"]);
}

#[test]
fn more_threads_than_cpus_give_a_plan_and_a_remark() {
    let machine = read(&known::six_cores());
    let seven = plan(&machine, &[7], &[card(4, None)], Choice::Auto);
    assert_eq!((seven.instances[0].io.len(), masks(&seven)), (0, vec!["0-5".to_string()]));
    assert!(seven.notes[0].contains("7 I/O threads and 6 CPUs"), "{:?}", seven.notes);
    assert!(seven.notes[0].contains("io-threads 6"), "{:?}", seven.notes);
    let parts = plan(&machine, &[4, 4], &[], Choice::Auto);
    assert_eq!(masks(&parts), ["0-2", "3-5"]);
    let mixed = plan(&machine, &[9, 2], &[], Choice::Auto);
    assert_eq!(
        (masks(&mixed), &mixed.instances[1].io[..]),
        (vec!["0-2".into(), "3-5".into()], &[3, 4][..])
    );
    let crowd = plan(&machine, &[1; 8], &[], Choice::Auto);
    assert!(masks(&crowd).iter().all(|mask| mask == "0-5"));
    assert!(crowd.notes[0].contains("fewer servers"), "{:?}", crowd.notes);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn small_and_limited_machines() {
    let two = read(&known::virtual_machine());
    let both = plan(&two, &[2], &[card(1, None)], Choice::Auto);
    assert_eq!((both.scheme, &both.instances[0].io[..]), (Scheme::Spread, &[0, 1][..]));
    assert!(both.notes[0].contains("No CPU is left for the background"), "{:?}", both.notes);
    let one_each = plan(&two, &[1, 1], &[card(1, None)], Choice::Auto);
    assert_eq!(
        (&one_each.instances[0].io[..], &one_each.instances[1].io[..]),
        (&[0][..], &[1][..])
    );
    let dedicated = plan(&two, &[1], &[card(1, None)], Choice::Dedicated);
    assert_eq!(
        (irqs(&dedicated), masks(&dedicated)),
        (vec!["0".to_string()], vec!["1".to_string()])
    );

    let one = read(&known::container());
    let plan_of_one = plan(&one, &[1], &[card(1, None)], Choice::Dedicated);
    assert_eq!((plan_of_one.scheme, masks(&plan_of_one)), (Scheme::Spread, vec!["5".to_string()]));
    assert!(plan_of_one.notes.iter().any(|note| note.contains("One core")));

    for version in [1, 2] {
        let limited = read(&known::limited(version));
        let plan = plan(&limited, &[3], &[card(2, Some(0))], Choice::Auto);
        assert_eq!(masks(&plan), ["4-7"]);
        assert!(!plan.notes.iter().any(|note| note.contains("time of 3 CPUs")));
        let four = self::plan(&limited, &[4], &[], Choice::Auto);
        assert!(four.notes.iter().any(|note| note.contains("time of 3 CPUs")), "{:?}", four.notes);
    }

    let offline = plan(&read(&known::offline()), &[4], &[], Choice::Auto);
    assert_eq!(
        (&offline.instances[0].io[..], offline.instances[0].background.to_string()),
        (&[0, 1, 2, 3][..], "6".into())
    );
    let large = plan(&read(&known::over_1024()), &[64, 64], &[], Choice::Auto);
    assert!(large.instances.iter().all(|instance| instance.io.len() == 64));
}

#[test]
fn only_named_and_allowed_cpus_are_used() {
    let machine = read(&known::six_cores());
    let request = |only: &str| Request {
        servers: servers(&[2]),
        only: Some(list(only)),
        ..Request::default()
    };
    let plan = planner::plan(&machine, &request("3-5,9")).unwrap();
    assert_eq!(masks(&plan), ["3-5"]);
    assert!(plan.notes[0].ends_with("left out: CPUs 9."), "{:?}", plan.notes);
    assert_eq!(planner::plan(&machine, &request("9")), Err(Impossible::NoCpus));
    let none = planner::plan(&machine, &Request::default());
    assert_eq!(none, Err(Impossible::NoServers));
}

#[test]
fn text_for_people_names_everything() {
    let machine = read(&known::interleaved());
    let plan = plan(&machine, &[4, 2], &[card(4, Some(0))], Choice::Dedicated);
    let text = show::text(&machine, &plan);
    for line in [
        "Node 0: CPUs 0-38:2, 31.4 GiB\n",
        "interrupts only, irq 60 eth0-0, irq 63 eth0-3\n",
        "s0 main thread\n",
        "s0 I/O thread 3\n",
        "s1 background\n",
        "     1-39:2     1-39:2  free\n",
        "  io-threads 4\n  server_cpulist 6,8,10,12\n  bio_cpulist 14\n",
        "  echo 0 > /proc/irq/60/smp_affinity_list  # eth0-0\n",
        "/sys/class/net/eth0/queues/rx-0/rps_cpus\n",
        "  taskset -acp 6,8,10,12,14 PID  # s0\n",
        "  CPUAffinity=6,8,10,12,14\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

/// A machine from a few numbers: nodes with cores each, one or two CPUs per core, numbered node by
/// node or in turns; some CPUs not allowed.
pub(super) fn any_machine() -> impl Strategy<Value = Machine> {
    let shape = (1..4usize, 1..7usize, 1..3usize, any::<bool>());
    (shape, prop::collection::vec(0..10u8, 48), prop::option::of(1..5u64)).prop_map(
        |((nodes, cores, smt, in_turn), allowed, quota)| {
            let total = nodes * cores;
            let node_of = |core: usize| if in_turn { core % nodes } else { core / cores };
            let ids: Vec<usize> = (0..total * smt).collect();
            let cpu = |&id: &usize| Cpu {
                id,
                node: node_of(id % total),
                package: node_of(id % total),
                core: id % total,
                siblings: ids.iter().copied().filter(|other| other % total == id % total).collect(),
                max_khz: None,
                capacity: None,
            };
            let node = |id: usize| Node {
                id,
                cpus: ids.iter().copied().filter(|cpu| node_of(cpu % total) == id).collect(),
                distances: (0..nodes).map(|other| if other == id { 10 } else { 21 }).collect(),
                memory_kib: None,
                free_kib: None,
            };
            let allowed: CpuSet =
                ids.iter().copied().filter(|&id| id == 0 || allowed[id] > 0).collect();
            Machine {
                cpus: ids.iter().map(cpu).collect(),
                offline: CpuSet::new(),
                nodes: (0..nodes).map(node).collect(),
                allowed,
                quota: quota.map(|cpus| CpuQuota { quota_us: cpus * 100_000, period_us: 100_000 }),
            }
        },
    )
}

fn any_cards() -> impl Strategy<Value = Vec<Card>> {
    let one = (1..9usize, prop::option::of(0..3usize));
    prop::collection::vec(one.prop_map(|(queues, node)| card(queues, node)), 0..3).prop_map(
        |mut cards| {
            for (at, card) in cards.iter_mut().enumerate() {
                card.name = format!("eth{at}");
                card.irqs.iter_mut().for_each(|irq| irq.0 += 100 * at as u32);
            }
            cards
        },
    )
}

fn any_choice() -> impl Strategy<Value = Choice> {
    prop::sample::select(vec![Choice::Auto, Choice::Dedicated, Choice::Spread, Choice::None])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_plan_keeps_the_rules(
        machine in any_machine(),
        threads in prop::collection::vec(1..7usize, 1..7),
        cards in any_cards(),
        irq in any_choice(),
    ) {
        let plan = plan(&machine, &threads, &cards, irq);
        let usable = machine.usable();
        let within = |cpus: &CpuSet| cpus.intersection(&usable) == *cpus;
        let room = plan.usable.without(&plan.interrupts);
        let total: usize = threads.iter().sum();
        prop_assert_eq!(plan.instances.len(), threads.len());
        prop_assert_eq!(Plan::parse(&plan.to_json()).unwrap(), plan.clone());

        // Never outside of the allowed CPUs, and every thread has a place.
        for (instance, &threads) in plan.instances.iter().zip(&threads) {
            prop_assert!(within(&instance.mask()) && !instance.background.is_empty());
            prop_assert_eq!(instance.threads, threads);
            prop_assert!(instance.mask().intersection(&plan.interrupts).is_empty());
        }
        let mut placed = 0;
        for irq in plan.interfaces.iter().flat_map(|interface| &interface.irqs) {
            prop_assert!(within(&irq.cpus) && irq.cpus.len() == 1);
            prop_assert!(plan.interrupts.is_empty() || within(&irq.cpus.intersection(&plan.interrupts)));
            placed += 1;
        }
        let all = if irq == Choice::None { 0 } else { cards.iter().map(|card| card.irqs.len()).sum() };
        prop_assert_eq!(placed, all, "every interrupt is placed");
        for queue in plan.interfaces.iter().flat_map(|i| i.receive.iter().chain(&i.transmit)) {
            prop_assert!(within(&queue.cpus));
        }
        if !plan.interrupts.is_empty() {
            let takers: Cpus = plan.interfaces.iter().flat_map(|i| &i.irqs)
                .flat_map(|irq| irq.cpus.iter().collect::<Vec<_>>()).collect();
            prop_assert_eq!(takers.intersection(&plan.interrupts), takers.0);
        }

        // No CPU has two I/O threads if there are enough CPUs.
        let io: Vec<usize> = plan.instances.iter().flat_map(|instance| instance.io.clone()).collect();
        let distinct: CpuSet = io.iter().copied().collect();
        prop_assert_eq!(io.len(), distinct.len());
        if total > room.len() {
            prop_assert!(!plan.notes.is_empty(), "an unmet request is reported");
            // Otherwise all of them are used.
            if threads.len() <= room.len() {
                prop_assert_eq!(interrupts::servers_cpus(&plan.instances), room);
            }
            return Ok(());
        }
        prop_assert_eq!(io.len(), total);
        // No core has two of them if one is free.
        prop_assert_eq!(machine.cores(&distinct), total.min(machine.cores(&room)));
        // One server stays on one node if one has the cores.
        let node_cores = |node: &Node| machine.cores(&node.cpus.intersection(&room));
        let nodes_of = |io: &[usize]| -> BTreeSet<usize> {
            io.iter().map(|&cpu| machine.cpu(cpu).unwrap().node).collect()
        };
        if threads.len() == 1 && machine.nodes.iter().any(|node| node_cores(node) >= total) {
            prop_assert_eq!(nodes_of(&io).len(), 1);
        }
        // So do several equal ones if the nodes have room for all.
        let each = threads[0];
        let holds: usize = machine.nodes.iter().map(|node| node_cores(node) / each).sum();
        if threads.iter().all(|&threads| threads == each) && holds >= threads.len() {
            for instance in &plan.instances {
                prop_assert_eq!(nodes_of(&instance.io).len(), 1, "{:?}", plan.instances);
            }
        }
        // Background work avoids I/O threads if another CPU is free.
        let used = interrupts::servers_cpus(&plan.instances);
        for instance in &plan.instances {
            let shares = instance.background.iter().all(|cpu| distinct.contains(cpu));
            prop_assert!(!shares || room.without(&used).is_empty(), "{:?}", plan.instances);
        }
    }

    #[test]
    fn dedicated_cores_leave_room_when_there_is_any(
        machine in any_machine(),
        threads in 1..7usize,
        near in prop::collection::vec(0..3usize, 0..3),
    ) {
        let usable = machine.usable();
        let cores = interrupts::dedicated_cores(machine.cores(&usable), threads);
        let near: Vec<usize> = near.into_iter().filter(|&n| machine.node(n).is_some())
            .collect::<BTreeSet<_>>().into_iter().collect();
        let cpus = interrupts::dedicated_cpus(&machine, &usable, &near, cores);
        prop_assert_eq!(machine.cores(&cpus), cores.min(machine.cores(&usable)));
        prop_assert_eq!(cpus.intersection(&usable), cpus.0.clone());
        if machine.cores(&usable) > threads {
            prop_assert!(machine.cores(&usable) - cores >= threads);
        }
    }
}

/// The plan of the command line for a machine made of files.
fn planned_by_command(files: &machines::Machine, args: &[&str]) -> Plan {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: super::Args,
    }
    let root = files.root().to_str().unwrap();
    let line = ["plan", "--root", root].into_iter().chain(args.iter().copied());
    let args = <Line as clap::Parser>::parse_from(line).args;
    let machine = Machine::read(&args.root);
    super::make(&args, &machine).unwrap()
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn the_published_machines_are_planned_from_their_files() {
    let six = known::six_cores().build();
    let three = ["--instances", "3", "--threads", "1", "--irq"];
    let dedicated = planned_by_command(&six, &[&three[..], &["dedicated"]].concat());
    assert_eq!(masks(&dedicated), ["2-3", "4-5", "3-5"]);
    assert_eq!(irqs(&dedicated), ["0", "1", "0", "1"]);
    let spread = planned_by_command(&six, &[&three[..], &["spread"]].concat());
    assert_eq!(masks(&spread), ["0-1", "2-3", "4-5"]);
    assert_eq!(irqs(&spread), ["0", "1", "2", "3"]);
    let takers: Cpus = spread.interfaces[0]
        .receive
        .iter()
        .flat_map(|q| q.cpus.iter().collect::<Vec<_>>())
        .collect();
    assert_eq!(takers.to_string(), "0-5", "four queues, and RPS for the other CPUs");

    let interleaved = planned_by_command(&known::interleaved().build(), &["--threads", "4"]);
    assert_eq!(interleaved.instances[0].io, [4, 6, 8, 10]);
    let interrupts_stay = planned_by_command(&known::interleaved().build(), &["--irq", "none"]);
    assert_eq!(interrupts_stay.instances[0].io, [0, 2, 4, 6], "four threads where none are named");
    let near = planned_by_command(&known::two_sockets(true).build(), &[]);
    assert!(near.instances[0].io.iter().all(|cpu| (12..24).contains(cpu)), "the card's node");
    let small = planned_by_command(&known::virtual_machine().build(), &[]);
    assert_eq!((small.instances[0].threads, masks(&small)), (1, vec!["0-1".to_string()]));
    assert!(small.interfaces[0].transmit.is_empty(), "a single transmit queue has no mask");
    // A virtual interface has no interrupts; if named, its queues are placed.
    assert_eq!(planned_by_command(&known::container().build(), &[]).interfaces, []);
    let named = planned_by_command(&known::container().build(), &["--interface", "eth0"]);
    assert_eq!(named.interfaces[0].receive.len(), 1);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn all_machines_can_be_planned_for() {
    for (name, layout) in known::all().into_iter().filter(|(name, _)| *name != "over-1024") {
        let files = layout.build();
        for irq in ["auto", "dedicated", "spread", "none"] {
            let plan = planned_by_command(&files, &["--instances", "2", "--irq", irq]);
            assert_eq!(plan.instances.len(), 2, "{name}");
        }
    }
}

/// A plan for running servers has all settings that they support, and how to change them.
#[test]
fn plan_has_the_settings_of_running_servers() {
    let machine = read(&known::six_cores());
    let shown = |kind: Kind| {
        let server =
            Server { name: "port 1".into(), threads: 3, runs: Some((kind, 1)), process: None };
        let request = Request { servers: vec![server], ..Request::default() };
        show::text(&machine, &planner::plan(&machine, &request).unwrap())
    };
    let weft = shown(Kind::Weft);
    assert!(weft.contains("  bgsave_cpulist") && weft.contains("  bio_cpulist"), "{weft}");
    assert!(weft.contains("CONFIG SET io-threads 3"), "{weft}");
    let forking = shown(Kind::Forking);
    assert!(forking.contains("  bgsave_cpulist"), "{forking}");
    assert!(forking.contains("must be started again"), "{forking}");
}
