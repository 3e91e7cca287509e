//! Loading: accepted and refused configurations, and the words of refusals.

mod common;

use common::{Files, get, reason};
use weft_config::{Config, Id, LoadArgs, LoadError, Origin, OutputBufferLimit};

#[test]
fn values_of_every_kind() {
    let files = Files::new();
    let config = files
        .load(
            "# a comment\n\
             \n\
             \tPORT 63\"\\x380\" \r\n\
             protected-mode NO\r\n\
             maxmemory 100mb\n\
             maxmemory-clients 5%\n\
             maxmemory-policy AllKeys-LRU\n\
             io-threads 4\n\
             unixsocketperm 700\n\
             bind 127.0.0.1 -::1\n\
             requirepass 'a b'\n\
             save 900 1 300 10\n\
             save \"60 5\"\n\
             client-output-buffer-limit normal 1mb 0 0\n\
             client-output-buffer-limit slave 2mb 1kb 30\n\
             oom-score-adj relative\n\
             oom-score-adj-values -1 0 1\n\
             shutdown-on-sigterm now force\n\
             notify-keyspace-events KEA\n\
             latency-tracking-info-percentiles 50 99.99\n\
             slaveof 10.0.0.1 6380\n\
             rename-command FLUSHALL \"\"\n\
             rename-command CONFIG admin\n\
             hz 9999\n",
        )
        .unwrap();
    assert_eq!(config.int(Id::PORT), 6380);
    assert!(!config.bool(Id::PROTECTED_MODE));
    assert_eq!(config.memory(Id::MAXMEMORY), 100 << 20);
    assert_eq!(config.maxmemory_clients(), 5 << 20);
    assert_eq!(config.word(Id::MAXMEMORY_POLICY), "allkeys-lru");
    assert_eq!(config.int_or_auto(Id::IO_THREADS), Some(4));
    assert_eq!(config.int(Id::UNIXSOCKETPERM), 0o700);
    assert_eq!(get(&config, "unixsocketperm"), "700");
    assert_eq!(config.list(Id::BIND), [b"127.0.0.1".to_vec(), b"-::1".to_vec()]);
    assert_eq!(config.str(Id::REQUIREPASS), "a b");
    assert_eq!(get(&config, "save"), "900 1 300 10 60 5");
    assert_eq!(config.save_points()[2].seconds, 60);
    let limits = config.client_output_buffer_limits();
    assert_eq!(limits.normal.hard, 1 << 20);
    let replica = OutputBufferLimit { hard: 2 << 20, soft: 1024, soft_seconds: 30 };
    assert_eq!(limits.replica, replica);
    assert_eq!(limits.pubsub.soft_seconds, 60);
    assert_eq!(get(&config, "oom-score-adj"), "yes");
    assert_eq!(config.oom_score_adj_values(), [-1, 0, 1]);
    assert!(config.has_word(Id::SHUTDOWN_ON_SIGTERM, "force"));
    assert!(!config.has_word(Id::SHUTDOWN_ON_SIGTERM, "save"));
    assert!(config.keyspace_events().contains(b'x'));
    assert_eq!(config.latency_percentiles(), [50.0, 99.99]);
    assert_eq!(config.primary().unwrap().port, 6380);
    let renamed = config.statements(Id::RENAME_COMMAND);
    assert_eq!(renamed[0], [b"FLUSHALL".to_vec(), b"".to_vec()]);
    assert_eq!(renamed[1], [b"CONFIG".to_vec(), b"admin".to_vec()]);
    assert_eq!(config.int(Id::HZ), 500);
    assert_eq!(config.file(), Some(files.path().join("weft.conf").as_path()));
}

#[test]
fn defaults_where_nothing_is_said() {
    let config = Config::default();
    assert_eq!(config.int(Id::PORT), 6379);
    assert_eq!(config.int_or_auto(Id::IO_THREADS), None);
    assert_eq!(get(&config, "io-threads"), "auto");
    assert_eq!(get(&config, "save"), "3600 1 300 100 60 10000");
    assert_eq!(config.path(Id::UNIXSOCKET), None);
    assert_eq!(
        config.bytes(Id::DIR),
        std::env::current_dir().unwrap().as_os_str().as_encoded_bytes()
    );
    assert_eq!(config.maxmemory_clients(), 0);
    assert!(config.ineffective().is_empty());
    assert!(config.file().is_none());
}

