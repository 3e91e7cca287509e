//! The guarantee of `apply` and `revert`, tested at every step: after any failure or kill, the old
//! values come back.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tempfile::TempDir;
use weft_base::cpulist::{self, CpuSet};

use super::engine::{self, Done, Failure};
use super::fake::{Fake, MomentEvent, Recorder, folder};
use super::journal::{self, Before, End, History, Journal};
use super::processes::{self, Role};
use super::steps::{self, Step, Target};
use super::{Process, Servers, processes_of};
use crate::cpus::Cpus;
use crate::plan::{Instance, Interface, Irq, Plan, Queue, Scheme, VERSION};
use crate::revert::revert;
use crate::verify;

const WEFT: u32 = 100;
const REDIS: u32 = 200;

fn cpus(list: &str) -> Cpus {
    Cpus(cpulist::parse(list).unwrap())
}

/// Two servers on eight CPUs and an interface, in the state after a fresh start, except for one
/// thread that is bound already.
fn machine() -> Fake {
    let fake = Fake::new(8);
    let all = cpulist::parse("0-7").unwrap();
    for (tid, name) in
        [(100, "weft-server"), (101, "weft-bio-free"), (102, "weft-io-1"), (103, "weft-snap-0")]
    {
        fake.thread(WEFT, tid, name, &all);
    }
    fake.thread(REDIS, 200, "redis-server", &all);
    fake.thread(REDIS, 201, "bio_aof", &cpulist::parse("2,5").unwrap());
    fake.thread(REDIS, 202, "a module) S 1", &all);
    fake.file("proc/irq/24/smp_affinity_list", "0-7\n");
    fake.file("proc/irq/25/smp_affinity_list", "3\n");
    fake.file("proc/irq/26/smp_affinity_list", "1\n");
    fake.file("sys/class/net/eth0/queues/rx-0/rps_cpus", "00\n");
    fake.file("sys/class/net/eth0/queues/tx-0/xps_cpus", "0f\n");
    fake
}

fn instance(name: &str, io: &[usize], background: &str) -> Instance {
    Instance {
        name: name.to_string(),
        threads: io.len(),
        io: io.to_vec(),
        server: io.iter().copied().collect(),
        background: cpus(background),
        process: None,
        kind: None,
    }
}

fn plan() -> Plan {
    let irq =
        |number: u32, list: &str| Irq { number, name: format!("q{number}"), cpus: cpus(list) };
    Plan {
        version: VERSION,
        scheme: Scheme::Dedicated,
        reason: String::new(),
        usable: cpus("0-7"),
        interrupts: cpus("0-1"),
        instances: vec![instance("one", &[2, 3], "4"), instance("two", &[6], "7")],
        interfaces: vec![Interface {
            name: "eth0".to_string(),
            irqs: vec![irq(24, "0"), irq(25, "1"), irq(26, "1")],
            receive: vec![Queue { name: "rx-0".to_string(), cpus: cpus("0-1") }],
            transmit: vec![Queue { name: "tx-0".to_string(), cpus: cpus("2-6") }],
        }],
        notes: Vec::new(),
    }
}

fn after() -> BTreeMap<String, String> {
    let mut all = machine().everything();
    for (name, value) in [
        ("100", "2"),
        ("101", "4"),
        ("102", "3"),
        ("103", "4"),
        ("200", "6"),
        ("201", "7"),
        ("202", "6-7"),
        ("proc/irq/24/smp_affinity_list", "0\n"),
        ("proc/irq/25/smp_affinity_list", "1\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000003\n"),
        ("sys/class/net/eth0/queues/tx-0/xps_cpus", "0000007c\n"),
    ] {
        assert!(all.insert(name.to_string(), value.to_string()).is_some(), "{name}");
    }
    all
}

/// A folder for state files.
struct State(TempDir);

