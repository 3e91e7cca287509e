//! Samples of a machine that exists only as files, and the reports made from them.

use std::time::Duration;

use weft_testkit::machines::{Machine, known};

use super::info::Info;
use super::rates::{Rates, Sample};
use super::reading::{self, Fixed};
use super::report::Report;
use super::text;
use crate::host::Host;

/// The server's process on the machine.
const PID: u32 = 77;

const WEFT: &str = "\
# Server\r\nredis_version:7.2.4\r\nserver_name:weft\r\nweft_version:0.1.0\r\nserver_mode:standalone\r\n\
process_id:77\r\nrun_id:one\r\nuptime_in_seconds:100\r\nio_threads:2\r\nio_threads_active:1\r\n\
server_time_usec:1000000000\r\n\
connected_clients:50\r\nmaxclients:10000\r\nused_memory:4237008\r\nused_memory_peak:5000000\r\n\
used_memory_rss:46292992\r\nmaxmemory:0\r\nrdb_last_save_time:880\r\nrdb_last_bgsave_status:ok\r\n\
aof_enabled:0\r\nrole:master\r\nconnected_slaves:1\r\nmaster_repl_offset:5000\r\n\
slave0:ip=127.0.0.1,port=7000,state=online,offset=4488,lag=0\r\n\
db0:keys=1000,expires=10,avg_ttl=0\r\ndb11:keys=1,expires=0\r\ncluster_enabled:0\r\n";

/// INFO of Weft after this many GETs and microseconds of them.
fn weft(gets: u64, usec: u64) -> String {
    format!(
        "{WEFT}total_commands_processed:{gets}\r\nkeyspace_hits:{gets}\r\nkeyspace_misses:0\r\n\
         total_net_input_bytes:{}\r\n\
         io_thread_0:active=1,connections=50,requests={gets},reads={gets},cpu_user=0.5,cpu_sys=0.5\r\n\
         io_thread_0_cpus:0-5\r\n\
         io_thread_1:active=0,connections=0,requests=0,reads=0,cpu_user=0.0,cpu_sys=0.0\r\n\
         cmdstat_get:calls={gets},usec={usec},usec_per_call=1,rejected_calls=0,failed_calls=0\r\n\
         cmdstat_info:calls=2,usec=900,rejected_calls=0,failed_calls=0\r\n\
         latency_percentiles_usec_get:p50=1.003,p99=3.007,p99.9=9.023\r\n",
        gets * 20
    )
}

/// The counters of a thread, in its files.
fn write_thread(machine: &Machine, tid: u32, name: &str, used_ms: u64, switches: (u64, u64)) {
    let folder = format!("proc/{PID}/task/{tid}");
    // State, then fields 4 to 52; the 22nd is the start and the 39th the CPU.
    let mut fields = vec!["0".to_string(); 49];
    (fields[18], fields[35]) = ("5000".into(), "3".into());
    let stat = format!("{tid} ({name}) S {}\n", fields.join(" "));
    machine.write(&format!("{folder}/stat"), &stat);
    let waited = used_ms / 5 * 1_000_000;
    machine.write(&format!("{folder}/schedstat"), format!("{} {waited} 9\n", used_ms * 1_000_000));
    let (voluntary, involuntary) = switches;
    let status = format!(
        "Name:\t{name}\nvoluntary_ctxt_switches:\t{voluntary}\n\
         nonvoluntary_ctxt_switches:\t{involuntary}\n"
    );
    machine.write(&format!("{folder}/status"), status);
    if tid == PID {
        machine.write(&format!("proc/{PID}/stat"), &stat);
    }
}

