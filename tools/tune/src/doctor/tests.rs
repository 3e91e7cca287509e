//! Each check with good values, bad ones, and none.

mod live;

use std::collections::BTreeSet;

use proptest::prelude::*;
use weft_testkit::machines::{Layout, Machine, known};

use super::checks::Needs;
use super::finding::{Finding, Severity};
use super::running::Running;
use super::{CheckInput, Server, checks, examine, text};
use crate::host::Host;
use Severity::{Advice, Ok as Fine, Unknown, Warning};

const THP: &str = "sys/kernel/mm/transparent_hugepage";
const CPU: &str = "sys/devices/system/cpu";

fn findings(machine: &Machine) -> Vec<Finding> {
    examine(&CheckInput::new(Host::new(machine.root())), Server::Any, &[])
}

fn finding(machine: &Machine, check: &str) -> Finding {
    let input = CheckInput::new(Host::new(machine.root()));
    let mut found = examine(&input, Server::Any, &[check.to_string()]);
    assert_eq!(found.len(), 1, "{check}: {found:?}");
    found.remove(0)
}

/// The judgements for Weft and for servers that fork.
fn judged(machine: &Machine, check: &str) -> (Severity, Severity) {
    let finding = finding(machine, check);
    (finding.weft, finding.redis)
}

/// Writes a value and returns its judgement.
fn with(machine: &Machine, check: &str, file: &str, value: &str) -> (Severity, Severity) {
    machine.write(file, format!("{value}\n"));
    judged(machine, check)
}

/// A host without problems.
fn healthy(layout: &Layout) -> Machine {
    let machine = layout.build();
    machine.write_all([
        ("proc/sys/vm/overcommit_memory", "1\n"),
        ("proc/sys/vm/swappiness", "1\n"),
        ("proc/sys/net/core/somaxconn", "4096\n"),
        ("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096\n"),
        ("proc/sys/kernel/numa_balancing", "0\n"),
        ("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n"),
        ("proc/sys/fs/file-nr", "1000\t0\t9223372036854775807\n"),
        ("proc/self/limits", "Limit  Soft  Hard  Units\nMax open files  65536  65536  files\n"),
        ("proc/1/comm", "systemd\n"),
        ("proc/stat", "cpu  1000 0 1000 8000 0 0 0 0 0 0\ncpu0 1 2\n"),
        ("proc/cmdline", "ro quiet\n"),
    ]);
    machine.write(&format!("{THP}/enabled"), "always [madvise] never\n");
    machine.write(&format!("{THP}/defrag"), "always defer defer+madvise [madvise] never\n");
    machine.write(&format!("{CPU}/intel_pstate/no_turbo"), "0\n");
    machine.write(&format!("{CPU}/vulnerabilities/meltdown"), "Not affected\n");
    machine.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    for cpu in &layout.cpus {
        machine.write(&format!("{CPU}/cpu{}/cpufreq/scaling_governor", cpu.id), "performance\n");
    }
    // The interrupts of the published machine have not been moved to one CPU here.
    for irq in layout.interfaces.iter().flat_map(|interface| &interface.irqs) {
        machine.write(&format!("proc/irq/{}/smp_affinity_list", irq.number), "0-5\n");
    }
    if layout.group.is_none() {
        machine.write("proc/self/cgroup", "0::/\n");
    }
    machine
}

/// The names of the checks that always return a finding.
fn of_files() -> Vec<&'static str> {
    let files = checks::TABLE.iter().filter(|check| check.needs == Needs::Files);
    files.map(|check| check.name).collect()
}

fn six_cores() -> Machine {
    healthy(&Layout { cache_kib: 0, ..known::six_cores() })
}

