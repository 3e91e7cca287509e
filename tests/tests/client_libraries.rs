//! A session with client libraries in several languages: `tests/clients/`.
//!
//! `.ci/clients` installs them and prints a folder of programs; set `CLIENTS_BIN` to it. The same
//! session runs with the reference, if installed, to prove that its expectations are right.

use std::env;
use std::path::Path;
use std::process::Command;

use weft_testkit::{locate, skipped};
use weft_tests::scene::on_both;

const LIBRARIES: [&str; 3] = ["redis-py", "ioredis", "go-redis"];

/// Runs the sessions of applications: pools, lost connections, TLS, a cluster of one node.
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/table.py");

#[test]
fn client_libraries_complete_their_sessions() {
    let Some(folder) = env::var_os("CLIENTS_BIN") else {
        skipped::note_here("no CLIENTS_BIN: .ci/clients installs client libraries");
        return;
    };
    for library in LIBRARIES {
        let program = Path::new(&folder).join(library);
        if !program.is_file() {
            skipped::note_here(&format!("no {library} in CLIENTS_BIN"));
            continue;
        }
        on_both(&["--io-threads", "2"], &[], |server| {
            let output = Command::new(&program)
                .arg(server.port().to_string())
                .output()
                .unwrap_or_else(|e| panic!("cannot run {}: {e}", program.display()));
            let printed = String::from_utf8_lossy(&output.stdout);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(printed, "done\n", "{library} with {}: {said}", server.name());
        });
    }
}

#[test]
fn everyday_sessions_of_client_libraries_pass() {
    if env::var_os("CLIENTS_BIN").is_none() {
        skipped::note_here("no CLIENTS_BIN: .ci/clients installs client libraries");
        return;
    }
    let output = Command::new("python3")
        .args([TABLE, "--test", "library"])
        .env("WEFT_SERVER", locate::weft())
        .output();
    let Ok(output) = output else {
        skipped::note_here("no python3");
        return;
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{said}");
    for missing in printed.lines().filter_map(|line| line.strip_prefix("missing: ")) {
        skipped::note_here(&format!("no session of {missing} in CLIENTS_BIN"));
    }
    assert!(printed.contains(": passed"), "no session ran: {printed}");
}
