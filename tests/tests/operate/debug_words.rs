//! DEBUG subcommands that test suites for drop-in servers call. The replies match the reference,
//! also for switches without effect here.

use weft_testkit::{Client, Server, Value, skip_without};

const ARGS: [&str; 2] = ["--enable-debug-command", "yes"];

const LINES: &[&str] = &[
    "DEBUG STRINGMATCH-LEN 1000 a*",
    "DEBUG PROTECT-CLIENT 999999",
    "DEBUG PROTECT-CLIENT nonsense",
    "DEBUG PROTECT-CLIENT -1",
    "DEBUG PROTECT-CLIENT",
    "DEBUG RESTART nonsense",
    "DEBUG CRASH-AND-RECOVER nonsense",
    "DEBUG AOF-FLUSH-SLEEP 0",
    "DEBUG AOF-FLUSH-SLEEP nonsense",
    "DEBUG DELAY-RDB-CLIENT-FREE-SECONDS 0",
    "DEBUG DELAY-RDB-CLIENT-FREE-SECOND 0",
    "DEBUG PAUSE-AFTER-FORK 0",
    "DEBUG DICT-RESIZING 1",
    "DEBUG CLIENT-ENFORCE-REPLY-LIST 0",
    "DEBUG REPLYBUFFER RESIZING 1",
    "DEBUG REPLYBUFFER PEAK-RESET-TIME reset",
    "DEBUG SET-DISABLE-DENY-SCRIPTS 0",
    "DEBUG SET-SKIP-CHECKSUM-VALIDATION 0",
    "DEBUG HASHTABLE-CAN-ABORT-SHRINK 1",
    "DEBUG FORCE-FREE-PRIMARY-ASYNC 0",
    "DEBUG SLOTMIGRATION PREVENT-PAUSE 0",
    "DEBUG SLOTMIGRATION PREVENT-NOTHING 0",
    "DEBUG QUICKLIST-PACKED-THRESHOLD 0",
    "DEBUG RELOAD NONSENSE",
    "DEBUG NONSENSE",
];

fn answer(client: &mut Client, line: &str) -> String {
    match client.cmd(&line.split(' ').collect::<Vec<_>>()) {
        Value::Error(e) => format!("-{}", String::from_utf8_lossy(&e)),
        reply => reply.to_string(),
    }
}

#[test]
fn debug_replies_match_the_reference() {
    let test = "debug_replies_match_the_reference";
    let theirs = Server::valkey(&ARGS);
    if skip_without(test, &theirs, "valkey-server") {
        return;
    }
    let (ours, theirs) = (Server::weft(&ARGS), theirs.expect("not skipped"));
    let (mut ours, mut theirs) = (ours.client(), theirs.client());
    let wrong: Vec<String> = LINES
        .iter()
        .map(|line| (line, answer(&mut ours, line), answer(&mut theirs, line)))
        .filter(|(_, our, their)| our != their)
        .map(|(line, our, their)| format!("{line}\n  ours:   {our}\n  theirs: {their}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Only on this server: the reference takes half a minute.
    let test = ours.cmd(&["DEBUG", "STRINGMATCH-TEST"]);
    assert_eq!(test.text(), "Apparently the server did not crash: test passed");
    // The id of an existing client.
    let id = ours.cmd(&["CLIENT", "ID"]).int().to_string();
    ours.ok(&["DEBUG", "PROTECT-CLIENT", &id]);
}