#[test]
fn healthy_host_has_no_problems() {
    let machine = six_cores();
    let found = findings(&machine);
    for finding in &found {
        assert_eq!((finding.weft, finding.redis), (Fine, Fine), "{finding:?}");
    }
    let names: Vec<&str> = found.iter().map(|finding| finding.check).collect();
    assert_eq!(names, of_files(), "each check returns one finding, under its own name");
    let counts = "no problems; 19 checks passed, 0 not readable";
    assert_eq!(
        text::print(&found, Server::Any, false),
        format!("{counts} (--verbose shows all)\n")
    );
    let verbose = text::print(&found, Server::Any, true);
    assert!(verbose.ends_with(&format!("\n\n{counts}\n")), "{verbose}");
    let lines: Vec<&str> = verbose.lines().collect();
    for finding in &found {
        let line = format!("ok         {}: {}", finding.subject, finding.value.as_deref().unwrap());
        assert!(lines.contains(&line.as_str()), "{line}: {verbose}");
    }
}

#[test]
fn unreadable_value_is_not_judged() {
    for finding in findings(&Machine::empty()) {
        // The absence of interfaces is read, not guessed.
        if finding.check != "interrupts" {
            assert_eq!((finding.weft, finding.redis), (Unknown, Unknown), "{finding:?}");
            assert!(finding.change.is_none() && finding.keep.is_none(), "{finding:?}");
            assert!(finding.lasting.is_none() && !finding.why.is_empty(), "{finding:?}");
        }
    }
    // A folder instead of a file is neither missing nor forbidden.
    let machine = Machine::empty();
    machine.write("proc/sys/vm/swappiness/x", "");
    let finding = finding(&machine, "swappiness");
    assert!(finding.value.is_none() && finding.why.contains("directory"), "{finding:?}");
}

#[test]
fn problems_have_an_action_and_a_page() {
    let machine = bad();
    let found = findings(&machine);
    let bad: BTreeSet<&str> =
        found.iter().filter(|f| f.severity(Server::Any) > Unknown).map(|f| f.check).collect();
    let all: BTreeSet<&str> = of_files().into_iter().collect();
    assert_eq!(bad, all, "each check can complain");
    for finding in &found {
        assert!(finding.see.starts_with("https://"), "{finding:?}");
        assert!(finding.file.starts_with("/proc") || finding.file.starts_with("/sys"));
        assert!(finding.action.is_some() && finding.keep.is_some(), "{finding:?}");
        // No command on this machine fixes these two.
        let beyond = matches!(finding.check, "steal" | "mitigations");
        assert_eq!(finding.change.is_none(), beyond, "{finding:?}");
    }
    assert!(found.is_sorted_by_key(|f| std::cmp::Reverse(f.severity(Server::Any))));
}

/// A host with every problem.
fn bad() -> Machine {
    let mut layout = Layout { cache_kib: 0, ..known::limited(2) };
    layout.interfaces = known::six_cores().interfaces;
    let machine = healthy(&layout);
    machine.write_all([
        ("proc/sys/vm/overcommit_memory", "2\n"),
        ("proc/sys/vm/swappiness", "60\n"),
        ("proc/meminfo", "SwapTotal:  2048 kB\nSwapFree:  1024 kB\n"),
        ("proc/sys/net/core/somaxconn", "128\n"),
        ("proc/sys/net/ipv4/tcp_max_syn_backlog", "128\n"),
        ("proc/sys/kernel/numa_balancing", "1\n"),
        ("proc/sys/fs/file-nr", "1000\t0\t5000\n"),
        ("proc/self/limits", "Max open files  1024  4096  files\n"),
        ("proc/77/comm", "irqbalance\n"),
        ("proc/stat", "cpu  1000 0 1000 7000 0 0 0 1000 0 0\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet\n"),
    ]);
    machine.write(&format!("{THP}/enabled"), "[always] madvise never\n");
    machine.write(&format!("{THP}/defrag"), "[always] defer madvise never\n");
    machine.write(&format!("{CPU}/intel_pstate/no_turbo"), "1\n");
    machine.write(&format!("{CPU}/vulnerabilities/meltdown"), "Mitigation: PTI\n");
    machine.write(&format!("{CPU}/cpu3/cpufreq/scaling_governor"), "schedutil\n");
    for irq in 60..64 {
        machine.write(&format!("proc/irq/{irq}/smp_affinity_list"), "1\n");
    }
    machine
}