impl State {
    fn new() -> State {
        State(folder())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn history(&self) -> Option<History> {
        journal::load(&self.path()).unwrap()
    }
}

fn both(fake: &Fake) -> Vec<Process> {
    [WEFT, REDIS].map(|pid| processes::find(fake, pid).unwrap()).to_vec()
}

/// The program `apply`, from its start.
fn apply(fake: &mut Fake, state: &State) -> Result<Done, Failure> {
    let mut before = before(fake);
    let journal = Journal::create(&state.path(), &before).unwrap();
    let mut recorder = Recorder::new(journal, fake);
    engine::carry_out(fake, &mut recorder, &mut before)
}

fn before(fake: &Fake) -> Before {
    let processes = both(fake);
    let steps = steps::observe(fake, steps::wanted(&plan(), &processes)).unwrap();
    let ids = processes.iter().map(|process| process.id).collect();
    Before::new(super::boot(fake).unwrap(), plan(), ids, steps)
}

/// The program `revert`, from its start; an empty state is fine.
fn run_revert(fake: &mut Fake, state: &State) -> engine::Undone {
    let Some(history) = state.history() else { return engine::Undone::default() };
    let mut recorder = Recorder::new(Journal::append(&state.path()).unwrap(), fake);
    revert(fake, &mut recorder, &history).unwrap()
}

/// The number of moments of an undisturbed `apply`.
fn moments_of_apply() -> usize {
    let mut fake = machine();
    apply(&mut fake, &State::new()).unwrap();
    fake.moments.passed()
}

#[test]
fn everything_goes_where_the_plan_says_and_back() {
    let (mut fake, state) = (machine(), State::new());
    let start = fake.everything();
    assert_eq!(apply(&mut fake, &state).unwrap(), Done { changed: 11, unchanged: 1, ended: 0 });
    assert_eq!(fake.everything(), after());
    assert_eq!(state.history().unwrap().end, Some(End::Applied));
    let undone = run_revert(&mut fake, &state);
    assert_eq!((undone.restored, undone.unchanged, undone.left.len()), (11, 1, 0));
    assert_eq!(fake.everything(), start);
    assert_eq!(state.history().unwrap().end, Some(End::Reverted));
    assert_eq!(run_revert(&mut fake, &state).restored, 0);
    assert_eq!(fake.everything(), start);
}

#[test]
fn a_failure_at_any_step_leaves_everything_as_before() {
    for at in 0..11 {
        let (mut fake, state) = (machine(), State::new());
        let start = fake.everything();
        fake.fail_at = Some(at);
        let failure = apply(&mut fake, &state).unwrap_err();
        assert!(failure.reason.contains("permission denied"), "{failure:?}");
        assert_eq!(failure.left, [""; 0], "step {at}");
        assert_eq!(fake.everything(), start, "step {at}");
        assert_eq!(state.history().unwrap().end, Some(End::Reverted));
    }
    let mut fake = machine();
    fake.fail_at = Some(11);
    assert!(apply(&mut fake, &State::new()).is_ok(), "there is a change 11 that is not tried");
}

#[test]
fn a_kill_at_any_moment_can_be_reverted() {
    let moments = moments_of_apply();
    assert!(moments > 40, "{moments}");
    for at in 0..moments {
        let (mut fake, state) = (machine(), State::new());
        let start = fake.everything();
        fake.at(at, MomentEvent::Kill);
        assert!(fake.run(|fake| apply(fake, &state)).is_none(), "moment {at} is not reached");
        let undone = run_revert(&mut fake, &state);
        assert_eq!(fake.everything(), start, "killed at moment {at}");
        assert_eq!((undone.left.len(), undone.changed_by_others.len()), (0, 0));
        assert_eq!(state.history().unwrap().end, Some(End::Reverted));
    }
}

#[test]
fn a_revert_that_is_killed_at_any_moment_can_be_repeated() {
    for at in 0.. {
        let (mut fake, state) = (machine(), State::new());
        let start = fake.everything();
        apply(&mut fake, &state).unwrap();
        fake.at(fake.moments.passed() + at, MomentEvent::Kill);
        if fake.run(|fake| run_revert(fake, &state)).is_some() {
            assert!(at > 20, "{at}");
            return;
        }
        run_revert(&mut fake, &state);
        assert_eq!(fake.everything(), start, "killed at moment {at}");
    }
}

#[test]
fn a_kill_while_undoing_a_failure_can_be_reverted() {
    let mut tried = 0;
    for fail in [0, 5, 10] {
        for at in 0.. {
            let (mut fake, state) = (machine(), State::new());
            let start = fake.everything();
            fake.fail_at = Some(fail);
            fake.at(at, MomentEvent::Kill);
            if fake.run(|fake| apply(fake, &state)).is_some() {
                break;
            }
            tried += 1;
            fake.fail_at = None;
            run_revert(&mut fake, &state);
            assert_eq!(fake.everything(), start, "failed at {fail}, killed at moment {at}");
        }
    }
    assert!(tried > 60, "{tried}");
}

#[test]
fn cut_state_file_holds_its_whole_lines() {
    let (mut fake, state) = (machine(), State::new());
    apply(&mut fake, &state).unwrap();
    let text = std::fs::read_to_string(state.path()).unwrap();
    let whole = state.history().unwrap();
    let first = text.find('\n').unwrap() + 1;
    for cut in first..text.len() {
        std::fs::write(state.path(), &text[..cut]).unwrap();
        let lines = text[first..cut].matches('\n').count();
        let history = state.history().unwrap();
        assert_eq!(history.begun, whole.begun[..lines]);
        // A later addition begins a new line.
        let mut journal = Journal::append(&state.path()).unwrap();
        journal::Record::end(&mut journal, End::Reverted).unwrap();
        assert_eq!(state.history().unwrap().end, Some(End::Reverted));
        assert_eq!(state.history().unwrap().begun, whole.begun[..lines]);
    }
    std::fs::write(state.path(), &text[..first - 1]).unwrap();
    assert!(
        journal::load(&state.path()).is_err(),
        "the first line is complete or it is not a state"
    );
}

#[test]
fn ended_thread_is_not_a_failure_at_any_moment() {
    for at in 0..moments_of_apply() {
        let (mut fake, state) = (machine(), State::new());
        let mut start = fake.everything();
        fake.at(at, MomentEvent::ThreadEnds(WEFT, 103));
        let done = apply(&mut fake, &state);
        assert!(done.is_ok(), "moment {at}: {done:?}");
        run_revert(&mut fake, &state);
        if fake.mask(103).is_none() {
            start.remove("103");
        }
        assert_eq!(fake.everything(), start, "moment {at}");
    }
}

#[test]
fn reused_process_id_is_a_failure_and_stays_unchanged() {
    let mut struck = 0;
    for at in 0..moments_of_apply() {
        let (mut fake, state) = (machine(), State::new());
        let mut start = fake.everything();
        fake.at(at, MomentEvent::PidReused(REDIS));
        let outcome = apply(&mut fake, &state);
        if fake.mask(201).is_some() {
            continue;
        }
        struck += 1;
        // After the last search it may be missed, as if it had happened a little later.
        if let Err(failure) = outcome {
            assert!(failure.reason.contains("has ended"), "{failure:?}");
        }
        run_revert(&mut fake, &state);
        start.retain(|name, _| !matches!(name.as_str(), "201" | "202"));
        assert_eq!(fake.everything(), start, "moment {at}");
    }
    assert!(struck > 10, "{struck}");
    let (mut fake, state) = (machine(), State::new());
    fake.at(0, MomentEvent::PidReused(REDIS));
    fake.at(2, MomentEvent::PidReused(REDIS));
    assert!(apply(&mut fake, &state).is_err());
}

#[test]
fn threads_that_start_meanwhile_are_placed_and_put_back() {
    for at in 0..moments_of_apply() {
        let (mut fake, state) = (machine(), State::new());
        let mut start = fake.everything();
        fake.at(at, MomentEvent::ThreadStarts(WEFT, WEFT, 150));
        apply(&mut fake, &state).unwrap();
        let Some(mask) = fake.mask(150) else { continue };
        assert_eq!(mask, "4", "moment {at}: a background thread's place");
        run_revert(&mut fake, &state);
        start.insert("150".to_string(), "0-7".to_string());
        assert_eq!(fake.everything(), start, "moment {at}");
    }
}

#[test]
fn revert_restores_threads_that_started_later() {
    let (mut fake, state) = (machine(), State::new());
    let mut start = fake.everything();
    apply(&mut fake, &state).unwrap();
    fake.thread(WEFT, 150, "by-the-main-one", &cpulist::parse("2").unwrap());
    fake.thread(REDIS, 250, "by-bio", &cpulist::parse("7").unwrap());
    fake.thread(REDIS, 251, "bound-by-itself", &cpulist::parse("1").unwrap());
    run_revert(&mut fake, &state);
    for (tid, mask) in [("150", "0-7"), ("250", "2,5"), ("251", "1")] {
        start.insert(tid.to_string(), mask.to_string());
    }
    assert_eq!(fake.everything(), start);
}

#[test]
fn forbidden_change_is_noticed_and_undone() {
    let (mut fake, state) = (machine(), State::new());
    let start = fake.everything();
    // The plan sets a module's thread to 6-7, and the kernel silently sets 6.
    fake.online = (0..7).collect::<CpuSet>();
    fake.thread(REDIS, 201, "a module) S 1", &cpulist::parse("2,5").unwrap());
    let failure = apply(&mut fake, &state).unwrap_err();
    assert!(failure.reason.contains("is 6: the system does not allow"), "{failure:?}");
    // This machine can't restore 0-7 either, and the error says so.
    assert!(!failure.left.is_empty());
    fake.online = (0..8).collect();
    assert_eq!(run_revert(&mut fake, &state).left, [""; 0]);
    assert_eq!(fake.everything(), start);
}

#[test]
fn failed_undo_is_reported_and_retried() {
    let (mut fake, state) = (machine(), State::new());
    let start = fake.everything();
    apply(&mut fake, &state).unwrap();
    fake.stuck.insert("proc/irq/24/smp_affinity_list".to_string());
    let undone = run_revert(&mut fake, &state);
    assert_eq!(undone.left.len(), 1);
    assert!(undone.left[0].contains("/proc/irq/24/"), "{undone:?}");
    assert_ne!(state.history().unwrap().end, Some(End::Reverted));
    fake.stuck.clear();
    assert_eq!(run_revert(&mut fake, &state).restored, 1);
    assert_eq!(fake.everything(), start);
}

#[test]
fn full_disk_prevents_all_changes() {
    let (mut fake, state) = (machine(), State::new());
    let start = fake.everything();
    let mut before = before(&fake);
    let journal = Journal::create(&state.path(), &before).unwrap();
    let mut recorder = Recorder::new(journal, &fake);
    recorder.full = true;
    let failure = engine::carry_out(&mut fake, &mut recorder, &mut before).unwrap_err();
    assert!(failure.reason.contains("state file"), "{failure:?}");
    assert_eq!(fake.everything(), start);
}

#[test]
fn a_state_that_was_not_reverted_is_kept() {
    let (mut fake, state) = (machine(), State::new());
    apply(&mut fake, &state).unwrap();
    let again = before(&fake);
    let refused = Journal::create(&state.path(), &again).unwrap_err().to_string();
    assert!(refused.contains("weft-tune revert"), "{refused}");
    // The state of an earlier boot is obsolete, so there is nothing to revert.
    let anew = Before { boot: "second".to_string(), ..again };
    Journal::create(&state.path(), &anew).unwrap();
    let _held = super::lock(&state.path()).unwrap();
    assert!(super::lock(&state.path()).unwrap_err().to_string().contains("another weft-tune"));
}

#[test]
fn values_changed_by_others_are_put_back_and_named() {
    let (mut fake, state) = (machine(), State::new());
    let start = fake.everything();
    apply(&mut fake, &state).unwrap();
    fake.file("proc/irq/24/smp_affinity_list", "5\n");
    let undone = run_revert(&mut fake, &state);
    assert_eq!(undone.changed_by_others, ["/proc/irq/24/smp_affinity_list was 5"]);
    assert_eq!(fake.everything(), start);
}

#[test]
fn verify_names_each_deviation() {
    let (mut fake, state) = (machine(), State::new());
    apply(&mut fake, &state).unwrap();
    let compare = |fake: &Fake| {
        let by_plan = verify::compare(fake, &plan(), &both(fake)).unwrap();
        let history = state.history().unwrap();
        assert_eq!(verify::compare_history(fake, &history).unwrap(), by_plan);
        by_plan.values
    };
    assert_eq!(compare(&fake), [""; 0]);
    // Another spelling of the same set.
    fake.file("sys/class/net/eth0/queues/rx-0/rps_cpus", "0,00000003\n");
    assert_eq!(compare(&fake), [""; 0]);
    fake.file("sys/class/net/eth0/queues/rx-0/rps_cpus", "7\n");
    fake.file("proc/irq/25/smp_affinity_list", "\n");
    fake.thread(WEFT, 150, "weft-io-2", &cpulist::parse("0-7").unwrap());
    assert_eq!(
        compare(&fake),
        [
            "thread 150 (weft-io-2) of process 100 is 0-7, not 2-3",
            "/proc/irq/25/smp_affinity_list is empty, not 1",
            "/sys/class/net/eth0/queues/rx-0/rps_cpus is 7, not 00000003",
        ]
    );
    fake.at(fake.moments.passed(), MomentEvent::PidReused(REDIS));
    let _ = super::System::confine(&mut fake, 100, &cpulist::parse("2").unwrap());
    let history = state.history().unwrap();
    let gone = verify::compare_history(&fake, &history).unwrap().values;
    assert_eq!(gone[0], "process 200 of two has ended");
    run_revert(&mut fake, &state);
    assert!(verify::compare_history(&fake, &state.history().unwrap()).is_err());
}

#[test]
fn thread_roles_follow_from_names() {
    let fake = Fake::new(1);
    let one = cpulist::parse("0").unwrap();
    for (tid, name) in [
        (10, "io_thd_7"),
        (11, "io_thd_0"),
        (12, "io_thd_2"),
        (13, "bio_lazy_free"),
        (14, "weft-slow-0"),
        (15, "jemalloc_bg_thd"),
        (16, "search-worker-1"),
        (17, "weft-snap-1"),
        (18, "io_thd_x"),
    ] {
        fake.thread(10, tid, name, &one);
    }
    let process = processes::find(&fake, 10).unwrap();
    let roles: Vec<Role> = process.threads.iter().map(|thread| thread.role).collect();
    assert_eq!(
        roles,
        [
            Role::Io(0),
            Role::Unknown,
            Role::Io(2),
            Role::Background,
            Role::Background,
            Role::Background,
            Role::Unknown,
            Role::Snapshot,
            Role::Unknown,
        ]
    );
    assert_eq!(process.io_threads(), 2);
    assert_eq!(process.threads[0].started, 70);
    assert_eq!(processes::find(&fake, 99), None);
    // Weft's first thread only waits.
    for (tid, name) in [(20, "weft-server"), (21, "weft-io-0"), (22, "weft-io-1")] {
        fake.thread(20, tid, name, &one);
    }
    let process = processes::find(&fake, 20).unwrap();
    let roles: Vec<Role> = process.threads.iter().map(|thread| thread.role).collect();
    assert_eq!(roles, [Role::Background, Role::Io(0), Role::Io(1)]);
    assert_eq!(process.io_threads(), 2);
}

#[test]
fn servers_are_found_by_port() {
    let fake = machine();
    fake.file(
        "proc/net/tcp",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  \
         timeout inode\n\
         \x20 0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 777 1 \
         0 100 0 0 10 0\n\
         \x20 1: 0100007F:18EC 0100007F:18EB 01 00000000:00000000 00:00000000 00000000 0 0 778 1 \
         0 100 0 0 10 0\n",
    );
    fake.symlink("proc/200/fd/6", "socket:[777]");
    fake.symlink("proc/100/fd/6", "socket:[778]");
    let servers = |port: &[u16]| Servers { pid: Vec::new(), port: port.to_vec() };
    let found = servers(&[6379]).find(&fake).unwrap();
    assert_eq!(found[0].id.pid, REDIS);
    for (ports, why) in
        [(&[6380][..], "nothing listens"), (&[6379, 6379], "twice"), (&[1], "nothing listens")]
    {
        let error = servers(ports).find(&fake).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let few = processes_of(&fake, &plan(), &servers(&[6379])).unwrap_err().to_string();
    assert!(few.contains("2 instances, 1 servers"), "{few}");
    let unnamed = processes_of(&fake, &plan(), &Servers::default()).unwrap_err().to_string();
    assert!(unnamed.contains("--pid or --port"), "{unnamed}");
}

#[test]
fn a_plan_for_processes_knows_them_again() {
    let fake = machine();
    let mut plan = plan();
    for (instance, process) in plan.instances.iter_mut().zip(both(&fake)) {
        instance.process = Some(process.id);
    }
    assert_eq!(processes_of(&fake, &plan, &Servers::default()).unwrap(), both(&fake));
    plan.instances[0].process.as_mut().unwrap().started += 1;
    let ended = processes_of(&fake, &plan, &Servers::default()).unwrap_err().to_string();
    assert!(ended.contains("has ended since"), "{ended}");
}

#[test]
fn state_file_names_only_targets_of_plans() {
    let state = State::new();
    let fake = machine();
    let with = |path: &str| {
        let target =
            Target::File { path: path.to_string(), spelling: super::steps::Spelling::List };
        let step = Step { target, before: "0".to_string(), after: "1".to_string() };
        let before = Before { steps: vec![step], ..before(&fake) };
        std::fs::write(state.path(), serde_json::to_string(&before).unwrap() + "\n").unwrap();
        journal::load(&state.path()).map(|_| ())
    };
    assert!(with("proc/irq/1/smp_affinity_list").is_ok());
    for path in ["etc/passwd", "proc/irq/../../etc/passwd", "/proc/irq/1", "proc/irq//1"] {
        assert!(with(path).is_err(), "{path}");
    }
}

#[test]
fn invalid_plans_are_refused() {
    assert_eq!(Plan::parse(&plan().to_json()).unwrap(), plan());
    type Edit = fn(&mut Plan);
    let edits: [(Edit, &str); 6] = [
        (|plan| plan.version = 2, "form 2"),
        (|plan| plan.instances[0].io.push(5), "2 threads and 3 CPUs"),
        (|plan| plan.instances[0].io[0] = 7, "on CPU 7"),
        (|plan| plan.instances[1].background = Cpus::default(), "no CPUs"),
        (|plan| plan.interfaces[0].name = "../x".to_string(), "not a name"),
        (|plan| plan.interfaces[0].irqs[0].cpus = Cpus::default(), "no CPUs"),
    ];
    for (edit, why) in edits {
        let mut plan = plan();
        edit(&mut plan);
        let error = Plan::parse(&plan.to_json()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(Plan::parse("{}").is_err());
}
