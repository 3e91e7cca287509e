//! Tests of the command line.

use super::*;
use crate::keys::KeyDistribution;
use crate::sizes::SizeDistribution;
use std::time::Duration;

fn read(line: &str) -> Result<Options, Stop> {
    parse(line.split_whitespace().map(OsString::from))
}

fn options(line: &str) -> Options {
    read(line).unwrap_or_else(|stop| panic!("{line}: {stop:?}"))
}

fn refused(line: &str) -> String {
    match read(line) {
        Err(Stop::Wrong(message)) => message,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn defaults_are_those_of_the_reference() {
    let o = options("");
    assert_eq!(o.target, Target::Tcp("127.0.0.1".into(), 6379));
    assert_eq!((o.clients, o.pipeline, o.amount), (50, 1, Amount::Requests(100_000)));
    assert_eq!((o.keyspace, o.rate, o.keepalive, o.precision), (None, None, true, 3));
    assert_eq!(o.sizes, SizeDistribution::fixed(3));
    assert_eq!((o.output, o.login, o.db), (Output::Table, None, 0));
}

#[test]
fn short_options_are_those_of_the_reference() {
    let o =
        options("-h box -p 7000 -a pw --user me -c 5 -n 10 -d 8 -r 100 -P 4 -k 0 -q -3 --dbnum 2");
    assert_eq!(o.target, Target::Tcp("box".into(), 7000));
    assert_eq!(o.login, Some((Some("me".into()), "pw".into())));
    assert_eq!(
        (o.clients, o.amount, o.keyspace, o.pipeline),
        (5, Amount::Requests(10), Some(100), 4)
    );
    assert!(!o.keepalive && o.resp3 && o.db == 2 && o.output == Output::Quiet);
    assert_eq!(options("-s /tmp/sock").target, Target::Unix("/tmp/sock".into()));
}

#[test]
fn the_first_word_begins_a_command() {
    let o = options("-n 5 lpush list -1 -q --csv");
    assert_eq!(o.command.join(&b' '), b"lpush list -1 -q --csv");
    assert_eq!(o.output, Output::Table);
    assert_eq!(options("-q -- -x a").command.join(&b' '), b"-x a");
}

#[test]
fn full_report_gives_way_to_formats_for_programs() {
    let output = |line: &str| options(line).output;
    assert_eq!((output("--full"), output("--full -q")), (Output::Full, Output::Quiet));
    assert_eq!((output("--full --csv"), output("--full --json")), (Output::Csv, Output::Json));
}

#[test]
fn host_option_without_a_value_prints_the_short_help() {
    for line in ["-h", "-t get -h"] {
        match read(line) {
            Err(Stop::Print(text)) => assert_eq!(text, short_help(), "{line}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    let Err(Stop::Print(full)) = read("--help") else { panic!("no help") };
    let place = |words: &str| full.find(words).unwrap_or_else(|| panic!("{words}: {full}"));
    let order =
        ["Examples:\n  weft-benchmark -t set,get", "\nOptions:\n", "__rand_1st__", "Tests of -t:"];
    assert!(order.map(place).is_sorted(), "{full}");
    assert!(refused("-p").contains("option argument missing"));
    assert_eq!(options("-h box").target, Target::Tcp("box".into(), 6379));
}

#[test]
fn values_may_look_like_options_and_the_last_one_counts() {
    assert_eq!(options("-a -secret").login, Some((None, "-secret".into())));
    assert_eq!(options("-c 1 -c 2 -q -q").clients, 2);
    assert_eq!(options("-r -5").keyspace, Some(0));
}

#[test]
fn limits_are_those_of_the_reference() {
    let o = options("-d 0 -P 0 --precision 9 --threads 1000");
    assert_eq!((o.sizes, o.pipeline, o.precision), (SizeDistribution::fixed(1), 1, 4));
    assert_eq!(o.threads, Some(500));
    assert_eq!(o.warnings, ["WARNING: Too many threads, limiting threads to 500."]);
    assert_eq!(options("--threads 0").threads, None);
}

#[test]
fn wrong_options_are_named() {
    for (line, option) in
        [("--nosuch", "--nosuch"), ("-n", "-n"), ("-q -Z", "-Z"), ("--rfr", "--rfr")]
    {
        let message = refused(line);
        let want = format!("Invalid option \"{option}\" or option argument missing\n");
        assert!(message.starts_with(&want), "{line}: {message}");
        assert!(message.lines().count() == 2 && message.contains("--help"), "{message}");
    }
    assert!(refused("--duratoin 1").contains("did you mean --duration?"));
}

#[test]
fn empty_measurement_is_refused() {
    for (line, words) in [
        ("-c 0", "-c takes a number from 1"),
        ("-c -3", "-c takes a number from 1"),
        ("-n 0", "-n takes a number from 1"),
        ("-n -1", "-n takes a number from 1"),
        ("-t nosuch", "There is no test \"nosuch\". There are:"),
        ("-t get,nosuch", "There is no test \"nosuch\""),
        ("-t lrange_prepare", "There is no test"),
    ] {
        let message = refused(line);
        assert!(message.contains(words), "{line}: {message}");
    }
    let o = options("-t nosuch get key");
    assert_eq!(o.warnings, ["WARNING: Option -t is ignored."]);
}

#[test]
fn the_help_lists_the_tests() {
    let Err(Stop::Print(help)) = read("--help") else { panic!("no help") };
    for name in ["ping_mbulk", "lrange_600", "function_load"] {
        assert!(help.contains(name), "{name}");
    }
}

#[test]
fn wrong_values_are_named() {
    let message = refused("-n abc");
    let want = "Invalid value \"abc\" of -n: invalid digit found in string\n";
    assert!(message.starts_with(want), "{message}");
    assert_eq!(message.lines().count(), 2, "{message}");
    assert!(refused("-p 70000").contains("Invalid server port."));
    assert!(refused("--keys zapf -r 5").contains("none of uniform"));
    assert!(!refused("--sizes 5-3").is_empty());
    assert!(!refused("--rfr maybe").is_empty());
}

#[test]
fn contradicting_options_are_refused() {
    for line in [
        "-n 5 --duration 1",
        "--duration 1 -n 5",
        "--sequential --keys zipf -r 5",
        "--keys zipf",
        "--preload",
        "--mptcp -s /tmp/sock",
        "--mix get:1 get key",
        "--vs box",
        "--vs box:1 --cluster",
        "--vs box:1 --rounds 1",
        "--tls --sni -",
        "--tls --tls-ciphers AES128-SHA",
        "--tls --tls-ciphersuites AES128-SHA",
        "--rdma",
        "--fuzz --json",
        "--fuzz --vs box:1",
        "--fuzz-mode nosuch",
    ] {
        let message = refused(line);
        assert!(message.len() > 10, "{line}: {message}");
    }
}

#[test]
fn additional_options_are_parsed() {
    let o = options("--keys zipf:1.1 -r 9 --sizes 5-7 --duration 0.5 --warmup 2 --rps 100 --json");
    assert_eq!(o.keys, KeyDistribution::Zipf(1.1));
    assert_eq!(o.sizes, SizeDistribution::Ranges(vec![(5, 7, 1)]));
    assert_eq!(o.amount, Amount::Time(Duration::from_millis(500)));
    assert_eq!((o.warmup, o.rate, o.output), (Duration::from_secs(2), Some(100.0), Output::Json));
    assert_eq!(options("--sequential -r 5").keys, KeyDistribution::Sequential);
    assert_eq!(options("--vs [::1]:7000").versus, Some(Target::Tcp("::1".into(), 7000)));
}

#[test]
fn a_fuzzer_has_modes_and_levels() {
    let of = |line: &str| options(line).fuzz;
    assert_eq!((of(""), of("--fuzz-mode config-commands")), (None, None));
    let plain = of("--fuzz").unwrap();
    assert_eq!(plain, Fuzz::default());
    assert_eq!(plain.level, Level::Info);
    let both = of("--fuzz --fuzz-mode config-commands,malformed-commands --fuzz-loglevel none");
    let want = Fuzz { malformed: true, config: true, level: Level::None, unknown_level: None };
    assert_eq!(both, Some(want));
    let odd = of("--fuzz --fuzz-loglevel loud").unwrap();
    assert_eq!((odd.level, odd.unknown_level), (Level::Info, Some("loud".to_string())));
    assert_eq!(options("--fuzz -q").warnings, ["WARNING: -q has no effect with --fuzz."]);
}

#[test]
fn uri_sets_its_parts() {
    let o = options("-u valkey://me:pw@box:7000/3");
    assert_eq!(o.target, Target::Tcp("box".into(), 7000));
    assert_eq!((o.login, o.db), (Some((Some("me".into()), "pw".into())), 3));
}

#[test]
fn help_and_version_have_options() {
    assert!(matches!(read("--help"), Err(Stop::Print(text)) if text.contains("Usage:")));
    assert!(matches!(read("-v"), Err(Stop::Print(text)) if text.starts_with("weft-benchmark ")));
}

#[test]
fn tls_is_enabled_by_option_or_uri() {
    assert!(options("").tls.is_none());
    assert!(options("-u valkeys://box").tls.is_some());
    let o = options("--tls --cacert a --cacertdir b --cert c --key d --sni box --insecure");
    assert!(o.warnings.is_empty());
    let tls = o.tls.unwrap();
    assert_eq!((tls.ca_file, tls.ca_dir), (Some("a".into()), Some("b".into())));
    assert_eq!(tls.identity, Some(("c".into(), "d".into())));
    assert_eq!(tls.sni.unwrap().to_str(), "box");
    assert!(tls.insecure);
}

#[test]
fn options_of_tls_without_effect_are_warned_of() {
    let o = options("--cacert x --insecure");
    assert!(o.tls.is_none());
    assert_eq!(o.warnings, ["WARNING: Without --tls these have no effect: --cacert, --insecure"]);
    let o = options("--tls --cert c --sni 127.0.0.1");
    assert!(o.tls.unwrap().identity.is_none() && o.warnings.len() == 2, "{:?}", o.warnings);
}
