//! The wall clock of nodes is set by an hour. Leases, promises and failovers follow the monotonic clock alone.

use crate::load::Load;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use weft_testkit::client::encode;
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_testkit::{locate, skipped};

const LEASE: Duration = Duration::from_secs(2);
const SLOT: u16 = 100;
const HOUR: i64 = 3600;

/// The file in a node's folder from which its clock reads its shift.
const SHIFT: &str = "shifted-clock";

/// The library that shifts the wall clock of a process that preloads it.
fn library(dir: &Path) -> Option<PathBuf> {
    let compiler = locate::program("cc")?;
    let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
    fs::write(&source, include_str!("shifted_clock.c")).expect("the folder is writable");
    let flags = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"];
    let status = Command::new(compiler).args(flags).arg(&library).arg(&source).status();
    assert!(status.expect("a compiler").success(), "the library doesn't compile");
    Some(library)
}

/// Sets the clock of this node.
fn set_clock(cluster: &Cluster, node: usize, seconds: i64) {
    // Not truncated: the process has it mapped.
    let file = File::options().write(true).open(cluster.nodes[node].dir().join(SHIFT));
    file.expect("its file").write_all_at(&seconds.to_ne_bytes(), 0).expect("written");
}

/// By how many seconds the clock of this node differs from the machine's.
fn shift_of(cluster: &Cluster, node: usize) -> i64 {
    let time = cluster.client(node).cmd(&["TIME"]).items()[0].text().parse::<i64>();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("after 1970").as_secs() as i64;
    time.expect("seconds") - now
}

fn leads(cluster: &Cluster, node: usize) -> bool {
    cluster.try_view(node).is_some_and(|view| view.myself().is_primary())
}

fn formed(library: &Path) -> Option<Cluster> {
    let env = [("LD_PRELOAD", &*library.to_string_lossy()), ("SHIFTED_CLOCK", SHIFT)];
    let env = env.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
    let settings = Settings { timeout_ms: LEASE.as_millis() as u64, env, ..Settings::of(6) };
    let settings = settings.with_weft(&["--cluster-write-quorum", "1"]);
    let cluster = Cluster::formed(Kind::Weft, 3, settings)?;
    cluster.settle_replicas();
    Some(cluster)
}

/// No jump of any clock interrupts the clients, and none changes a role.
fn clocks_jump(cluster: &Cluster, primary: usize, replica: usize) {
    let shape = |cluster: &Cluster| cluster.view(0).shape();
    let before = shape(cluster);
    let load = Load::start(cluster);
    for (node, hours) in [(primary, 1), (replica, -1), (primary, -1), (replica, 1), (primary, 0)] {
        set_clock(cluster, node, hours * HOUR);
        cluster.wait_until("the clock is set", || {
            (shift_of(cluster, node) - hours * HOUR).abs() < HOUR / 2
        });
        let acknowledged = load.acknowledged();
        std::thread::sleep(LEASE * 2);
        assert!(load.acknowledged() > acknowledged, "{}", cluster.describe());
    }
    let outcome = load.finish();
    println!("{outcome:?}");
    assert!(outcome.lost.is_empty() && outcome.errors.is_empty(), "{outcome:?}");
    assert_eq!(
        (outcome.refused, outcome.unanswered),
        (0, 0),
        "a jump of a clock interrupts clients"
    );
    assert_eq!(shape(cluster), before, "a jump of a clock changes a role");
}

/// A primary that was stopped beyond its lease, and whose clock was set back meanwhile, acknowledges nothing.
fn stopped_primary_stays_fenced(cluster: &mut Cluster, primary: usize, replica: usize) {
    let load = Load::start(cluster);
    let mut client = cluster.client(primary);
    client.cmd(&["PING"]);
    cluster.nodes[primary].stop();
    set_clock(cluster, primary, -HOUR);
    cluster.wait_until("the replica leads", || leads(cluster, replica));
    client.send_raw(&encode(&["SET", &key_in(SLOT, "late"), "v"])).expect("sent");
    cluster.nodes[primary].resume();
    assert!(!client.read_reply().is_ok_and(|reply| reply.value.is_ok()), "two primaries");
    cluster.settle();
    let outcome = load.finish();
    println!("{outcome:?}");
    assert!(outcome.lost.is_empty() && outcome.errors.is_empty(), "{outcome:?}");
    assert!(!leads(cluster, primary));
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn wall_clock_set_by_an_hour_changes_no_lease() {
    let dir = TempDir::with_prefix("weft-clock-").expect("a temporary folder");
    let Some(library) = library(dir.path()) else {
        return skipped::note("wall_clock_set_by_an_hour_changes_no_lease", "no C compiler");
    };
    let Some(mut cluster) = formed(&library) else { return };
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    let replica = cluster.replicas_of(primary)[0];
    clocks_jump(&cluster, primary, replica);
    stopped_primary_stays_fenced(&mut cluster, primary, replica);
}
