//! The commands of `docs/secure.md` work.

use std::fmt::Write;
use std::process::Command;
use weft_testkit::{Server, skipped};
use weft_tests::scene::client;

const PAGE: &str = include_str!("../../../docs/secure.md");

/// The lines in fences of a section.
fn code(section: &str) -> String {
    let begin = format!("\n## {section}\n");
    let text = PAGE.split_once(&begin).unwrap_or_else(|| panic!("no section {section}")).1;
    let text = text.split("\n## ").next().unwrap_or_default();
    let mut is_code = false;
    let mut code = String::new();
    for line in text.lines() {
        match line.starts_with("```") {
            true => is_code = !is_code,
            false if is_code => writeln!(code, "{line}").expect("memory"),
            false => {}
        }
    }
    code
}

#[test]
fn certificates_of_the_page_verify() {
    if Command::new("openssl").arg("version").output().is_err() {
        return skipped::note("certificates_of_the_page_verify", "no openssl");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let code = code("Certificates");
    let script = code.split("weft-server").next().unwrap_or_default();
    let output = Command::new("sh")
        .args(["-e", "-c", script])
        .env("CA_PASS", "pass-phrase")
        .current_dir(dir.path())
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{failed}");
    for certificate in ["server", "app"] {
        assert!(said.contains(&format!("tls/{certificate}.crt: OK")), "{said}\n{failed}");
    }
}

/// The reference accepts every user, and the roles can do what the page says.
#[test]
fn users_of_the_page_have_their_rights() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("users.acl");
    let code = code("Users");
    let users: Vec<&str> = code.lines().filter(|line| line.starts_with("user ")).collect();
    assert!(users.len() >= 7, "{code}");
    std::fs::write(&file, users.join("\n") + "\n").expect("a file");
    let path = file.to_str().expect("valid UTF-8");
    let Some(server) = Server::valkey(&["--aclfile", path]) else {
        return skipped::note("users_of_the_page_have_their_rights", "no valkey-server");
    };
    let mut admin = client(&server);
    admin.ok(&["AUTH", "admin", "admin-secret"]);
    for (request, allowed) in [
        ("app SET app:1 x", true),
        ("app KEYS app:*", true),
        ("app SET other x", false),
        ("app FLUSHALL", false),
        ("app CONFIG GET port", false),
        ("app PUBLISH app:news x", true),
        ("app PUBLISH news x", false),
        ("reader GET app:1", true),
        ("reader SET app:1 x", false),
        ("reader GET other", false),
        ("replica PSYNC ? -1", true),
        ("replica GET app:1", false),
        ("sentinel SLAVEOF NO ONE", true),
        ("sentinel CONFIG SET dir x", false),
        ("monitoring INFO", true),
        ("monitoring CONFIG GET requirepass", false),
        ("admin FLUSHALL", true),
        ("default PING", false),
    ] {
        let words = ["ACL", "DRYRUN"].into_iter().chain(request.split(' '));
        let reply = admin.try_cmd(&words.collect::<Vec<_>>()).expect("a reply").value;
        assert_eq!(reply.is_ok(), allowed, "{request}: {reply}");
    }
}