#[test]
fn huge_pages() {
    let machine = six_cores();
    let enabled = |value| with(&machine, "thp-enabled", &format!("{THP}/enabled"), value);
    assert_eq!(enabled("[always] madvise never"), (Fine, Warning));
    assert_eq!(enabled("always [madvise] never"), (Fine, Fine));
    assert_eq!(enabled("always madvise [never]"), (Advice, Fine));
    for strange in ["", "always madvise never", "[other]", "]always["] {
        assert_eq!(enabled(strange), (Unknown, Unknown), "{strange}");
    }
    let lasting = || finding(&machine, "thp-enabled").lasting.unwrap();
    assert!(lasting().contains("does not set it"));
    machine.write("proc/cmdline", "ro transparent_hugepage=never\n");
    assert!(lasting().contains("sets it to never"));

    let defrag = |enabled: &str, value| {
        machine.write(&format!("{THP}/enabled"), enabled);
        with(&machine, "thp-defrag", &format!("{THP}/defrag"), value)
    };
    assert_eq!(defrag("[always] madvise never", "[always] defer"), (Advice, Warning));
    assert_eq!(defrag("always [madvise] never", "[always] defer"), (Advice, Fine));
    assert_eq!(defrag("always madvise [never]", "[always] defer"), (Fine, Fine));
    for good in ["[defer] never", "defer [never]", "[madvise] x", "[defer+madvise]"] {
        assert_eq!(defrag("[always] madvise never", good), (Fine, Fine), "{good}");
    }
    assert_eq!(defrag("[always] madvise never", "none"), (Unknown, Unknown));
}

#[test]
fn overcommit() {
    let machine = six_cores();
    let value = |value| with(&machine, "overcommit", "proc/sys/vm/overcommit_memory", value);
    assert_eq!(value("1"), (Fine, Fine));
    assert_eq!(value("2"), (Warning, Warning));
    assert_eq!(value("3"), (Unknown, Unknown));
    for (release, redis) in [
        ("5.2.0", Advice),
        ("6.18.44-x", Advice),
        ("10.0-rc1", Advice),
        ("5.1.21-generic", Warning),
        ("4.18.0-553.el8", Warning),
        ("5.x", Warning),
        ("", Warning),
    ] {
        machine.write("proc/sys/kernel/osrelease", release);
        assert_eq!(value("0"), (Fine, redis), "{release}");
    }
    let found = finding(&machine, "overcommit");
    assert_eq!(found.file, "/proc/sys/vm/overcommit_memory");
    assert_eq!(found.value.as_deref(), Some("0"));
    assert_eq!(found.change.as_deref(), Some("sysctl -w vm.overcommit_memory=1"));
    assert!(found.lasting.unwrap().starts_with("no file of sysctl"));
    machine.write("etc/sysctl.d/9.conf", "vm.overcommit_memory=1\n");
    assert!(finding(&machine, "overcommit").lasting.unwrap().starts_with("no: /etc/sysctl.d/9"));
}

#[test]
fn swap() {
    let machine = six_cores();
    let file = "proc/sys/vm/swappiness";
    let meminfo = |total, free| format!("SwapTotal:  {total} kB\nSwapFree:  {free} kB\n");
    assert_eq!(with(&machine, "swappiness", file, "60"), (Fine, Fine), "without swap");
    assert_eq!(judged(&machine, "swap-used"), (Fine, Fine));
    machine.write("proc/meminfo", meminfo(2048, 2048));
    assert_eq!(with(&machine, "swappiness", file, "60"), (Advice, Advice));
    assert_eq!(with(&machine, "swappiness", file, "10"), (Fine, Fine));
    assert_eq!(with(&machine, "swappiness", file, "many"), (Unknown, Unknown));
    assert_eq!(judged(&machine, "swap-used"), (Fine, Fine));
    machine.write("proc/meminfo", meminfo(2048, 1024));
    assert_eq!(judged(&machine, "swap-used"), (Warning, Warning));
    assert_eq!(finding(&machine, "swap-used").value.as_deref(), Some("1 MB of 2 MB"));
    assert_eq!(with(&machine, "swap-used", "proc/meminfo", "MemTotal: 1 kB"), (Unknown, Unknown));
}