/// Six CPUs after `seconds`: CPU 3 is busy, and CPU 1 takes the interrupts of the card.
fn write_machine(machine: &Machine, seconds: u64) {
    let mut stat = String::from("cpu  1 1 1 1\n");
    let mut received = String::from("NET_RX:");
    let heading: String = (0..6).map(|cpu| format!(" CPU{cpu}")).collect();
    for cpu in 0..6 {
        let busy = if cpu == 3 { seconds * 80 } else { 0 };
        let soft = if cpu == 3 { seconds * 10 } else { 0 };
        let idle = seconds * 100 - busy - soft;
        stat += &format!("cpu{cpu} {busy} 0 0 {idle} 0 0 {soft} 0 0 0\n");
        received += &format!(" {}", if cpu == 3 { seconds * 500 } else { 0 });
    }
    machine.write("proc/stat", stat + "intr 5\n");
    machine.write("proc/softirqs", format!("{heading}\n TIMER: 1 1 1 1 1 1\n {received}\n"));
    let bytes = seconds * 1_000_000;
    let network = format!(
        "Inter-| Receive | Transmit\n face |bytes packets\n\
         eth0: {bytes} {} 0 0 0 0 0 0 {bytes} {} 0 0 0 0 0 0\nidle0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        seconds * 1000,
        seconds * 2000
    );
    machine.write("proc/net/dev", network);
    write_thread(machine, PID, "weft-server", 10, (5, 0));
    write_thread(machine, PID + 1, "weft-io-0", seconds * 950, (seconds * 10, seconds * 40));
    write_thread(machine, PID + 2, "weft-io-1", 0, (0, 0));
    write_thread(machine, PID + 3, "weft-io-10", 0, (0, 0));
}

fn add_interrupts(machine: &Machine, more: u64) {
    let table = machine.text("proc/interrupts");
    machine.write("proc/interrupts", table.replace("1000000", &format!("{}", 1_000_000 + more)));
}

fn sample(at: f64, info: &str, machine: Option<&Machine>, fixed: &Fixed) -> Sample {
    Sample {
        at,
        unix_time_ms: 1_000_000,
        address: "127.0.0.1:6379".into(),
        info: Info::parse(info),
        probes: vec![Duration::from_micros(40); 10],
        probe_error: None,
        pid: machine.map(|_| PID),
        reading: machine.map(|machine| reading::read(&Host::new(machine.root()), fixed, PID)),
    }
}

/// A report over two seconds of a busy Weft, on a machine with six CPUs.
pub fn busy() -> Report {
    let machine = known::six_cores().build();
    let fixed = Fixed::read(&Host::new(machine.root()));
    let mut rates = Rates::new(fixed.clone());
    write_machine(&machine, 10);
    assert_eq!(rates.add(sample(10.0, &weft(1000, 1000), Some(&machine), &fixed)), None);
    write_machine(&machine, 12);
    add_interrupts(&machine, 600);
    let second = sample(12.0, &weft(201_000, 301_000), Some(&machine), &fixed);
    rates.add(second).expect("two samples")
}

/// The same over the network.
pub fn remote() -> Report {
    let fixed = Fixed { nodes: [].into(), interrupts: [].into() };
    let mut rates = Rates::new(fixed.clone());
    rates.add(sample(10.0, &weft(1000, 1000), None, &fixed));
    let info = weft(201_000, 301_000).replace("cpu_user=0.5", "cpu_user=1.5");
    rates.add(sample(12.0, &info, None, &fixed)).expect("two samples")
}

#[test]
fn requests_and_commands_are_rates() {
    let report = busy();
    assert_eq!((report.seconds, report.requests.per_second), (2.0, 100_000.0));
    assert_eq!(report.requests.input_bytes_per_second, 2_000_000.0);
    assert_eq!(report.requests.hit_percent, Some(100.0));
    assert_eq!(report.commands.len(), 1, "INFO was not called: {:?}", report.commands);
    let get = &report.commands[0];
    assert_eq!((get.name.as_str(), get.calls_per_second), ("get", 100_000.0));
    assert_eq!((get.usec_per_call, get.time_percent, get.p999_us), (1.5, 100.0, Some(9.023)));
}

