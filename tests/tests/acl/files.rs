//! Users in the configuration file and in the ACL file.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weft_testkit::server::free_port;
use weft_testkit::{Client, locate};

fn start(args: &[&str]) -> String {
    let output = Command::new(locate::weft())
        .args(["--port", "0", "--dir", "/", "--bind", "127.0.0.1"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the server can be started");
    assert!(!output.status.success(), "{args:?}: started");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the folder is writable");
}

#[test]
fn wrong_users_stop_the_start_without_their_passwords() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("users.acl");
    let path = file.to_str().expect("a plain path");
    write(&file, "user a on >hunter2 bad\nuser b +nosuch\n");
    for (args, wanted) in [
        (vec!["--user", "a", "on", ">hunter2", "bad"], "Syntax error"),
        (vec!["--user", "a", "on", "(+get"], "Wrong format"),
        (vec!["--aclfile", path], "2: Error in applying operation '+nosuch'"),
        (vec!["--aclfile", path, "--user", "a", "on"], "not both"),
        (vec!["--aclfile", "/nosuch/users.acl"], "No such file or directory"),
    ] {
        let output = start(&args);
        assert!(output.contains(wanted), "{args:?}: {output}");
        assert!(!output.contains("hunter2"), "{args:?}: {output}");
    }
}

/// A server that reads this configuration file.
struct Running(Child, u16);

impl Running {
    fn start(file: &Path) -> Running {
        let port = free_port();
        let mut command = Command::new(locate::weft());
        command.arg(file).args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        let child = command.stdout(Stdio::null()).spawn().expect("the server can be started");
        Running(child, port)
    }

    fn client(&self) -> Client {
        for _ in 0..1000 {
            if let Ok(client) = Client::try_tcp(self.1) {
                return client;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no server");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already if this fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn rewritten_configuration_defines_the_same_users() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("weft.conf");
    let dir = folder.path().display();
    write(&file, &format!("# mine\ndir {dir}\nuser a on >p ~a* +get (db=1 ~b* +set)\n"));
    let before = {
        let server = Running::start(&file);
        let mut client = server.client();
        client.ok(&["ACL", "SETUSER", "b", "on", "nopass", "%R~x", "&c", "+@read"]);
        client.ok(&["CONFIG", "REWRITE"]);
        client.cmd(&["ACL", "LIST"])
    };
    let text = std::fs::read_to_string(&file).expect("the file is there");
    assert!(text.contains("\nuser a on #") && !text.contains(">p"), "{text}");
    assert_eq!(Running::start(&file).client().cmd(&["ACL", "LIST"]), before);
}
