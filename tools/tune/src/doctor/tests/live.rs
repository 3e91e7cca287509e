//! The text of problems, and the checks of a running server.

use super::*;
use crate::doctor::neighbours::Neighbours;

#[test]
fn problems_are_printed_in_order_of_importance() {
    let machine = bad();
    let mut input = CheckInput::new(Host::new(machine.root()));
    input.running = Some(Running { pid: 7, port: 6379, max_memory: Some(0), ..Running::default() });
    input.neighbours = Some(Neighbours { cpus: 9.0, named: Vec::new() });
    let found = examine(&input, Server::Any, &[]);
    let shown = text::print(&found, Server::Any, false);
    let mut problems = shown.lines().filter(|line| line.starts_with("warning "));
    for first in [
        "warning    Limit the server's memory: CONFIG SET maxmemory ",
        "warning    Free memory, then empty the swap: swapoff -a",
        "warning    Set vm.overcommit_memory to 1: sysctl -w vm.overcommit_memory=1",
        "warning    Stop the other processes, or give the server its own CPUs: weft-tune plan --port 6379",
        "warning    Move the server to a machine with dedicated CPUs",
    ] {
        let line = problems.next().unwrap_or_default();
        assert!(line.starts_with(first), "{first}: {shown}");
    }
    let last = found.iter().rposition(|f| f.severity(Server::Any) > Unknown).unwrap() + 1;
    assert!(shown.lines().last().unwrap().starts_with(&format!("{last} problems: ")), "{shown}");
    assert_eq!(shown.matches("\nadvice  ").count() + shown.matches("warning  ").count(), last);
    // An action, then its reason on at most three lines.
    for problem in shown.split("warning  ").flat_map(|part| part.split("advice  ")) {
        assert!(problem.lines().count() <= 6, "{problem}");
    }
    assert!(!shown.contains("  file ") && !shown.contains("\nok "), "{shown}");
}

#[test]
fn servers_are_judged_apart() {
    let machine = six_cores();
    machine.write(&format!("{THP}/enabled"), "[always] madvise never\n");
    let text_for = |server| {
        text::print(
            &examine(
                &CheckInput::new(Host::new(machine.root())),
                server,
                &["thp-enabled".to_string()],
            ),
            server,
            true,
        )
    };
    assert!(text_for(Server::Weft).starts_with("ok         transparent huge pages: [always]"));
    let any = text_for(Server::Any);
    let action =
        format!("warning    Let programs ask for huge pages: echo madvise > /{THP}/enabled\n");
    assert!(any.starts_with(&action), "{any}");
    assert!(
        any.contains("\n           transparent huge pages: [always] madvise never. Every"),
        "{any}"
    );
    assert!(any.contains("  for      Weft: ok; Redis and Valkey: warning\n"), "{any}");
    assert!(any.contains("  file     /sys/kernel/mm/transparent_hugepage/enabled\n"), "{any}");
    assert!(!text_for(Server::Redis).contains("  for  "));
    let json = serde_json::to_value(findings(&machine)).unwrap();
    let first = &json[0];
    assert_eq!((&first["check"], &first["redis"]), (&"thp-enabled".into(), &"warning".into()));
    assert_eq!((&first["weft"], &first["value"]), (&"ok".into(), &"[always] madvise never".into()));
}

/// A running server on a machine of two CPUs with a gibibyte.
fn served(
    running: Running,
    write: impl FnOnce(&Machine),
) -> Vec<(&'static str, Severity, Severity)> {
    let machine = Machine::empty();
    machine.write("sys/devices/system/cpu/online", "0-1\n");
    machine.write("proc/meminfo", "MemTotal: 1048576 kB\n");
    machine.write("proc/sys/net/core/somaxconn", "128\n");
    machine.write("proc/7/limits", "Max open files  1024  4096  files\n");
    machine.write("proc/7/status", "Cpus_allowed_list:\t0-1\nVmSwap:\t0 kB\n");
    for (tid, name) in [(7, "server"), (8, "io_thd_1"), (9, "io_thd_2")] {
        let stat = format!("{tid} ({name}) S 1 1 1 0 -1 4 1 0 0 0 1 1 0 0 20 0 1 0 9 1 1\n");
        machine.write(&format!("proc/7/task/{tid}/stat"), &stat);
        machine.write(&format!("proc/7/task/{tid}/comm"), format!("{name}\n"));
    }
    write(&machine);
    let mut input = CheckInput::new(Host::new(machine.root()));
    input.running = Some(Running { pid: 7, ..running });
    let live = |found: &Finding| found.check.starts_with("server-");
    let found = examine(&input, Server::Any, &[]);
    found.iter().filter(|f| live(f)).map(|f| (f.check, f.weft, f.redis)).collect()
}

#[test]
fn a_running_server_is_judged_by_its_own_limits() {
    let good = Running {
        max_clients: Some(900),
        max_memory: Some(512 << 20),
        backlog: Some(128),
        ..Running::default()
    };
    let found = served(good.clone(), |machine| {
        machine.write("proc/7/task/9/comm", "bio_free\n");
    });
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found.iter().all(|found| (found.1, found.2) == (Fine, Fine)), "{found:?}");
    let bad = Running {
        max_clients: Some(10_000),
        max_memory: Some(1000 << 20),
        backlog: Some(511),
        ..Running::default()
    };
    let found = served(bad, |machine| {
        machine.write("proc/7/status", "Cpus_allowed_list:\t0-1\nVmSwap:\t12 kB\n");
    });
    for (check, weft, redis) in &found {
        let expected = if *check == "server-threads" { Advice } else { Warning };
        assert_eq!((*weft, *redis), (expected, Warning), "{check}");
    }
    assert_eq!(found.len(), 5, "{found:?}");
    let unlimited = served(Running { max_memory: Some(0), ..good }, |_| {});
    assert!(unlimited.contains(&("server-memory", Warning, Warning)), "{unlimited:?}");
    let silent = served(Running { silent: Some("NOAUTH".into()), ..Running::default() }, |_| {});
    assert!(silent.contains(&("server-answers", Unknown, Unknown)), "{silent:?}");
}

#[test]
fn other_processes_on_the_cpus_are_found() {
    let machine = Machine::empty();
    machine.write("sys/devices/system/cpu/online", "0-3\n");
    let judged = |cpus: f64| {
        let mut input = CheckInput::new(Host::new(machine.root()));
        let named = vec![("compiler".to_string(), 8, cpus)];
        input.neighbours = Some(Neighbours { cpus, named });
        let found = examine(&input, Server::Any, &["others".to_string()]);
        assert!(found[0].value.as_deref().unwrap().contains("compiler (8)"), "{found:?}");
        found[0].weft
    };
    assert_eq!((judged(0.1), judged(0.5), judged(1.5)), (Fine, Advice, Warning));
}
