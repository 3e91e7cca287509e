//! The append-only file: every answered write survives a crash, no command is torn, and the
//! reference and this server read each other's files.
//!
//! `WEFT_KILLS` sets how often a server is killed (20).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value, locate, skipped};
use weft_tests::contents::{content, fill_stream, stream_content, value};
use weft_tests::persistence::{PATIENCE, info};

const ON: [&str; 2] = ["--appendonly", "yes"];

/// A client of a server that may still be loading.
fn loaded(server: &Server) -> Client {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut client = server.client();
        match client.cmd(&["DBSIZE"]).error() {
            Some(e) if e.contains("LOADING") && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Some(e) => panic!("{e}"),
            None => return client,
        }
    }
}

fn wait_for(client: &mut Client, what: &str, mut is: impl FnMut(&mut Client) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is(client) {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a rewrite and waits for its end.
fn rewrite(client: &mut Client) {
    let before = info(client, "aof_rewrites").parse::<u64>().expect("a number");
    let answer = client.cmd(&["BGREWRITEAOF"]).text();
    assert!(answer.starts_with("Background append only file rewriting"), "{answer}");
    wait_for(client, "the end of the rewrite", |client| {
        info(client, "aof_rewrites").parse::<u64>().expect("a number") > before
            && info(client, "aof_rewrite_in_progress") == "0"
    });
    assert_eq!(info(client, "aof_last_bgrewrite_status"), "ok");
}

/// Writes values of all types and encodings to several databases. Some have an expiry.
fn fill(server: &Server, seed: u64) {
    const FAR_MS: i64 = 4_102_444_800_000;
    let (mut client, mut rng) = (server.client(), Rng::new(seed));
    for db in ["0", "3", "9"] {
        client.ok(&["SELECT", db]);
        for n in 0..40 {
            let key = format!("key:{n}");
            client.cmd(&["DEL", &key]);
            for command in value(&mut rng, key.as_bytes()) {
                let reply = client.cmd(&command);
                assert!(reply.error().is_none(), "{}: {reply}", server.name());
            }
            if rng.percent(30) {
                client.cmd(&["PEXPIREAT", &key, &(FAR_MS + n).to_string()]);
            }
            if client.cmd(&["TYPE", &key]).text() == "hash" {
                let field = client.cmd(&["HRANDFIELD", &key]);
                let field = field.bytes().expect("a field");
                let at = FAR_MS.to_string();
                client.cmd(&[b"HPEXPIREAT", key.as_bytes(), at.as_bytes(), b"FIELDS", b"1", field]);
            }
            if rng.percent(10) {
                client.cmd(&["DEL", &format!("key:{}", n / 2)]);
            }
        }
        client.cmd(&["DEL", "stream"]);
        fill_stream(&mut client, &mut rng, "stream");
    }
}

/// All data of a server, by database and key.
fn everything(client: &mut Client) -> BTreeMap<(usize, Vec<u8>), String> {
    let mut all = BTreeMap::new();
    for db in 0..16 {
        client.ok(&["SELECT", &db.to_string()]);
        let names = client.cmd(&["KEYS", "*"]);
        for name in names.items() {
            let name = name.bytes().expect("a key").to_vec();
            let expiry = client.cmd(&[b"PEXPIRETIME", &name[..]]);
            let shown = match client.cmd(&[b"TYPE", &name[..]]).text().as_str() {
                "stream" => {
                    format!(
                        "{:?}",
                        stream_content(client, std::str::from_utf8(&name).expect("valid UTF-8"))
                    )
                }
                "hash" => {
                    let mut fields = Vec::new();
                    for field in client.cmd(&[b"HKEYS", &name[..]]).items() {
                        let field = field.bytes().expect("a field").to_vec();
                        let at = client
                            .cmd(&[b"HPEXPIRETIME", &name[..], b"FIELDS", b"1", &field])
                            .to_string();
                        fields.push((field, at));
                    }
                    fields.sort();
                    format!("{:?} {fields:?}", content(client, &name))
                }
                _ => format!("{:?}", content(client, &name)),
            };
            all.insert((db, name), format!("{expiry} {shown}"));
        }
    }
    all
}

fn assert_same(
    wanted: &BTreeMap<(usize, Vec<u8>), String>,
    found: &BTreeMap<(usize, Vec<u8>), String>,
) {
    assert_eq!(
        wanted.keys().collect::<Vec<_>>(),
        found.keys().collect::<Vec<_>>(),
        "the same keys"
    );
    for (name, shown) in wanted {
        assert_eq!(shown, &found[name], "{name:?}");
    }
}

/// Copies the AOF folder from one server's directory into another's.
fn copy_log(from: &Path, to: &Path) {
    let folder = to.join("appendonlydir");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder");
    for entry in fs::read_dir(from.join("appendonlydir")).expect("the log") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("copied");
    }
}

#[test]
fn written_data_is_loaded_again() {
    for more in [&["--appendfsync", "always"][..], &["--aof-use-rdb-preamble", "no"]] {
        let debug = ["--enable-debug-command", "yes"];
        let mut server = Server::weft(&[&ON[..], &debug, more].concat());
        fill(&server, 1);
        let wanted = everything(&mut server.client());
        assert!(wanted.len() > 80);
        server.stop_term();
        server.restart();
        assert_same(&wanted, &everything(&mut loaded(&server)));
        // From a base alone, then from a base and an increment.
        rewrite(&mut server.client());
        server.restart();
        assert_same(&wanted, &everything(&mut loaded(&server)));
        fill(&server, 2);
        let wanted = everything(&mut server.client());
        server.client().ok(&["DEBUG", "LOADAOF"]);
        assert_same(&wanted, &everything(&mut server.client()));
        server.stop_term();
        server.restart();
        assert_same(&wanted, &everything(&mut loaded(&server)));
    }
}

#[test]
fn reference_and_this_server_read_each_others_files() {
    let test = "reference_and_this_server_read_each_others_files";
    for preamble in ["yes", "no"] {
        let args = [&ON[..], &["--aof-use-rdb-preamble", preamble]].concat();
        let Some(mut valkey) = Server::valkey(&args) else {
            return skipped::note(test, "no valkey-server in PEERS_BIN or PATH");
        };
        let mut weft = Server::weft(&args);
        // Our file, as written and after a rewrite.
        for rewrites in [false, true] {
            fill(&weft, 5);
            if rewrites {
                rewrite(&mut weft.client());
                fill(&weft, 6);
            }
            let wanted = everything(&mut weft.client());
            weft.stop_term();
            valkey.kill();
            copy_log(weft.dir(), valkey.dir());
            valkey.restart();
            assert_same(&wanted, &everything(&mut loaded(&valkey)));
            weft.restart();
            loaded(&weft);
        }
        // Their file, which this server continues.
        fill(&valkey, 7);
        let wanted = everything(&mut valkey.client());
        valkey.stop_term();
        weft.kill();
        copy_log(valkey.dir(), weft.dir());
        weft.restart();
        assert_same(&wanted, &everything(&mut loaded(&weft)));
    }
}

/// The last acknowledged step of a client, and the last one that it sent.
#[derive(Default)]
struct Progress {
    acknowledged: AtomicU64,
    asked: AtomicU64,
}

/// Writes until the server is gone: step `n` sets three keys in different shards to `n`, by MSET or
/// in a transaction, and appends `n` to a list.
fn write_steps(mut client: Client, id: usize, progress: &Progress, from: u64) {
    let key = |name: &str| format!("{name}:{id}");
    for n in from.. {
        progress.asked.store(n, Ordering::SeqCst);
        let text = n.to_string();
        let (a, b, c, list) = (key("a"), key("b"), key("c"), key("list"));
        let done = if n % 2 == 0 {
            let set = ["MSET", &a, &text, &b, &text, &c, &text].map(str::to_string).to_vec();
            let push = ["RPUSH", &list, &text].map(str::to_string).to_vec();
            client.pipeline(&[set, push]).map(|replies| replies.len() == 2)
        } else {
            let commands: [&[&str]; 6] = [
                &["MULTI"],
                &["SET", &a, &text],
                &["SET", &b, &text],
                &["SET", &c, &text],
                &["RPUSH", &list, &text],
                &["EXEC"],
            ];
            let commands: Vec<Vec<&str>> = commands.iter().map(|c| c.to_vec()).collect();
            client.pipeline(&commands).map(|replies| replies[5].value.items().len() == 4)
        };
        match done {
            Ok(true) => progress.acknowledged.store(n, Ordering::SeqCst),
            Ok(false) => panic!("a step was refused"),
            Err(_) => return,
        }
    }
}

/// The last step of a client that the data contain.
fn last_step(client: &mut Client, id: usize) -> u64 {
    let key = |name: &str| format!("{name}:{id}");
    let values = client.cmd(&["MGET", &key("a"), &key("b"), &key("c")]);
    let text = |value: &Value| value.bytes().map_or(String::new(), |_| value.text());
    let values: Vec<String> = values.items().iter().map(text).collect();
    assert!(values.windows(2).all(|w| w[0] == w[1]), "torn: {values:?}");
    let last: u64 = values[0].parse().unwrap_or(0);
    let list = client.cmd(&["LRANGE", &key("list"), "0", "-1"]);
    let list: Vec<u64> = list.items().iter().map(|n| n.text().parse().expect("a number")).collect();
    assert!(list.iter().enumerate().all(|(at, n)| *n == at as u64 + 1), "a hole in {list:?}");
    // MSET and RPUSH are two commands, so the crash may separate them.
    assert!(list.len() as u64 == last || list.len() as u64 + 1 == last && last.is_multiple_of(2));
    if list.len() as u64 != last {
        client.cmd(&["RPUSH", &key("list"), &last.to_string()]);
    }
    last
}

#[test]
fn answered_writes_survive_a_kill() {
    const CLIENTS: usize = 4;
    let kills: u64 = std::env::var("WEFT_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let args = [
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--io-threads",
        "4",
        "--io-threads-always-active",
        "yes",
    ];
    let mut server = Server::weft(&args);
    let mut rng = Rng::new(9);
    let mut from = [1; CLIENTS];
    let mut steps = 0;
    for kill in 0..kills {
        let progress: Arc<[Progress; CLIENTS]> = Arc::default();
        let writers: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let (client, progress, from) = (server.client(), progress.clone(), from[id]);
                std::thread::spawn(move || write_steps(client, id, &progress[id], from))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(rng.below(300) as u64));
        if rng.percent(50) {
            server.client().cmd(&["BGREWRITEAOF"]);
            std::thread::sleep(Duration::from_millis(rng.below(60) as u64));
        }
        server.kill();
        for writer in writers {
            writer.join().expect("no step was refused");
        }
        server.restart();
        let mut client = loaded(&server);
        for (id, progress) in progress.iter().enumerate() {
            let last = last_step(&mut client, id);
            let acknowledged = progress.acknowledged.load(Ordering::SeqCst);
            let asked = progress.asked.load(Ordering::SeqCst);
            assert!(last >= acknowledged, "kill {kill}: {acknowledged} answered, {last} found");
            assert!(last <= asked.max(from[id] - 1), "kill {kill}: step {last} was never sent");
            steps += last + 1 - from[id];
            from[id] = last + 1;
        }
    }
    assert!(steps > kills, "{steps} steps in {kills} runs");
}

