//! A server that exits before it serves clients logs the reason, blocks on nothing, and leaves no
//! pid file.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use weft_testkit::server::free_port;
use weft_testkit::{Server, client, locate};
use weft_tests::persistence::{PATIENCE, info, wait_for_rewrite_end};

/// Waits for a process to exit, and kills it on timeout.
fn end_of(mut child: Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("the child can be polled") {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().and_then(|()| child.wait()).expect("the child can be killed");
            panic!("the process does not exit");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a server in `folder` that must exit by itself. Returns its status and its output.
fn start_that_ends(folder: &Path, args: &[&str]) -> (ExitStatus, String) {
    let said = folder.join("said");
    let file = File::create(&said).expect("the disk has space");
    let child = Command::new(locate::weft())
        .args(["--port", &free_port().to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("a descriptor"))
        .stderr(file)
        .spawn()
        .expect("the server's own program runs");
    let status = end_of(child);
    let text = fs::read_to_string(&said).expect("the output file exists");
    fs::remove_file(said).expect("the output file exists");
    (status, text)
}

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.is_ok_and(|made| made.success()), "mkfifo {}", path.display());
}

/// Regression: the start blocked on opening a pipe, or read a device until memory was full.
#[test]
fn start_does_not_block_on_files_that_are_not_regular() {
    let mut server = Server::weft(&["--appendonly", "yes"]);
    let mut client = server.client();
    client.ok(&["SET", "a", "b"]);
    client.ok(&["SAVE"]);
    server.kill();
    let folder = server.dir().to_path_buf();
    let (pipe, aside) = (folder.join("pipe"), folder.join("aside"));
    make_pipe(&pipe);
    for (appends, name) in [
        ("no", "dump.rdb"),
        ("yes", "appendonlydir/appendonly.aof.manifest"),
        ("yes", "appendonlydir/appendonly.aof.1.base.rdb"),
        ("yes", "appendonlydir/appendonly.aof.1.incr.aof"),
    ] {
        let path = folder.join(name);
        fs::rename(&path, &aside).expect("the file exists");
        for target in [Some(&*pipe), Some(Path::new("/dev/zero")), None] {
            match target {
                Some(target) => symlink(target, &path).expect("a link"),
                None => make_pipe(&path),
            }
            let (status, said) = start_that_ends(&folder, &["--appendonly", appends]);
            assert_eq!(status.code(), Some(1), "{name}: {said}");
            assert!(said.contains("It is not a regular file"), "{name}: {said}");
            fs::remove_file(&path).expect("the file exists");
        }
        fs::rename(&aside, &path).expect("the file exists");
    }
    server.restart();
    assert_eq!(server.client().cmd(&["GET", "a"]).text(), "b");
}

/// Regression: the AOF writer blocked on opening a pipe that had the name of the next file.
#[test]
fn rewrite_does_not_block_on_a_pipe() {
    let server = Server::weft(&["--appendonly", "yes"]);
    let mut client = server.client();
    let path = server.dir().join("appendonlydir/appendonly.aof.2.incr.aof");
    make_pipe(&path);
    client.cmd(&["BGREWRITEAOF"]);
    wait_for_rewrite_end(&mut client);
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "err");
    client.ok(&["SET", "a", "b"]);
    client.set_timeout(PATIENCE);
    assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    fs::remove_file(&path).expect("the pipe exists");
    client.cmd(&["BGREWRITEAOF"]);
    wait_for_rewrite_end(&mut client);
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
}

/// Regression: only a clean shutdown removed the pid file.
#[test]
fn pid_file_is_removed_on_every_exit() {
    let pid = ["--pidfile", "pid"];
    for how in ["SHUTDOWN", "SIGTERM"] {
        let mut server = Server::weft(&[]);
        let sets: Vec<_> =
            (0..3000).map(|n| ["SET", &n.to_string(), "v"].map(String::from)).collect();
        let sets: Vec<_> = sets.into_iter().map(|words| words.to_vec()).collect();
        let mut client = server.client();
        client.pipeline(&sets).expect("answers");
        client.ok(&["SAVE"]);
        // Loading would take twenty minutes.
        server.restart_loading(&[&pid[..], &["--key-load-delay", "400000"]].concat());
        let path = server.dir().join("pid");
        assert_eq!(
            fs::read_to_string(&path).expect("the file exists"),
            format!("{}\n", server.pid())
        );
        let mut client = server.client();
        assert_eq!(info(&mut client, "loading"), "1");
        match how {
            "SIGTERM" => server.signal(rustix::process::Signal::TERM),
            _ => client.send_raw(&client::encode(&["SHUTDOWN", "NOSAVE"])).expect("sent"),
        }
        let status = server.wait();
        assert!(status.success(), "{how}: {status}\n{}", server.log_tail());
        assert!(!path.exists(), "{how}");
    }
    for (appends, name) in [("no", "dump.rdb"), ("yes", "appendonlydir/appendonly.aof.manifest")] {
        let folder = tempfile::tempdir().expect("a folder");
        let broken = folder.path().join(name);
        fs::create_dir_all(broken.parent().expect("a folder")).expect("the disk has space");
        fs::write(broken, "no such thing").expect("the disk has space");
        let args = [&pid[..], &["--appendonly", appends]].concat();
        let (status, said) = start_that_ends(folder.path(), &args);
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(!folder.path().join("pid").exists(), "{said}");
    }
}

/// As on the reference: functions that can't be loaded are like damaged data.
#[test]
fn start_fails_on_a_broken_library() {
    let mut server = Server::weft(&["--rdbcompression", "no", "--rdbchecksum", "no", "--save", ""]);
    let mut client = server.client();
    let library = "#!lua name=broken\nredis.register_function('f', function() return 12345 end)";
    client.cmd(&["FUNCTION", "LOAD", library]);
    client.ok(&["SAVE"]);
    server.kill();
    let folder = server.dir();
    let mut file = fs::read(folder.join("dump.rdb")).expect("the file exists");
    let at = file.windows(5).position(|bytes| bytes == b"12345").expect("the library is there");
    file[at] = b'(';
    fs::write(folder.join("dump.rdb"), file).expect("the disk has space");
    let (status, text) = start_that_ends(folder, &[]);
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("Failed loading library, Error compiling function: "), "{text}");
}
