//! Transactions in damaged AOF files: which are loaded, refused or truncated, like the reference,
//! and where this server differs on purpose.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weft_testkit::client::encode;
use weft_testkit::server::free_port;
use weft_testkit::{Client, locate};

const PATIENCE: Duration = Duration::from_secs(60);
const FIRST: &str = "appendonlydir/appendonly.aof.1.incr.aof";

/// A process that is killed on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The result of loading a file.
#[derive(Debug, PartialEq, Eq)]
enum LoadResult {
    /// The keys of the first two databases, and the remaining bytes of the file.
    Loaded { keys: [String; 2], left: usize },
    /// The server exited, and this many bytes remained.
    Refused { left: usize },
}

fn keys(client: &mut Client, db: &str) -> String {
    client.ok(&["SELECT", db]);
    let mut keys: Vec<String> =
        client.cmd(&["KEYS", "*"]).items().iter().map(|key| key.text()).collect();
    keys.sort();
    keys.join(" ")
}

/// Makes a server load this AOF file. If it is not the last one, a second file follows.
fn load(program: &Path, file: &[u8], is_last: bool) -> LoadResult {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("appendonlydir")).expect("a folder");
    fs::write(path(FIRST), file).expect("the disk has space");
    let mut manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n".to_string();
    if !is_last {
        manifest += "file appendonly.aof.2.incr.aof seq 2 type i\n";
        let second = encode(&["SET", "second", "1"]);
        fs::write(path("appendonlydir/appendonly.aof.2.incr.aof"), second)
            .expect("the disk has space");
    }
    fs::write(path("appendonlydir/appendonly.aof.manifest"), manifest).expect("the disk has space");
    let left = || {
        let now = fs::read(path(FIRST)).expect("the file exists");
        now.iter().zip(file).take_while(|(a, b)| a == b).count()
    };
    let port = free_port();
    let child = Command::new(program)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--appendonly", "yes", "--dir"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let mut server = KillOnDrop(child);
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "{} hangs", program.display());
        if server.0.try_wait().expect("the child can be polled").is_some() {
            return LoadResult::Refused { left: left() };
        }
        let loaded = |client: &mut Client| {
            client.try_cmd(&["DBSIZE"]).is_ok_and(|reply| reply.value.error().is_none())
        };
        if let Ok(mut client) = Client::try_tcp(port)
            && loaded(&mut client)
        {
            let keys = [keys(&mut client, "0"), keys(&mut client, "1")];
            return LoadResult::Loaded { keys, left: left() };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Encodes commands separated by spaces, with arguments after `:`.
fn file(text: &str) -> Vec<u8> {
    text.split(' ').flat_map(|command| encode(&command.split(':').collect::<Vec<_>>())).collect()
}

fn loaded(keys: &str, left: usize) -> LoadResult {
    LoadResult::Loaded { keys: [keys.into(), String::new()], left }
}

#[test]
fn transactions_are_loaded_as_by_the_reference() {
    let a = file("SET:a:1").len();
    for (text, keys) in [
        ("MULTI SET:a:1 MULTI SET:b:1 EXEC SET:c:1", Some("a b c")),
        ("MULTI SET:a:1 MULTI SET:b:1 EXEC SET:c:1 EXEC SET:d:1", Some("a b c d")),
        ("SET:a:1 EXEC SET:b:1", Some("a b")),
        ("EXEC SET:a:1", Some("a")),
        ("SET:a:1 DISCARD SET:b:1", Some("a b")),
        ("MULTI EXEC SET:a:1", Some("a")),
        ("multi SET:a:1 eXeC SET:b:1", Some("a b")),
        ("WATCH:a MULTI SET:a:1 EXEC UNWATCH SET:b:1", Some("a b")),
        ("SET:a:1 PING SET:b:1 MULTI PING SET:c:1 EXEC", Some("a b c")),
        ("SET:a:1 PUBLISH:c:m RESET SET:b:1", Some("a b")),
        ("MULTI RPUSH:a:1 INCR:a EXEC SET:b:1", Some("a b")),
        ("MULTI BLPOP:a:0 SET:b:1 EXEC", Some("b")),
        ("SET:a:1 MULTI:x SET:b:1 EXEC", None),
        ("MULTI SET:a:1 EXEC:x SET:b:1", None),
        ("SET:a:1 MULTI SET:b EXEC", None),
        ("SET:a:1 MULTI NOSUCH:x EXEC SET:b:1", None),
        // An incomplete transaction with an invalid command is not truncated either.
        ("SET:a:1 MULTI NOSUCH:x", None),
        ("SET:a:1 MULTI SET:b", None),
    ] {
        let file = file(text);
        let expected = match keys {
            Some(keys) => loaded(keys, file.len()),
            None => LoadResult::Refused { left: file.len() },
        };
        assert_eq!(load(locate::weft(), &file, true), expected, "{text}");
        if let Some(valkey) = locate::valkey() {
            assert_eq!(load(&valkey, &file, true), expected, "{text}, by the reference");
        }
    }
    // An incomplete transaction is truncated from its MULTI.
    for text in ["SET:a:1 MULTI SET:b:1", "SET:a:1 MULTI", "SET:a:1 MULTI SELECT:1 SET:b:1"] {
        let whole = file(text);
        for cut in 0..whole.len() - a {
            let torn = &whole[..whole.len() - cut];
            assert_eq!(load(locate::weft(), torn, true), loaded("a", a), "{text}, cut by {cut}");
            // Only some of the cuts, since the reference takes longer to start.
            if let Some(valkey) = locate::valkey().filter(|_| cut % 16 == 0) {
                assert_eq!(load(&valkey, torn, true), loaded("a", a), "{text}, cut by {cut}");
            }
        }
    }
}

/// Documented in `docs/differences.md`.
#[test]
fn documented_differences_in_loading_transactions() {
    let a = file("SET:a:1").len();
    // The reference truncates at the last MULTI, and counts all commands before it as part of the
    // first transaction.
    let nested = file("SET:a:1 MULTI SET:b:1 MULTI SET:c:1");
    assert_eq!(load(locate::weft(), &nested, true), loaded("a", a));
    // The reference also truncates a file that is not the last one, refuses to start, and starts
    // the next time.
    let open = file("SET:a:1 MULTI SET:b:1");
    assert_eq!(load(locate::weft(), &open, false), LoadResult::Refused { left: open.len() });
    // The reference crashes.
    let watch = file("MULTI WATCH:a SET:a:1 EXEC SET:b:1");
    assert_eq!(load(locate::weft(), &watch, true), loaded("a b", watch.len()));
    // The reference executes these, and after a SELECT of an unknown database writes to the previous
    // one.
    for text in ["SET:a:1 CONFIG:SET:maxmemory:100mb", "SELECT:99 SET:a:1"] {
        let file = file(text);
        assert_eq!(
            load(locate::weft(), &file, true),
            LoadResult::Refused { left: file.len() },
            "{text}"
        );
    }
}

/// A file refused for its content must not be truncated first.
#[test]
fn refused_file_is_unchanged() {
    let mut torn = file("SET:a:1 NOSUCH:x SET:b:1");
    torn.truncate(torn.len() - 3);
    assert_eq!(load(locate::weft(), &torn, true), LoadResult::Refused { left: torn.len() });
}