#[test]
fn everysec_keeps_a_prefix() {
    let mut server = Server::weft(&[&ON[..], &["--io-threads", "2"]].concat());
    for _ in 0..5 {
        let mut client = loaded(&server);
        let from = last_step(&mut client, 0) + 1;
        let progress = Arc::new(Progress::default());
        let (writer, to) = (server.client(), progress.clone());
        let thread = std::thread::spawn(move || write_steps(writer, 0, &to, from));
        std::thread::sleep(Duration::from_millis(200));
        server.kill();
        thread.join().expect("no step was refused");
        server.restart();
        // Only the process was killed, not the machine, so all written data are in the file.
        let last = last_step(&mut loaded(&server), 0);
        assert!(last <= progress.asked.load(Ordering::SeqCst).max(from));
    }
    assert!(last_step(&mut loaded(&server), 0) > 5);
}

#[test]
fn appendonly_can_be_switched_on_and_off() {
    let mut server = Server::weft(&["--appendfsync", "always"]);
    let mut client = server.client();
    fill(&server, 3);
    let stop = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(Mutex::new(0));
    let (mut writer, until, last_answer) = (server.client(), stop.clone(), answered.clone());
    let thread = std::thread::spawn(move || {
        for n in 1.. {
            if until.load(Ordering::Relaxed) {
                return;
            }
            writer.ok(&["SET", "counter", &n.to_string()]);
            *last_answer.lock().expect("no panic") = n;
        }
    });
    for _ in 0..3 {
        client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
        wait_for(&mut client, "the first base", |client| {
            info(client, "aof_enabled") == "1"
                && info(client, "aof_last_bgrewrite_status") == "ok"
                && info(client, "aof_current_size").parse::<u64>().is_ok_and(|n| n > 0)
                && info(client, "aof_rewrite_in_progress") == "0"
        });
        client.ok(&["SET", "marked", "yes"]);
        client.ok(&["CONFIG", "SET", "appendonly", "no"]);
        wait_for(&mut client, "the AOF is off", |client| info(client, "aof_enabled") == "0");
    }
    client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
    wait_for(&mut client, "a base", |client| {
        info(client, "aof_enabled") == "1"
            && info(client, "aof_base_size").parse::<u64>().is_ok_and(|n| n > 0)
    });
    stop.store(true, Ordering::Relaxed);
    thread.join().expect("every SET is answered");
    let wanted = everything(&mut client);
    server.kill();
    let log = Server::weft(&ON);
    drop(client);
    let mut again = log;
    again.kill();
    copy_log(server.dir(), again.dir());
    again.restart();
    assert_same(&wanted, &everything(&mut loaded(&again)));
}

