//! Compares with the reference tool: both accept the same options and test names, and the output
//! that scripts read, CSV and the lines of `-q`, has the same form. Numbers are masked.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{OURS, describe, masked, ours, run, run_with, text, theirs};
use weft_testkit::{Server, skip_without};

/// Calls that both tools must accept alike; together they contain every option of the reference's
/// `--help` except those of [`REFUSED`] and [`ENDLESS`]. `{dir}` is the folder of the server.
const CALLS: &[&str] = &[
    "-h localhost -t set -n 100 -q",
    "-s {dir}/sock -t set,get -n 100 -q",
    "-a pw -t get -n 100 -q",
    "-a pw --user default -t get -n 100 -q",
    "-a wrong -t get -n 100 -q",
    "-a pw -c 3 -n 100 -t ping -q",
    "-a pw --duration 1 -t get -q",
    "-a pw --warmup 1 -n 100 -t get -q",
    "-a pw -n 100 -d 1000 -t set,lrange --csv",
    "-a pw -n 100 --dbnum 2 -t set -q",
    "-a pw -n 100 --dbnum 99 -t set -q",
    "-a pw -n 100 -3 -t get,zpopmin -q",
    "-a pw -n 100 --threads 2 -t get -q",
    "-a pw -n 100 --enable-tracking -3 -t get -q",
    "-a pw -n 50 -k 0 -t set -q",
    "-a pw -n 50 -k 0 --dbnum 3 -t set -q",
    "-a pw -n 100 -r 50 -t set,get,mset,zadd -q",
    "-a pw -n 100 -r 50 --sequential -t set -q",
    "-a pw -n 100 -P 7 -t set -q",
    "-a pw -n 100 --precision 2 -t get --csv",
    "-a pw -n 300 --rps 1000 -t get -q",
    "-a pw -n 100 -e -t get -q",
    "-a pw -n 100 --seed 5 -r 9 -t get -q",
    "-a pw -n 20 --num-functions 3 -t function_load -q",
    "-a pw -n 100 --num-keys-in-fcall 3 -t fcall -q",
    "-a pw -n 100 -t get lpush list __rand_int__",
    "-a pw -n 100 -q -r 9 set key:__rand_1st__ __data__",
    "-a pw -n 100 -q -- multi ; 2 incr counter ; set a b ; exec",
    "-a pw -n 100 -q nosuch command",
    "-a pw -n 100 --csv -- hset hash __rand_2nd__ __rand_2nd__",
    "-n 100 -t get -q",
    "-n -t",
    "-n 5 --duration 1",
    "--nosuch",
    "-n",
    "--rfr maybe",
    "-p 70000",
    "--mptcp -s {dir}/sock -t get",
    "-a pw --sni x --insecure --cacert x --cacertdir x -n 50 -t get -q",
    "-a pw --cert x --key x --tls-ciphers x --tls-ciphersuites x -n 50 -t get -q",
    "--tls --cacert {dir}/none -t get",
    "--tls --insecure --cert {dir}/none -n 10 -t get",
    "--tls --insecure --tls-ciphers no -n 10 -t get",
];

/// Options that need a cluster.
const CLUSTER_CALLS: &[&str] = &[
    "--cluster -n 200 -t ping,set,get,lrange_100,mset -q",
    "--cluster -n 200 -t set --csv --threads 2",
    "--cluster --rfr no -n 200 -t get -q",
    "--cluster --rfr all -n 200 -t get -q",
    "--cluster -n 200 -r 10 -q set key:{tag}:__rand_int__ __data__",
];

/// Options that are refused with a message.
const REFUSED: &[&str] = &["--rdma"];

/// Options with separate tests: they never end, read from standard input, or print a text; those of
/// the fuzzer are in `fuzz.rs`.
const ELSEWHERE: &[&str] = &[
    "-I",
    "-l",
    "-x",
    "-u",
    "--mptcp",
    "--help",
    "--version",
    "--fuzz",
    "--fuzz-mode",
    "--fuzz-loglevel",
];

/// The options in the reference's help.
fn options_of(help: &str) -> BTreeSet<String> {
    let list = help.split("Options:").nth(1).and_then(|rest| rest.split("Examples:").next());
    let words = list.expect("a list of options").lines().filter_map(|line| {
        let line = line.strip_prefix(" -")?;
        Some(format!("-{}", line.split_whitespace().next()?))
    });
    words.collect()
}

#[test]
fn every_option_is_covered_here() {
    let theirs = theirs();
    if skip_without("every_option_is_covered_here", &theirs, "valkey-benchmark") {
        return;
    }
    let help = text(&run_with(&theirs.unwrap(), "--help", "").stdout);
    let options = options_of(&help);
    assert!(options.len() > 30, "{options:?}");
    let covered: BTreeSet<&str> = [CALLS, CLUSTER_CALLS, REFUSED, ELSEWHERE]
        .iter()
        .flat_map(|calls| calls.iter().flat_map(|call| call.split(' ')))
        .collect();
    let missing: Vec<&String> = options
        .iter()
        .filter(|option| !covered.contains(option.as_str()) && *option != "-p")
        .collect();
    assert!(missing.is_empty(), "not compared: {missing:?}");
    let ours = text(&run_with(Path::new(OURS), "--help", "").stdout);
    for option in &options {
        assert!(ours.contains(option.as_str()), "{option} is not in our help");
    }
}

