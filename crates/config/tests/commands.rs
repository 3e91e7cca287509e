//! CONFIG GET and CONFIG SET.

mod common;

use common::{get, set};
use weft_config::{Config, Id, Permit, SetError};

const ANYTHING: Permit = Permit { protected: true, loading: false };

fn names(config: &Config, patterns: &[&str]) -> Vec<String> {
    let patterns: Vec<_> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
    config.get(&patterns).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn get_by_name_and_pattern() {
    let config = Config::default();
    for (patterns, expected) in [
        (vec!["port"], vec!["port"]),
        (vec!["MaxMemory"], vec!["MaxMemory"]),
        (vec!["nosuch"], vec![]),
        (vec!["nosuch*"], vec![]),
        (vec!["timeout", "port", "TIMEOU?"], vec!["port", "timeout"]),
        (
            vec!["SLAVE-priority", "maxmemory", "Zset-max-listpack-value"],
            vec!["SLAVE-priority", "Zset-max-listpack-value", "maxmemory"],
        ),
        (vec!["MaxMemory", "maxmemory", "MAXMEMORY-s*"], vec!["MaxMemory", "maxmemory-samples"]),
        (vec!["server?cpulist"], vec!["server-cpulist", "server_cpulist"]),
        (vec!["maxmemor[y"], vec!["maxmemory"]),
        // Hidden ones answer to their names only, statements never.
        (vec!["watchdog*"], vec![]),
        (vec!["watchdog-period"], vec!["watchdog-period"]),
        (vec!["include", "rename-*", "user"], vec![]),
    ] {
        assert_eq!(names(&config, &patterns), expected, "{patterns:?}");
    }
    let all = names(&config, &["*"]);
    assert!(all.is_sorted() && all.len() > 230, "{}", all.len());
}

#[test]
fn set_changes_all_or_nothing() {
    let mut config = Config::default();
    assert_eq!(set(&mut config, &[("timeout", "5"), ("save", "1 2"), ("hz", "0")]), Ok(()));
    assert_eq!((config.int(Id::TIMEOUT), config.int(Id::HZ)), (5, 1));
    assert_eq!(get(&config, "save"), "1 2");
    let refused = "ERR CONFIG SET failed (possibly related to argument 'save') - \
                   Invalid save parameters";
    let pairs = [("timeout", "6"), ("save", "x")];
    assert_eq!(set(&mut config, &pairs), Err(refused.to_string()));
    assert_eq!(config.int(Id::TIMEOUT), 5);
    // Two spellings of one directive: the last one wins.
    set(&mut config, &[("slowlog-max-len", "7"), ("commandlog-slow-execution-max-len", "9")])
        .unwrap();
    assert_eq!(get(&config, "slowlog-max-len"), "9");
    // Classes that are not named keep their limits.
    set(&mut config, &[("client-output-buffer-limit", "replica 1mb 0 60 NORMAL 5k 6 7")]).unwrap();
    assert_eq!(
        get(&config, "client-output-buffer-limit"),
        "normal 5000 6 7 slave 1048576 0 60 pubsub 33554432 8388608 60"
    );
}

#[test]
fn set_refuses() {
    let mut config = Config::default();
    let before = config.get(&[b"*"]);
    let failed = |name: &str, reason: &str| {
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
    };
    let unknown =
        |name: &str| format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
    for (pairs, expected) in [
        (vec![("NoSuch", "1")], unknown("NoSuch")),
        (vec![("rename-command", "a b")], unknown("rename-command")),
        (vec![("a\r\nb", "1")], unknown("a  b")),
        (vec![("a\0b", "1")], unknown("a")),
        (vec![("DAEMONIZE", "x")], failed("DAEMONIZE", "can't set immutable config")),
        (vec![("slaveof", "a 1")], failed("slaveof", "can't set immutable config")),
        (vec![("timeout", "1"), ("TIMEOUT", "2")], failed("TIMEOUT", "duplicate parameter")),
        // The first thing that is wrong with a name decides.
        (
            vec![("daemonize", "x"), ("nosuch", "2")],
            failed("daemonize", "can't set immutable config"),
        ),
        (vec![("nosuch", "2"), ("daemonize", "x")], unknown("nosuch")),
        (vec![("timeout", "x"), ("nosuch", "2")], unknown("nosuch")),
        (vec![("MAXMEMORY", "x")], failed("maxmemory", "argument must be a memory value")),
        (vec![("save", "900  1")], failed("save", "Invalid save parameters")),
        (
            vec![("Slave-Priority", "-1")],
            failed("slave-priority", "argument must be between 0 and 2147483647 inclusive"),
        ),
    ] {
        assert_eq!(set(&mut config, &pairs), Err(expected), "{pairs:?}");
        assert_eq!(config.get(&[b"*"]), before);
    }
    let pairs: [(&[u8], &[u8]); 1] = [(b"Dir", b"/")];
    let nobody = Permit { protected: false, loading: false };
    assert_eq!(
        config.set(&pairs, nobody, &mut |_, _| Ok(())),
        Err(SetError::Refused(failed("Dir", "can't set protected config")))
    );
    let loading = Permit { protected: true, loading: true };
    assert_eq!(config.set(&pairs, loading, &mut |_, _| Ok(())), Err(SetError::Loading));
}

#[test]
fn apply_sees_what_changed_and_failure_undoes_it() {
    let mut config = Config::default();
    let mut calls = Vec::new();
    let pairs: [(&[u8], &[u8]); 3] =
        [(b"timeout", b"0"), (b"slave-priority", b"7"), (b"port", b"7777")];
    let outcome = config.set(&pairs, ANYTHING, &mut |config, changed| {
        calls.push((changed.to_vec(), config.int(Id::PORT)));
        let reason = "Unable to listen on this port. Check server logs.".to_string();
        if config.int(Id::PORT) == 7777 { Err((Id::PORT, reason)) } else { Ok(()) }
    });
    assert_eq!(
        outcome,
        Err(SetError::Refused(
            "ERR CONFIG SET failed (possibly related to argument 'port') - \
             Unable to listen on this port. Check server logs."
                .to_string()
        ))
    );
    // In the order given.
    let changed = vec![Id::REPLICA_PRIORITY, Id::PORT];
    assert_eq!(calls, [(changed.clone(), 7777), (changed, 6379)]);
    assert_eq!(get(&config, "slave-priority"), "100");

    // Nothing changes, nothing is applied; certificates are, always.
    let pairs: [(&[u8], &[u8]); 1] = [(b"port", b"6379")];
    config.set(&pairs, ANYTHING, &mut |_, _| panic!("nothing to apply")).unwrap();
    let pairs: [(&[u8], &[u8]); 1] = [(b"tls-cert-file", b"")];
    let mut applied = 0;
    config
        .set(&pairs, ANYTHING, &mut |_, _| {
            applied += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(applied, 1);
}

#[test]
fn dir_is_a_place_that_exists() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().canonicalize().unwrap();
    std::fs::create_dir(real.join("sub")).unwrap();
    std::fs::write(real.join("file"), "").unwrap();
    let mut config = Config::default();
    set(&mut config, &[("dir", real.to_str().unwrap())]).unwrap();
    set(&mut config, &[("dir", "./sub/../sub")]).unwrap();
    assert_eq!(config.path(Id::DIR), Some(real.join("sub")));
    for (value, reason) in [
        ("", "dir can't be empty"),
        ("nosuch", "No such file or directory"),
        ("../file", "Not a directory"),
    ] {
        let expected =
            format!("ERR CONFIG SET failed (possibly related to argument 'dir') - {reason}");
        assert_eq!(set(&mut config, &[("dir", value)]), Err(expected));
    }
    assert_eq!(config.path(Id::DIR), Some(real.join("sub")));
}
