//! Transactions in files of the log that are not as they should be: what is loaded, refused or cut off, as
//! the reference does it, and where it is better done otherwise.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weft_testkit::client::encode;
use weft_testkit::server::free_port;
use weft_testkit::{Client, locate};

const PATIENCE: Duration = Duration::from_secs(60);
const FIRST: &str = "appendonlydir/appendonly.aof.1.incr.aof";

/// A process that ends with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What became of a file.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    /// The keys of the first two databases, and how many bytes of the file were left.
    Loaded { keys: [String; 2], left: usize },
    /// The server has ended, and so many bytes were left.
    Refused { left: usize },
}

fn keys(client: &mut Client, db: &str) -> String {
    client.ok(&["SELECT", db]);
    let mut keys: Vec<String> =
        client.cmd(&["KEYS", "*"]).items().iter().map(|key| key.text()).collect();
    keys.sort();
    keys.join(" ")
}

/// Has a server load these files, of which there is a second one behind the first if it is not the last.
fn load(program: &Path, file: &[u8], is_last: bool) -> Came {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("appendonlydir")).expect("a folder");
    fs::write(path(FIRST), file).expect("room");
    let mut manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n".to_string();
    if !is_last {
        manifest += "file appendonly.aof.2.incr.aof seq 2 type i\n";
        let second = encode(&["SET", "second", "1"]);
        fs::write(path("appendonlydir/appendonly.aof.2.incr.aof"), second).expect("room");
    }
    fs::write(path("appendonlydir/appendonly.aof.manifest"), manifest).expect("room");
    let left = || {
        let now = fs::read(path(FIRST)).expect("it is there");
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
        .expect("it runs");
    let mut server = Ending(child);
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "{} hangs", program.display());
        if server.0.try_wait().expect("our own child can be asked for").is_some() {
            return Came::Refused { left: left() };
        }
        let loaded = |client: &mut Client| {
            client.try_cmd(&["DBSIZE"]).is_ok_and(|reply| reply.value.error().is_none())
        };
        if let Ok(mut client) = Client::try_tcp(port)
            && loaded(&mut client)
        {
            let keys = [keys(&mut client, "0"), keys(&mut client, "1")];
            return Came::Loaded { keys, left: left() };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Commands, a word each, with arguments behind `:`.
fn file(text: &str) -> Vec<u8> {
    text.split(' ').flat_map(|command| encode(&command.split(':').collect::<Vec<_>>())).collect()
}

fn loaded(keys: &str, left: usize) -> Came {
    Came::Loaded { keys: [keys.into(), String::new()], left }
}

#[test]
fn as_the_reference_loads_them() {
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
        // One that has no end is not cut off either.
        ("SET:a:1 MULTI NOSUCH:x", None),
        ("SET:a:1 MULTI SET:b", None),
    ] {
        let file = file(text);
        let expected = match keys {
            Some(keys) => loaded(keys, file.len()),
            None => Came::Refused { left: file.len() },
        };
        assert_eq!(load(locate::weft(), &file, true), expected, "{text}");
        if let Some(valkey) = locate::valkey() {
            assert_eq!(load(&valkey, &file, true), expected, "{text}, by the reference");
        }
    }
    // What has no end is cut off, from its beginning on.
    for text in ["SET:a:1 MULTI SET:b:1", "SET:a:1 MULTI", "SET:a:1 MULTI SELECT:1 SET:b:1"] {
        let whole = file(text);
        for cut in 0..whole.len() - a {
            let torn = &whole[..whole.len() - cut];
            assert_eq!(load(locate::weft(), torn, true), loaded("a", a), "{text}, cut by {cut}");
            // Not each of them, since it takes longer to start.
            if let Some(valkey) = locate::valkey().filter(|_| cut % 16 == 0) {
                assert_eq!(load(&valkey, torn, true), loaded("a", a), "{text}, cut by {cut}");
            }
        }
    }
}

/// Documented in `docs/differences.md`.
#[test]
fn where_the_reference_does_otherwise() {
    let a = file("SET:a:1").len();
    // It cuts at the last MULTI, and takes all that is written behind it for a part of the first.
    let nested = file("SET:a:1 MULTI SET:b:1 MULTI SET:c:1");
    assert_eq!(load(locate::weft(), &nested, true), loaded("a", a));
    // It cuts a file that is not the last one, too, refuses to start, and starts the next time.
    let open = file("SET:a:1 MULTI SET:b:1");
    assert_eq!(load(locate::weft(), &open, false), Came::Refused { left: open.len() });
    // It crashes.
    let watch = file("MULTI WATCH:a SET:a:1 EXEC SET:b:1");
    assert_eq!(load(locate::weft(), &watch, true), loaded("a b", watch.len()));
    // It executes these, and puts into the database before what was meant for one that is not there.
    for text in ["SET:a:1 CONFIG:SET:maxmemory:100mb", "SELECT:99 SET:a:1"] {
        let file = file(text);
        assert_eq!(load(locate::weft(), &file, true), Came::Refused { left: file.len() }, "{text}");
    }
}

/// Whoever refuses a file because of what is in it has not cut it before.
#[test]
fn a_file_that_is_refused_is_as_it_was() {
    let mut torn = file("SET:a:1 NOSUCH:x SET:b:1");
    torn.truncate(torn.len() - 3);
    assert_eq!(load(locate::weft(), &torn, true), Came::Refused { left: torn.len() });
}