#[test]
fn queues_of_connections() {
    let machine = six_cores();
    for (check, file, bad) in [
        ("somaxconn", "proc/sys/net/core/somaxconn", Warning),
        ("syn-backlog", "proc/sys/net/ipv4/tcp_max_syn_backlog", Advice),
    ] {
        assert_eq!(with(&machine, check, file, "511"), (Fine, Fine));
        assert_eq!(with(&machine, check, file, "510"), (bad, bad));
        assert_eq!(with(&machine, check, file, "-1"), (Unknown, Unknown));
    }
}

#[test]
fn open_files() {
    let machine = six_cores();
    for (line, expected) in [
        ("Max open files 10032 10032 files", Fine),
        ("Max open files 1024 10032 files", Fine),
        ("Max open files 1024 unlimited files", Fine),
        ("Max open files unlimited unlimited files", Fine),
        ("Max open files 1024 10031 files", Warning),
        ("Max open files x y files", Unknown),
        ("Max processes 1 1 processes", Unknown),
    ] {
        let judged = with(&machine, "open-files", "proc/self/limits", line);
        assert_eq!(judged, (expected, expected), "{line}");
    }
    for (line, expected) in
        [("968\t0\t11000", Fine), ("969\t0\t11000", Warning), ("5 0", Unknown), ("", Unknown)]
    {
        let judged = with(&machine, "file-max", "proc/sys/fs/file-nr", line);
        assert_eq!(judged, (expected, expected), "{line}");
    }
}

#[test]
fn frequencies() {
    let machine = six_cores();
    let governor =
        |value| with(&machine, "governor", &format!("{CPU}/cpu4/cpufreq/scaling_governor"), value);
    assert_eq!(governor("performance"), (Fine, Fine));
    assert_eq!(governor("ondemand"), (Advice, Advice));
    assert_eq!(governor("other"), (Unknown, Unknown));
    assert_eq!(governor("powersave"), (Warning, Warning));
    assert_eq!(
        finding(&machine, "governor").value.as_deref(),
        Some("performance on CPUs 0-3,5, powersave on CPUs 4")
    );
    // This driver's governor of the same name follows the load.
    machine.write(&format!("{CPU}/cpu0/cpufreq/scaling_driver"), "intel_pstate\n");
    assert_eq!(governor("powersave"), (Advice, Advice));
    machine.remove(&format!("{CPU}/cpu4/cpufreq"));
    assert_eq!(judged(&machine, "governor"), (Fine, Fine), "the others have one");

    let turbo = |file: &str, value| with(&machine, "turbo", &format!("{CPU}/{file}"), value);
    assert_eq!(turbo("intel_pstate/no_turbo", "1"), (Advice, Advice));
    assert_eq!(turbo("intel_pstate/no_turbo", "0"), (Fine, Fine));
    machine.remove(&format!("{CPU}/intel_pstate"));
    assert_eq!(judged(&machine, "turbo"), (Unknown, Unknown));
    assert_eq!(turbo("cpufreq/boost", "1"), (Fine, Fine));
    assert_eq!(turbo("cpufreq/boost", "0"), (Advice, Advice));
    assert_eq!(turbo("cpufreq/boost", "2"), (Unknown, Unknown));
}

#[test]
fn balancing_between_nodes() {
    let file = "proc/sys/kernel/numa_balancing";
    let one = six_cores();
    assert_eq!(with(&one, "numa-balancing", file, "1"), (Fine, Fine), "one node");
    one.remove(file);
    let found = finding(&one, "numa-balancing");
    assert_eq!((found.weft, found.why.contains("one memory node")), (Unknown, true));
    let two = healthy(&Layout { cache_kib: 0, ..known::two_sockets(false) });
    assert_eq!(with(&two, "numa-balancing", file, "0"), (Fine, Fine));
    assert_eq!(with(&two, "numa-balancing", file, "1"), (Advice, Advice));
    assert_eq!(with(&two, "numa-balancing", file, "x"), (Unknown, Unknown));
}

