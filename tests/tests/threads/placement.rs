//! CPU lists: the affinity of each thread in the kernel matches the directives and INFO.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use weft_testkit::locate;
use weft_testkit::{Client, Server};

/// A CPU that does not exist on any test machine.
const ABSENT: &str = "60000";

/// `Cpus_allowed_list` of each thread of a process, by the thread's name.
fn kernel_affinity(pid: u32) -> BTreeMap<String, String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process has threads");
    tasks
        .map(|task| {
            let task = task.expect("a thread").path();
            let name = fs::read_to_string(task.join("comm")).expect("a name");
            let status = fs::read_to_string(task.join("status")).expect("a status");
            let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
            (name.trim().to_string(), list.expect("a list").trim().to_string())
        })
        .collect()
}

fn field(client: &mut Client, name: &str) -> String {
    let info = client.cmd(&["INFO", "threads"]).text();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).trim().to_string()
}

/// The CPUs that this test may use.
fn own_cpus() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).expect("a list");
    list.trim()
        .split(',')
        .flat_map(|item| {
            let (a, b) = item.split_once('-').unwrap_or((item, item));
            a.parse::<usize>().expect("a CPU")..=b.parse().expect("a CPU")
        })
        .collect()
}

/// Checks that INFO and the kernel agree. Returns the lists of the I/O threads and of the
/// background thread.
fn agreed(server: &Server, threads: usize) -> (Vec<String>, String) {
    let mut client = server.client();
    // A thread sets its affinity first, but this client may be faster.
    for n in 0..threads {
        while field(&mut client, &format!("io_thread_{n}_cpus")).is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    // Background threads do not report when they have started.
    let (bio, slow) = (field(&mut client, "bio_cpus"), field(&mut client, "slow_cpus"));
    let is_placed = |kernel: &BTreeMap<String, String>| {
        kernel.get("weft-bio-free") == Some(&bio) && kernel.get("weft-slow-0") == Some(&slow)
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut kernel = kernel_affinity(server.pid());
    while !is_placed(&kernel) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
        kernel = kernel_affinity(server.pid());
    }
    let io: Vec<String> = (0..threads)
        .map(|n| {
            let shown = field(&mut client, &format!("io_thread_{n}_cpus"));
            assert_eq!(kernel[&format!("weft-io-{n}")], shown, "{kernel:?}");
            shown
        })
        .collect();
    assert_eq!(kernel["weft-bio-free"], bio, "{kernel:?}");
    assert_eq!(kernel["weft-slow-0"], slow, "{kernel:?}");
    (io, bio)
}

#[test]
fn threads_run_on_the_listed_cpus() {
    let cpus = own_cpus();
    if cpus.len() < 2 {
        weft_testkit::skipped::note("threads_run_on_the_listed_cpus", "one CPU");
        return;
    }
    let (first, second) = (cpus[0].to_string(), cpus[1].to_string());
    let both = format!("{first},{second}");
    let joined = if cpus[1] == cpus[0] + 1 { format!("{first}-{second}") } else { both.clone() };
    let start = |args: &[&str]| Server::weft(args);
    // Two threads, one CPU each.
    let server = start(&["--io-threads", "2", "--server_cpulist", &both]);
    let (io, _) = agreed(&server, 2);
    assert_ne!(io[0], io[1]);
    assert!(io.iter().all(|cpu| [&first, &second].contains(&cpu)), "{io:?}");
    // More threads than CPUs: all share the list.
    let server = start(&["--io-threads", "3", "--server-cpulist", &both]);
    assert_eq!(agreed(&server, 3).0, vec![joined.clone(); 3]);
    // One thread on one of several CPUs, and the background thread on another.
    let server = start(&["--io-threads", "1", "--server-cpulist", &both, "--bio_cpulist", &second]);
    assert_eq!(agreed(&server, 1), (vec![first.clone()], second.clone()));
    // A range with a step.
    let range = format!("{first}-{second}:{}", cpus[1] - cpus[0]);
    let server = start(&["--io-threads", "4", "--server-cpulist", &range]);
    assert_eq!(agreed(&server, 4).0, vec![joined.clone(); 4]);
    // Both lists automatic.
    let server = start(&["--io-threads", "1", "--server-cpulist", "auto", "--bio-cpulist", "auto"]);
    let (io, bio) = agreed(&server, 1);
    assert!(io[0].parse::<usize>().is_ok() && io[0] != bio, "{io:?} {bio}");
    // No lists: the inherited affinity.
    let server = start(&["--io-threads", "2"]);
    let inherited = field(&mut server.client(), "allowed_cpus");
    assert_eq!(agreed(&server, 2), (vec![inherited.clone(); 2], inherited));
}

#[test]
fn affinity_follows_the_number_of_threads() {
    let cpus = own_cpus();
    if cpus.len() < 2 {
        weft_testkit::skipped::note("affinity_follows_the_number_of_threads", "one CPU");
        return;
    }
    let both = format!("{},{}", cpus[0], cpus[1]);
    let server = Server::weft(&["--io-threads", "2", "--server-cpulist", &both]);
    let (apart, _) = agreed(&server, 2);
    let mut client = server.client();
    client.ok(&["CONFIG", "SET", "io-threads", "3"]);
    // Each thread is notified by a message, and a new one sets its own name.
    let together = |server: &Server| {
        let view = kernel_affinity(server.pid());
        (0..3).map(|n| view.get(&format!("weft-io-{n}")).cloned()).collect::<Vec<_>>()
    };
    let is_apart = |list: &Option<String>| list.as_ref().is_none_or(|list| apart.contains(list));
    while together(&server).iter().any(is_apart) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    client.ok(&["CONFIG", "SET", "io-threads", "2"]);
    while !together(&server)[..2].iter().flatten().eq(&apart) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The output of a program, which includes the log without a log file.
fn output_text(output: &std::process::Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// The mask set by taskset is a limit, is reported, and `auto` respects it.
#[test]
fn inherited_affinity_is_respected() {
    let cpus = own_cpus();
    let last = cpus.last().expect("a CPU").to_string();
    let found = Command::new("taskset").arg("--version").output();
    if cpus.len() < 2 || found.is_err() {
        weft_testkit::skipped::note("inherited_affinity_is_respected", "one CPU, or no taskset");
        return;
    }
    let weft = locate::weft().to_str().expect("a path").to_string();
    let within = |args: &[&str]| {
        let mut all = vec!["-c", &last, &weft];
        all.extend_from_slice(args);
        Command::new("taskset").args(all).output().expect("taskset runs")
    };
    let first = cpus[0].to_string();
    let refused = within(&["--port", "0", "--server-cpulist", &first]);
    let text = output_text(&refused);
    assert!(!refused.status.success());
    let wanted = format!("CPU {first} is not allowed to this process, but {last} are");
    assert!(text.contains(&wanted), "{text}");
}

#[test]
fn invalid_cpu_lists_stop_the_start() {
    let weft = locate::weft();
    for (name, list, wanted) in [
        ("server-cpulist", ABSENT, "server-cpulist \"60000\": CPU 60000 does not exist"),
        ("bio_cpulist", ABSENT, "bio-cpulist \"60000\": CPU 60000 does not exist"),
        ("bgsave_cpulist", "3-1", "bgsave-cpulist \"3-1\": the range '3-1' ends before it begins"),
        ("aof_rewrite_cpulist", "a", "aof-rewrite-cpulist \"a\": 'a' is not a CPU"),
        ("server_cpulist", "0-7:0", "the stride of '0-7:0' must not be 0"),
    ] {
        let args = ["--port", "0", &format!("--{name}"), list];
        let ended = Command::new(weft).args(args).output().expect("the program runs");
        let text = output_text(&ended);
        assert!(!ended.status.success() && text.contains(wanted), "{name} {list}: {text}");
    }
}

/// The nice value of each thread of a process, by the thread's name.
fn priorities(pid: u32) -> BTreeMap<String, i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process has threads");
    let shown = tasks.flatten().filter_map(|task| {
        // A thread that ends meanwhile has neither file.
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
        let nice = fields.split_ascii_whitespace().nth(16).expect("a nice value");
        Some((name.trim().to_string(), nice.parse().expect("a number")))
    });
    shown.collect()
}

/// Saving threads run at a lower priority than serving threads, whatever the server's own nice
/// value is. Otherwise a server started by root with a high nice value would save faster than it
/// serves.
#[test]
fn saving_threads_have_a_lower_priority_than_the_server() {
    // A higher nice value than this test's, since only root may lower it.
    let own = rustix::process::getpriority_process(None).expect("getpriority works");
    let low = (own + 2).min(19);
    let server = Server::weft(&["--rdb-key-save-delay", "20000", "--io-threads", "2"]);
    for task in fs::read_dir(format!("/proc/{}/task", server.pid())).expect("threads").flatten() {
        let id = task.file_name().into_string().expect("a number").parse().expect("a number");
        let thread = rustix::process::Pid::from_raw(id);
        rustix::process::setpriority_process(thread, low).expect("the priority may be lowered");
    }
    let mut client = server.client();
    for n in 0..100 {
        client.ok(&["SET", &format!("k{n}"), "v"]);
    }
    assert_eq!(client.cmd(&["BGSAVE"]).text(), "Background saving started");
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let seen = priorities(server.pid());
        let of = |start: &str| -> Vec<i32> {
            seen.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, p)| *p).collect()
        };
        assert_eq!(of("weft-io-"), [low; 2], "{seen:?}");
        // A thread sets its name and priority a moment after it has started.
        if of("weft-save-0") == [(low + 5).min(19)] {
            break;
        }
        assert!(Instant::now() < end, "{seen:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    client.cmd(&["BGSAVE", "CANCEL"]);
}