#[test]
fn wrong_lines() {
    let files = Files::new();
    for (line, expected) in [
        ("nosuch 1", "Bad directive or wrong number of arguments"),
        ("port", "wrong number of arguments"),
        ("port 1 2", "wrong number of arguments"),
        ("port x", "argument couldn't be parsed into an integer"),
        ("port 01", "argument couldn't be parsed into an integer"),
        ("port 70000", "argument must be between 0 and 65535 inclusive"),
        ("maxmemory 1x", "argument must be a memory value"),
        ("maxmemory gb", "argument must be a memory value"),
        ("maxmemory-clients 101%", "percentage argument must be less or equal to 100"),
        ("maxmemory-clients x", "argument must be a memory or percent value"),
        ("unixsocketperm 888", "argument couldn't be parsed as an octal number"),
        ("unixsocketperm 1000", "argument must be between 0 and 777 inclusive"),
        ("daemonize maybe", "argument must be 'yes' or 'no'"),
        ("appendfsync sometimes", "argument(s) must be one of the following: everysec, always, no"),
        ("maxmemory \"1gb", "Unbalanced quotes in configuration line"),
        ("save 900", "Invalid save parameters"),
        ("save 0 1", "Invalid save parameters"),
        ("save 1 99999999999", "Invalid save parameters"),
        ("save \"900 '1\"", "Unbalanced quotes in configuration line"),
        ("dir \"\"", "dir can't be empty"),
        ("dir /nonexistent-directory", "No such file or directory"),
        ("dbfilename a/b", "dbfilename can't be a path, just a filename"),
        ("slaveof host", "wrong number of arguments"),
        ("slaveof host 70000", "Invalid primary port"),
        ("rename-command GET", "Bad directive or wrong number of arguments"),
        ("include", "Bad directive or wrong number of arguments"),
        ("sentinel monitor m 127.0.0.1 1 1", "sentinel directive while not in sentinel mode"),
        ("search.threads", "Module config specified without value"),
        (
            "search.threads 1",
            "Module Configuration detected without loadmodule directive or no ApplyConfig call: \
             aborting",
        ),
        (
            "client-output-buffer-limit normal 1 1",
            "Wrong number of arguments in buffer limit configuration.",
        ),
        (
            "client-output-buffer-limit primary 1 1 1",
            "Invalid client class specified in buffer limit configuration.",
        ),
        (
            "client-output-buffer-limit normal 1 1 -1",
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
        ),
        ("oom-score-adj-values 1 2", "wrong number of arguments"),
        (
            "oom-score-adj-values 1 2 3000",
            "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
        ),
        (
            "latency-tracking-info-percentiles 101",
            "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
        ),
        (
            "latency-tracking-info-percentiles nan",
            "Invalid latency-tracking-info-percentiles parameters",
        ),
        ("notify-keyspace-events KQ", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
        (
            "shutdown-on-sigint save nosave",
            "shutdown options SAVE and NOSAVE can't be used simultaneously",
        ),
    ] {
        let loaded = files.load(&format!("# one\ntimeout 5\n\n  {line}  \n"));
        assert_eq!(reason(loaded), (4, expected.to_string()), "{line}");
    }
}

#[test]
fn the_message_for_the_terminal() {
    let files = Files::new();
    let error = files.load("timeout 5\n  Port  x \n").unwrap_err();
    let version = env!("CARGO_PKG_VERSION");
    let path = files.path().join("weft.conf");
    let expected = format!(
        "\n*** FATAL CONFIG FILE ERROR (Version {version}) ***\n\
         Reading the configuration file, at line 2\n\
         >>> 'Port  x'\n\
         argument couldn't be parsed into an integer\n\
         (line 2 of file '{}')",
        path.display()
    );
    assert_eq!(error.to_string(), expected);

    let error = files.load_with("timeout 5", &["hz 1", "port \"x\""]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\nReading the command line\n>>> 'port \"x\"'\n"), "{text}");
    assert!(!text.contains("FILE") && !text.contains("line 2"), "{text}");

    let missing = files.path().join("missing.conf");
    let args = LoadArgs { file: Some(missing.clone()), ..LoadArgs::default() };
    assert_eq!(
        Config::load(&args).unwrap_err().to_string(),
        format!(
            "Fatal error, can't open config file '{}': No such file or directory",
            missing.display()
        )
    );
}

#[test]
fn repetitions() {
    let files = Files::new();
    let duplicate = |what: &str, line| format!("duplicate: '{what}' is already set at line {line}");
    for (text, line, expected) in [
        ("port 1\ntimeout 1\nport 2", 3, duplicate("port", 1)),
        ("port 1\nPORT 1", 2, duplicate("port", 1)),
        ("bind a\nbind b", 2, duplicate("bind", 1)),
        ("replica-priority 1\nslave-priority 2", 2, duplicate("slave-priority", 1)),
        (
            "client-output-buffer-limit slave 1 1 1\n\nclient-output-buffer-limit replica 1 1 1",
            3,
            duplicate("replica", 1),
        ),
    ] {
        assert_eq!(reason(files.load(text)), (line, expected), "{text}");
    }
    for text in [
        "replica-priority 1\nslave-priority 1",
        "server_cpulist 0-1\nserver-cpulist 0-1",
        "save 1 1\nsave 2 2\nsave 1 1",
        "client-output-buffer-limit normal 1 1 1\nclient-output-buffer-limit pubsub 1 1 1",
        "client-output-buffer-limit normal 1 1 1 normal 2 2 2",
        "rename-command A b\nrename-command B c\nuser a\nuser b\nloadmodule x\nloadmodule y 1",
    ] {
        assert!(files.load(text).is_ok(), "{text}");
    }
}

#[test]
fn later_sources_override() {
    let files = Files::new();
    let config = files
        .load_with("port 1\nsave 900 1\ntimeout 3", &["port 2", "port 3", "save 60 1"])
        .unwrap();
    assert_eq!(config.int(Id::PORT), 3);
    assert_eq!(config.int(Id::TIMEOUT), 3);
    assert_eq!(get(&config, "save"), "900 1 60 1");
    let config = files.load_with("save 900 1", &["save \"\""]).unwrap();
    assert_eq!(get(&config, "save"), "");
    let config = files.load("save 900 1\nsave \"\"\nsave 1 1").unwrap();
    assert_eq!(get(&config, "save"), "1 1");
}

#[test]
fn includes() {
    let files = Files::new();
    files.write("base.conf", "port 1\ntimeout 1\nsave 5 5");
    files.write("conf.d/20-b.conf", "timeout 20");
    files.write("conf.d/10-a.conf", "timeout 10\nhz 33");
    files.write("conf.d/.hidden.conf", "nosuch");
    let here = files.path().display();
    let config = files
        .load(&format!(
            "include {here}/base.conf\nport 2\ninclude {here}/con?.d/*.conf\n\
             include {here}/none/*.conf\ninclude {here}/*.none"
        ))
        .unwrap();
    assert_eq!(config.int(Id::PORT), 2);
    assert_eq!(config.int(Id::TIMEOUT), 20);
    assert_eq!(config.int(Id::HZ), 33);
    assert_eq!(get(&config, "save"), "5 5");

    // Relative paths start at `dir` as it is at that line.
    let config = files.load(&format!("dir {here}\ninclude base.conf")).unwrap();
    assert_eq!(config.int(Id::TIMEOUT), 1);

    // An error inside names the file inside.
    files.write("bad.conf", "\n\ntimeout x");
    match files.load(&format!("include {here}/bad.conf")) {
        Err(LoadError::Line { origin: Origin::File(path), line: 3, .. }) => {
            assert_eq!(path, files.path().join("bad.conf"));
        }
        other => panic!("{other:?}"),
    }
    match files.load(&format!("include {here}/missing.conf")) {
        Err(LoadError::Unreadable { path, reason }) => {
            assert_eq!(path, files.path().join("missing.conf"));
            assert_eq!(reason, "No such file or directory");
        }
        other => panic!("{other:?}"),
    }
    // A file that includes itself ends.
    let itself = format!("include {here}/weft.conf");
    assert_eq!(reason(files.load(&itself)).1, "includes are nested too deeply");
}

#[test]
fn errors_of_the_whole_configuration() {
    let files = Files::new();
    let error = files.load("logfile /nonexistent-directory/weft.log").unwrap_err();
    assert!(
        error.to_string().ends_with(
            "***\nCan't open the log file '/nonexistent-directory/weft.log': No such file or \
             directory"
        ),
        "{error}"
    );
    let error = files.load("cluster-enabled yes\nreplicaof 10.0.0.1 1").unwrap_err();
    assert!(error.to_string().ends_with("replicaof directive not allowed in cluster mode"));
    let here = files.path().display();
    let config = files.load(&format!("logfile weft.log\ndir {here}")).unwrap();
    assert_eq!(config.path(Id::LOGFILE), Some(config.path(Id::DIR).unwrap().join("weft.log")));
    assert!(files.path().join("weft.log").exists());
}

/// A message names the place: a line of a file, or the command line.
#[test]
fn messages_name_the_place_and_the_meant_directive() {
    let files = Files::new();
    let text = |loaded: Result<Config, LoadError>| loaded.unwrap_err().to_string();
    let file = text(files.load("port 1\nmaxmemmory 1gb"));
    assert!(file.contains("FATAL CONFIG FILE ERROR"), "{file}");
    assert!(file.contains("at line 2\n>>> 'maxmemmory 1gb'\nBad directive"), "{file}");
    assert!(file.ends_with("weft.conf')\nDid you mean 'maxmemory'?"), "{file}");
    let options = text(files.load_with("port 1", &["timeout 1", "prot \"7\""]));
    assert!(options.ends_with(
        "ERROR (Version 0.1.0) ***\nReading the command line\n>>> 'prot \"7\"'\n\
         Bad directive or wrong number of arguments\nDid you mean '--port'?"
    ));
    assert!(!options.contains("FILE") && !options.contains("line 2"), "{options}");
    let value = text(files.load_with("", &["port x"]));
    assert!(value.ends_with("argument couldn't be parsed into an integer"), "{value}");
}

#[test]
fn the_log_file_is_found_although_nothing_loads() {
    let files = Files::new();
    let log = files.path().join("sub.log");
    let file = files.write(
        "weft.conf",
        &format!(
            "nosuch 1\ninclude /nonexistent-file\ndir {}\nport x\nlogfile sub.log",
            files.path().display()
        ),
    );
    let args = |options: &[&str]| LoadArgs {
        file: Some(file.clone()),
        options: options.iter().map(|line| line.as_bytes().to_vec()).collect(),
        ..LoadArgs::default()
    };
    assert!(Config::load(&args(&[])).is_err());
    assert_eq!(
        Config::log_file_of(&args(&[])).unwrap().canonicalize().ok(),
        log.canonicalize().ok()
    );
    assert_eq!(
        Config::log_file_of(&args(&["prot 1", "logfile /else/where"])),
        Some("/else/where".into())
    );
    assert_eq!(
        Config::log_file_of(&LoadArgs { file: Some("/nonexistent".into()), ..args(&[]) }),
        None
    );
}

/// Messages about wrong lines are logged.
#[test]
fn messages_hide_passwords() {
    let files = Files::new();
    for line in [
        "requirepass hunter2 more",
        "RequirePass \"hunter2",
        "\"requirepass\" hunter2 more",
        "requirepas hunter2",
        "primaryauth hunter2 more",
        "masterauth hunter2 more",
        "tls-key-file-pass hunter2 more",
        "requirepass a\nrequirepass hunter2",
    ] {
        let message = files.load(line).unwrap_err().to_string();
        assert!(message.contains("(redacted)"), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn ineffective_directive_is_reported() {
    let files = Files::new();
    let config = files.load("repl-mptcp yes\nport 1\ngopher-enabled yes\nmptcp no").unwrap();
    let told: Vec<_> = config.ineffective().into_iter().map(|(id, _)| id).collect();
    assert_eq!(told, [Id::REPL_MPTCP, Id::GOPHER_ENABLED]);
}

#[test]
fn secrets_stay_out_of_debug_output() {
    let files = Files::new();
    let config = files.load("requirepass hunter2\nport 1").unwrap();
    let text = format!("{config:?}");
    assert!(text.contains("port") && text.contains("requirepass") && !text.contains("hunter2"));
}