#[test]
fn threads_have_their_cpu_and_what_info_says() {
    let report = busy();
    let names: Vec<&str> = report.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(names, ["weft-io-0", "weft-io-1", "weft-io-10", "weft-server"]);
    let io = &report.threads[0];
    let percent = |value: Option<f64>| value.map(f64::round);
    assert_eq!((percent(io.cpu_percent), percent(io.wait_percent)), (Some(95.0), Some(19.0)));
    assert_eq!((io.last_cpu, io.node, io.tid), (Some(3), Some(0), Some(PID + 1)));
    assert_eq!((io.voluntary_per_second, io.involuntary_per_second), (Some(10.0), Some(40.0)));
    let told = io.io.as_ref().unwrap();
    assert_eq!((told.is_active, told.connections), (Some(true), Some(50)));
    assert_eq!(told.requests_per_second, Some(100_000.0));
    assert_eq!(report.threads[1].io.as_ref().unwrap().is_active, Some(false));
    assert_eq!(report.threads[3].io, None, "the first thread of Weft serves no connections");
    assert_eq!((report.server.io_threads, report.server.io_threads_active), (Some(2), Some(1)));
}

#[test]
fn cpus_have_load_and_interrupts() {
    let report = busy();
    assert_eq!(report.cpus.len(), 6);
    let busy = &report.cpus[3];
    let rounded = [busy.busy_percent, busy.user_percent, busy.interrupt_percent].map(f64::round);
    assert_eq!(rounded, [90.0, 80.0, 10.0]);
    assert_eq!((busy.net_rx_per_second, busy.network_interrupts_per_second), (500.0, 0.0));
    assert_eq!(busy.threads, ["weft-io-0"], "the others used no time");
    // Four interrupts, 600 more each in two seconds.
    assert_eq!(report.cpus[1].network_interrupts_per_second, 1200.0);
    let names: Vec<&str> = report.interfaces.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["eth0"], "without traffic since the boot it isn't shown");
    let eth0 = &report.interfaces[0];
    assert_eq!(eth0.interrupts_by_cpu, [(1, 1200.0)].into());
    assert_eq!((eth0.received_bytes_per_second, eth0.sent_packets_per_second), (1e6, 2000.0));
}

#[test]
fn states_are_those_of_info() {
    let report = busy();
    assert_eq!((report.server.kind.as_str(), report.server.version.as_str()), ("weft", "0.1.0"));
    let databases: Vec<(u64, u64)> =
        report.databases.iter().map(|database| (database.number, database.keys)).collect();
    assert_eq!(databases, [(0, 1000), (11, 1)]);
    let replication = &report.replication;
    assert_eq!((replication.role.as_str(), replication.most_behind_bytes), ("primary", Some(512)));
    assert_eq!((&report.cluster, report.persistence.last_save_age_seconds), (&None, Some(120)));
    assert_eq!((report.latency.probes, report.latency.p99_us), (20, Some(40.0)));
}

#[test]
fn a_remote_weft_still_reports_its_io_threads() {
    let report = remote();
    assert!(!report.server.is_local && report.cpus.is_empty() && report.interfaces.is_empty());
    let threads: Vec<(&str, Option<f64>)> =
        report.threads.iter().map(|t| (t.name.as_str(), t.cpu_percent)).collect();
    assert_eq!(threads, [("I/O thread 0", Some(50.0)), ("I/O thread 1", Some(0.0))]);
}

#[test]
fn valkey_and_redis_are_recognized() {
    let fixed = Fixed { nodes: [].into(), interrupts: [].into() };
    let report = |info: &str| {
        let mut rates = Rates::new(fixed.clone());
        rates.add(sample(1.0, info, None, &fixed));
        rates.add(sample(2.0, info, None, &fixed)).unwrap()
    };
    let valkey = report(
        "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:cluster\r\n\
         io_threads_active:0\r\ncluster_enabled:1\r\ncluster_state:ok\r\ncluster_known_nodes:6\r\n\
         role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:7000\r\nmaster_link_status:down\r\n",
    );
    assert_eq!((valkey.server.kind.as_str(), valkey.server.version.as_str()), ("valkey", "9.1.2"));
    assert_eq!((valkey.server.io_threads_active, valkey.server.mode.as_str()), (None, "cluster"));
    assert_eq!(valkey.cluster.as_ref().map(|cluster| cluster.nodes), Some(6));
    let link = (valkey.replication.primary.as_deref(), valkey.replication.link_is_up);
    assert_eq!(link, (Some("10.0.0.1:7000"), Some(false)));
    assert!(text::print(&valkey).contains("replica of 10.0.0.1:7000: link down"));
    let redis = report(
        "redis_version:8.0.6\r\nredis_mode:standalone\r\nio_thread_0:clients=0,reads=7,writes=0\r\n\
         io_thread_1:clients=1,reads=3,writes=1\r\n",
    );
    assert_eq!((redis.server.kind.as_str(), redis.server.version.as_str()), ("redis", "8.0.6"));
    assert_eq!((redis.server.io_threads, redis.threads.len()), (Some(2), 2));
    assert_eq!(redis.threads[1].io.as_ref().and_then(|io| io.connections), Some(1));
}