#[track_caller]
fn compare(theirs: &Path, port: u16, call: &str) {
    let (theirs, ours) = (run(theirs, port, call), ours(port, call));
    let both = || format!("{call}\ntheirs: {}\nours: {}", describe(&theirs), describe(&ours));
    assert_eq!(theirs.status.code(), ours.status.code(), "{}", both());
    if !theirs.status.success() {
        let said = [&ours.stdout[..], &ours.stderr].concat();
        assert!(!said.is_empty(), "an end without a word: {}", both());
        return;
    }
    if call.contains("-q") || call.contains("--csv") {
        let lines = |output| masked(&text(output));
        assert_eq!(lines(&theirs.stdout), lines(&ours.stdout), "{}", both());
    }
}

#[test]
fn each_option_is_taken_alike() {
    let theirs = theirs();
    if skip_without("each_option_is_taken_alike", &theirs, "valkey-benchmark") {
        return;
    }
    let Some(server) = Server::valkey(&["--requirepass", "pw", "--unixsocket", "sock"]) else {
        weft_testkit::skipped::note(
            "each_option_is_taken_alike",
            "no valkey-server in PEERS_BIN or PATH",
        );
        return;
    };
    let dir = server.dir().display().to_string();
    server.client().ok(&["AUTH", "pw"]);
    for call in CALLS {
        // A socket has no port, but the server requires its password.
        let call = call.replace("{dir}", &dir).replace("-s ", "-a pw -s ");
        compare(theirs.as_ref().unwrap(), server.port(), &call);
    }
    let uri = format!("-u valkey://default:pw@localhost:{}/1 -n 50 -t get -q", server.port());
    compare(theirs.as_ref().unwrap(), server.port(), &uri);
}

#[test]
fn cluster_mode_is_taken_alike() {
    let theirs = theirs();
    if skip_without("cluster_mode_is_taken_alike", &theirs, "valkey-benchmark") {
        return;
    }
    let announced = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
    let Some(server) = Server::valkey(&announced) else {
        weft_testkit::skipped::note(
            "cluster_mode_is_taken_alike",
            "no valkey-server in PEERS_BIN or PATH",
        );
        return;
    };
    let mut client = server.client();
    client.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    while !client.cmd(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for call in CLUSTER_CALLS {
        compare(theirs.as_ref().unwrap(), server.port(), call);
    }
}

#[test]
fn unsupported_option_is_refused_by_name() {
    for call in REFUSED {
        let output = ours(1, &format!("{call} -t get"));
        assert_eq!(output.status.code(), Some(1), "{call}");
        let error = text(&output.stderr);
        assert!(error.contains("not built in"), "{call}: {error}");
    }
}

#[test]
fn standard_input_is_the_last_argument() {
    let Some(server) = Server::valkey(&[]) else {
        weft_testkit::skipped::note(
            "standard_input_is_the_last_argument",
            "no valkey-server in PEERS_BIN or PATH",
        );
        return;
    };
    let call = format!("-p {} -n 10 -q -x set from-stdin", server.port());
    for tool in [Some(Path::new(OURS).to_path_buf()), theirs()].into_iter().flatten() {
        let output = run_with(&tool, &call, "some text");
        assert!(output.status.success(), "{}", describe(&output));
        assert_eq!(server.client().cmd(&["GET", "from-stdin"]).text(), "some text");
        server.client().cmd(&["DEL", "from-stdin"]);
    }
}

/// Every test, one by one, in CSV and with `-q`.
#[test]
fn each_test_has_the_same_name_and_form() {
    let theirs = theirs();
    if skip_without("each_test_has_the_same_name_and_form", &theirs, "valkey-benchmark") {
        return;
    }
    let Some(server) = Server::valkey(&[]) else {
        weft_testkit::skipped::note(
            "each_test_has_the_same_name_and_form",
            "no valkey-server in PEERS_BIN or PATH",
        );
        return;
    };
    let (theirs, port) = (theirs.unwrap(), server.port());
    for format in ["--csv", "-q"] {
        compare(&theirs, port, &format!("-n 20 -c 2 {format}"));
        for name in "ping_inline ping_mbulk ping set get incr lpush rpush lpop rpop sadd hset spop \
                     zadd zpopmin lrange lrange_100 lrange_300 lrange_500 lrange_600 mset mget xadd \
                     function_load fcall"
            .split_whitespace()
        {
            compare(&theirs, port, &format!("-n 20 -c 2 -t {name} {format}"));
        }
    }
}

#[test]
fn the_long_report_has_all_lines_of_theirs() {
    let theirs = theirs();
    if skip_without("the_long_report_has_all_lines_of_theirs", &theirs, "valkey-benchmark") {
        return;
    }
    let Some(server) = Server::valkey(&[]) else {
        weft_testkit::skipped::note(
            "the_long_report_has_all_lines_of_theirs",
            "no valkey-server in PEERS_BIN or PATH",
        );
        return;
    };
    for call in ["-n 100 -t get", "-n 100 -t set --rps 5000", "-n 100 --threads 2 set a b"] {
        let lines = |output: &[u8]| masked(&text(output));
        let want = lines(&run(theirs.as_ref().unwrap(), server.port(), call).stdout);
        let got = lines(&ours(server.port(), &format!("--full {call}")).stdout);
        // The number of lines of a distribution depends on the latencies.
        let is_step = |line: &&String| line.starts_with("N% <= N milliseconds");
        assert!(got.iter().filter(is_step).count() > 3, "{got:#?}");
        let mut rest = got.iter();
        for line in want.iter().filter(|line| !is_step(line)) {
            let found = rest.any(|ours| ours == line);
            assert!(found, "{call}: {line:?} is missing, or out of order: {got:#?}");
        }
    }
}