#[test]
fn interrupts() {
    let machine = six_cores();
    machine.write("proc/77/comm", "irqbalance2\n");
    assert_eq!(judged(&machine, "irqbalance"), (Fine, Fine));
    assert_eq!(with(&machine, "irqbalance", "proc/78/comm", "irqbalance"), (Advice, Advice));
    assert_eq!(finding(&machine, "irqbalance").file, "/proc/78/comm");

    assert_eq!(judged(&machine, "interrupts"), (Fine, Fine));
    // The published machine after its start.
    let machine = known::six_cores().build();
    assert_eq!(judged(&machine, "interrupts"), (Advice, Advice));
    assert_eq!(finding(&machine, "interrupts").value.as_deref(), Some("eth0 on CPU 1"));
    machine.write("proc/irq/62/smp_affinity_list", "2\n");
    assert_eq!(judged(&machine, "interrupts"), (Fine, Fine));
    // With one CPU there is no other one to move them to.
    let mut layout = Layout { cache_kib: 0, ..known::six_cores() };
    layout.cpus.truncate(1);
    let machine = layout.build();
    for irq in 60..64 {
        machine.write(&format!("proc/irq/{irq}/smp_affinity_list"), "0\n");
    }
    assert_eq!(judged(&machine, "interrupts"), (Fine, Fine));
}

#[test]
fn mitigations() {
    let machine = six_cores();
    let state = |name: &str, value: &str| {
        machine.remove(&format!("{CPU}/vulnerabilities"));
        machine.write(&format!("{CPU}/vulnerabilities/{name}"), format!("{value}\n"));
        let found = finding(&machine, "mitigations");
        (found.weft, found.value.unwrap())
    };
    for (name, value) in [
        ("meltdown", "Mitigation: PTI"),
        ("mds", "Mitigation: Clear CPU buffers; SMT vulnerable"),
        ("tsa", "Mitigation: Clear CPU buffers: user/kernel boundary"),
        ("spectre_v2", "Mitigation: IBRS; IBPB: conditional; STIBP: disabled"),
        ("spectre_v2", "Mitigation: Retpolines; IBPB: conditional; BHI: SW loop, KVM: SW loop"),
        ("retbleed", "Mitigation: untrained return thunk; SMT vulnerable"),
        ("spec_rstack_overflow", "Mitigation: Safe RET"),
    ] {
        let (severity, shown) = state(name, value);
        assert_eq!(severity, Advice, "{name}: {value}");
        assert!(shown.ends_with(&format!("at each system call: {name}")), "{shown}");
    }
    for (name, value) in [
        ("meltdown", "Not affected"),
        ("mmio_stale_data", "Mitigation: Clear CPU buffers; SMT Host state unknown"),
        ("tsa", "Mitigation: Clear CPU buffers: VM"),
        ("spectre_v2", "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; BHI: BHI_DIS_S"),
        ("retbleed", "Mitigation: Enhanced IBRS"),
        ("spec_rstack_overflow", "Mitigation: IBPB on VMEXIT only"),
        ("spectre_v1", "Mitigation: usercopy/swapgs barriers and __user pointer sanitization"),
    ] {
        assert_eq!(state(name, value).0, Fine, "{name}: {value}");
    }
    let (severity, shown) =
        state("spectre_v2", "Mitigation: Enhanced / Automatic IBRS; BHI: Vulnerable");
    assert_eq!(
        (severity, shown.as_str()),
        (Advice, "1 known, 1 of them mitigated; open: spectre_v2")
    );
    assert!(finding(&machine, "mitigations").action.unwrap().starts_with("Update"));
    assert_eq!(state("mds", "Vulnerable; SMT vulnerable").0, Advice);
    machine.write("proc/cmdline", "mitigations=off\n");
    assert!(finding(&machine, "mitigations").action.unwrap().starts_with("Remove mitigations=off"));
    assert!(finding(&machine, "mitigations").lasting.unwrap().contains("mitigations=off"));
}

#[test]
fn stolen_time() {
    let machine = six_cores();
    let steal = |line: &str| with(&machine, "steal", "proc/stat", line);
    assert_eq!(steal("cpu  100 0 100 791 0 0 0 9 50 0"), (Fine, Fine));
    assert_eq!(steal("cpu  100 0 100 790 0 0 0 10 50 0"), (Advice, Advice));
    assert_eq!(finding(&machine, "steal").value.as_deref(), Some("1.0 % since the start"));
    assert_eq!(steal("cpu  100 0 100 750 0 0 0 50 0 0"), (Warning, Warning));
    for strange in ["cpu  0 0 0 0 0 0 0 0", "cpu 1 2 3", "cpu a", "intr 1"] {
        assert_eq!(steal(strange), (Unknown, Unknown), "{strange}");
    }
}

