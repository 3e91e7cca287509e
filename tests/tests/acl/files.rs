//! Users in the configuration file and in the ACL file.

use std::path::Path;
use std::process::{Command, Stdio};
use weft_testkit::{Server, locate};

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

#[test]
fn rewritten_configuration_defines_the_same_users() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("weft.conf");
    write(&file, "# mine\nuser a on >p ~a* +get (db=1 ~b* +set)\n");
    let mut server = Server::weft(&[file.to_str().expect("a plain path")]);
    let mut client = server.client();
    client.ok(&["ACL", "SETUSER", "b", "on", "nopass", "%R~x", "&c", "+@read"]);
    client.ok(&["CONFIG", "REWRITE"]);
    let before = client.cmd(&["ACL", "LIST"]);
    let text = std::fs::read_to_string(&file).expect("the file is there");
    assert!(text.starts_with("# mine\nuser a on #"), "{text}");
    server.restart();
    assert_eq!(server.client().cmd(&["ACL", "LIST"]), before);
}