#[test]
fn reset_counters_count_from_zero_and_another_run_begins_again() {
    let fixed = Fixed { nodes: [].into(), interrupts: [].into() };
    let mut rates = Rates::new(fixed.clone());
    rates.add(sample(1.0, &weft(1000, 1000), None, &fixed));
    let reset = rates.add(sample(2.0, &weft(10, 10), None, &fixed)).unwrap();
    assert_eq!(reset.requests.per_second, 10.0);
    let other = weft(5, 5).replace("run_id:one", "run_id:two");
    assert_eq!(rates.add(sample(3.0, &other, None, &fixed)), None);
    let report = rates.add(sample(4.0, &other, None, &fixed)).unwrap();
    assert_eq!(report.latency.probes, 20, "only those of this run");
}

#[test]
fn probes_older_than_a_minute_are_dropped() {
    let fixed = Fixed { nodes: [].into(), interrupts: [].into() };
    let mut rates = Rates::new(fixed.clone());
    let probes = |second: u32| {
        let sample = sample(f64::from(second), &weft(1, 1), None, &fixed);
        rates.add(sample).map_or(0, |report| report.latency.probes)
    };
    assert_eq!((0..100).map(probes).last(), Some(610));
}

#[test]
fn the_age_of_a_process_is_since_the_boot() {
    let machine = Machine::empty();
    machine.write("proc/uptime", "150.5 10.0\n");
    write_thread(&machine, PID, "any (name", 0, (0, 0));
    let host = Host::new(machine.root());
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    assert_eq!(reading::age(&host, PID), Some(150.5 - 5000.0 / ticks));
    assert_eq!(reading::age(&host, 1), None);
}

#[test]
fn hidden_files_leave_zeros() {
    let machine = Machine::empty();
    let host = Host::new(machine.root());
    let fixed = Fixed::read(&host);
    let reading = reading::read(&host, &fixed, PID);
    assert_eq!(reading, reading::Reading::default());
    machine.write(&format!("proc/{PID}/task/{PID}/stat"), "77 (x) S 1\n");
    assert_eq!(reading::read(&host, &fixed, PID).threads.len(), 0, "a file that ends early");
}

/// Scripts rely on the names: each is described.
#[test]
fn each_name_of_the_json_is_documented() {
    let page = include_str!("../../../../docs/top.md");
    let cluster = super::report::Cluster::default();
    let report = Report { cluster: Some(cluster), ..busy() };
    let mut missing = Vec::new();
    let mut values = vec![serde_json::to_value(report).unwrap()];
    while let Some(value) = values.pop() {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    let is_cpu = name.parse::<u64>().is_ok();
                    if !is_cpu && !page.contains(&format!("`{name}`")) {
                        missing.push(name);
                    }
                    values.push(value);
                }
            }
            serde_json::Value::Array(all) => values.extend(all),
            _ => {}
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "docs/top.md lacks them");
}

#[test]
fn text_has_all_parts() {
    let text = text::print(&busy());
    for part in [
        "weft 0.1.0 at 127.0.0.1:6379, process 77, up 1m 40s\n",
        "Requests   100,000/s, measured for 2.0 s\n",
        "PING       median 40 µs, p99 40 µs, max 40 µs of 20 probes\n",
        "Clients    50 of 10000, 0 blocked",
        "Keys       1,001 in 2 databases, 10 with expiry; 100 % hits",
        "Threads    2 I/O, 1 active; CPU 95 %, most by weft-io-0: 95.0 %\n",
        "Role       primary, 1 replica, the last is 512 B late\n",
        "Saves      last save or start 2m 00s ago",
        "\nget         100k    1.5 µs     100         0    3.0 µs\n",
        "1: 100 %\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}