#[test]
fn single_file_of_an_old_version_is_taken_over() {
    let mut server = Server::weft(&ON);
    server.kill();
    fs::remove_dir_all(server.dir().join("appendonlydir")).expect("the folder exists");
    let old = b"*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n";
    fs::write(server.dir().join("appendonly.aof"), old).expect("the disk has space");
    server.restart();
    let mut client = loaded(&server);
    client.ok(&["SELECT", "1"]);
    assert_eq!(client.cmd(&["GET", "a"]).text(), "b");
    client.ok(&["SET", "a", "c"]);
    server.stop_term();
    server.restart();
    let mut client = loaded(&server);
    client.ok(&["SELECT", "1"]);
    assert_eq!(client.cmd(&["GET", "a"]).text(), "c");
    assert!(!server.dir().join("appendonly.aof").exists());
    assert!(server.dir().join("appendonlydir/appendonly.aof").exists());
}

/// Checks the manifest in `dir`. Returns whether it is valid, and the output.
fn check(dir: &Path, options: &[&str]) -> (bool, String) {
    let mut child = Command::new(locate::weft());
    let manifest = dir.join("appendonlydir/appendonly.aof.manifest");
    let run = child.arg("--check-aof").args(options).arg(manifest).stdin(yes()).output();
    let output = run.expect("the server's own program runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn yes() -> fs::File {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), "y\n").expect("the disk has space");
    fs::File::open(file.path()).expect("the file exists")
}

#[test]
fn torn_file_is_truncated_and_damaged_file_is_refused() {
    let mut server = Server::weft(&[&ON[..], &["--appendfsync", "always"]].concat());
    let mut client = server.client();
    for n in 0..10 {
        client.ok(&["SET", &format!("k{n}"), "0123456789"]);
    }
    server.kill();
    let file = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
    let mut whole = fs::read(&file).expect("the log");
    // Cut off the zeros that the server writes ahead.
    whole.truncate(whole.iter().rposition(|byte| *byte != 0).expect("commands") + 1);
    // Torn in the last batch: only that batch is lost.
    fs::write(&file, &whole[..whole.len() - 5]).expect("the disk has space");
    let (right, printed) = check(server.dir(), &[]);
    assert!(
        !right && printed.contains("AOF analyzed: filename=appendonly.aof.1.incr.aof"),
        "{printed}"
    );
    server.restart();
    assert_eq!(loaded(&server).cmd(&["DBSIZE"]).int(), 9);
    assert!(server.log().contains("loaded anyway because aof-load-truncated is enabled"));
    // Preallocated space without commands.
    server.kill();
    let mut padded = whole.clone();
    padded.resize(whole.len() + 5000, 0);
    fs::write(&file, &padded).expect("the disk has space");
    server.restart();
    assert_eq!(loaded(&server).cmd(&["DBSIZE"]).int(), 10);
    // A changed byte in a value: only the checksum detects it.
    server.kill();
    let mut damaged = whole.clone();
    let at = whole.len() - 60;
    let at = at + damaged[at..].windows(10).position(|w| w == b"0123456789").expect("a value");
    damaged[at] = 0;
    fs::write(&file, &damaged).expect("the disk has space");
    let port = weft_testkit::server::free_port().to_string();
    let refused = Command::new(locate::weft())
        .args(["--port", &port, "--bind", "127.0.0.1", "--appendonly", "yes", "--save", ""])
        .current_dir(server.dir())
        .output()
        .expect("the program runs");
    assert!(!refused.status.success());
    let printed = String::from_utf8_lossy(&refused.stdout);
    assert!(printed.contains("Bad file format reading the append only file"), "{printed}");
    assert_eq!(fs::read(&file).expect("the file exists"), damaged, "the file must not change");
    let (right, printed) = check(server.dir(), &["--fix"]);
    assert!(right && printed.contains("Successfully truncated AOF"), "{printed}");
    server.restart();
    assert_eq!(loaded(&server).cmd(&["DBSIZE"]).int(), 9);
}

#[test]
fn waitaof_waits_for_the_disk() {
    let server = Server::weft(&[&ON[..], &["--appendfsync", "everysec"]].concat());
    let mut client = server.client();
    client.set_timeout(PATIENCE);
    client.ok(&["SET", "a", "b"]);
    let answer = client.cmd(&["WAITAOF", "1", "0", "0"]);
    assert_eq!(answer.to_string(), client.cmd(&["WAITAOF", "1", "0", "5000"]).to_string());
    assert_eq!(answer.items()[0].int(), 1);
    assert_eq!(client.cmd(&["WAITAOF", "0", "1", "50"]).items().len(), 2);
    client.ok(&["CONFIG", "SET", "appendonly", "no"]);
    wait_for(&mut client, "the AOF is off", |client| info(client, "aof_enabled") == "0");
    let refused = client.cmd(&["WAITAOF", "1", "0", "0"]).error().expect("the AOF is off");
    assert!(refused.contains("WAITAOF cannot be used when numlocal is set"), "{refused}");
}
