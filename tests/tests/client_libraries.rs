//! Client libraries in several languages hold a session each: `tests/clients/`.
//!
//! `.ci/clients` installs them and prints a folder of programs, which `CLIENTS_BIN` names here. The
//! same session is held with the reference, where there is one: it must ask for nothing else.

use std::env;
use std::path::Path;
use std::process::Command;

use weft_testkit::skipped;
use weft_tests::scene::on_both;

const LIBRARIES: [&str; 3] = ["redis-py", "ioredis", "go-redis"];

#[test]
fn client_libraries_hold_their_sessions() {
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
