//! Users in the configuration file and in the ACL file.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weft_testkit::server::free_port;
use weft_testkit::{Client, locate, skipped};

fn start(args: &[&str]) -> String {
    start_program(locate::weft(), args)
}

fn start_program(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .args(["--port", "0", "--dir", "/", "--bind", "127.0.0.1"])
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

#[test]
fn users_that_are_defined_twice_stop_the_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (acl, conf) = (folder.path().join("users.acl"), folder.path().join("server.conf"));
    let in_acl_file = format!("aclfile {}\n", acl.display());
    let once = "A user can only be defined once in config files";
    let cases = [
        ("user a on\nuser a on +get\n", "", "'a': Duplicate user found", once),
        ("user default on\nuser b on\nuser default on\n", "", "'default': Duplicate", once),
        (&in_acl_file, "user a on\nuser b on\nuser a off\n", "Duplicate user 'a'", "on line 3"),
        (&in_acl_file, "user default on\nuser default on\n", "user 'default'", "on line 2"),
        (&format!("{in_acl_file}user b on\n"), "user a on\n", "ACL file path", "not both"),
        (&format!("user default on\n{in_acl_file}"), "", "ACL file path", "not both"),
    ];
    let valkey = locate::valkey();
    if valkey.is_none() {
        skipped::note_here("no valkey-server in PEERS_BIN or PATH");
    }
    for (config, users, error, reason) in cases {
        write(&acl, users);
        write(&conf, config);
        for program in [Some(locate::weft()), valkey.as_deref()].into_iter().flatten() {
            let output = start_program(program, &[conf.to_str().expect("a plain path")]);
            let says = |words| output.contains(words);
            assert!(
                says(error) && says(reason),
                "{config}{users}: {}: {output}",
                program.display()
            );
        }
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