#[test]
fn clocks() {
    let machine = six_cores();
    let folder = "sys/devices/system/clocksource/clocksource0";
    let clock =
        |value| with(&machine, "clocksource", &format!("{folder}/current_clocksource"), value);
    assert_eq!(clock("kvm-clock"), (Fine, Fine));
    assert_eq!(clock("sundial"), (Unknown, Unknown));
    assert_eq!(clock("acpi_pm"), (Warning, Warning));
    let slow = finding(&machine, "clocksource");
    assert_eq!(slow.change, None, "nothing better is known of");
    assert!(slow.action.is_some_and(|action| action.contains("a fast clock source")));
    machine.write(&format!("{folder}/available_clocksource"), "hpet kvm-clock acpi_pm\n");
    assert!(finding(&machine, "clocksource").change.unwrap().starts_with("echo kvm-clock >"));
}

#[test]
fn limits_of_the_group() {
    for version in [1, 2] {
        let machine = healthy(&Layout { cache_kib: 0, ..known::limited(version) });
        let found = finding(&machine, "cpu-quota");
        assert_eq!((found.weft, found.value.as_deref()), (Advice, Some("2.50 CPUs on 4")));
        let (cpu, stolen) = if version == 1 { ("cpu/", "time 7000000") } else { ("", "usec 7000") };
        machine.write(
            &format!("sys/fs/cgroup/{cpu}system.slice/weft.service/cpu.stat"),
            format!("nr_periods 9\nnr_throttled 2\nthrottled_{stolen}\n"),
        );
        let found = finding(&machine, "cpu-quota");
        assert_eq!(found.weft, Warning);
        assert_eq!(
            found.value.as_deref(),
            Some("2.50 CPUs on 4, stopped in 2 of 9 periods for 7 ms in all")
        );
        assert_eq!(judged(&machine, "memory-limit"), (Advice, Advice));
        assert_eq!(finding(&machine, "memory-limit").value.as_deref(), Some("4.0 GiB"));
    }
    // The check server-memory compares a running server's maxmemory with the same limit.
    let machine = healthy(&Layout { cache_kib: 0, ..known::limited(2) });
    let mut input = CheckInput::new(Host::new(machine.root()));
    input.running = Some(Running { max_memory: Some(1 << 20), ..Running::default() });
    let found = examine(&input, Server::Any, &["memory-limit".to_string()]);
    assert_eq!(found[0].weft, Fine);
    // One CPU's time on one CPU is not a limit.
    let machine = healthy(&Layout { cache_kib: 0, ..known::container() });
    assert_eq!(judged(&machine, "cpu-quota"), (Fine, Fine));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_text_in_a_file_breaks_it(
        texts in prop::collection::vec("[ -~\n\t]{0,30}|[0-9 \t]{0,60}|Mitigation: [ -~]{0,9}", 19)
    ) {
        let machine = Machine::empty();
        let enabled = format!("{THP}/enabled");
        let vulnerable = format!("{CPU}/vulnerabilities/meltdown");
        let files = [
            enabled.as_str(), &vulnerable, "proc/sys/vm/overcommit_memory", "proc/sys/fs/file-nr",
            "proc/sys/vm/swappiness", "proc/meminfo", "proc/self/limits", "proc/stat",
            "proc/cmdline", "proc/1/comm", "etc/sysctl.conf", "proc/self/cgroup",
            "proc/self/mountinfo", "proc/interrupts", "sys/class/net/eth0/operstate",
        ];
        for (file, text) in files.iter().zip(&texts) {
            machine.write(file, text);
        }
        let found = findings(&machine);
        prop_assert_eq!(found.len(), of_files().len());
        text::print(&found, Server::Any, false);
        text::print(&found, Server::Any, true);
    }
}
