//! `enable-debug-command`, `enable-module-command`, `enable-protected-configs`: the replies of the reference.

use weft_tests::scene::{client, on_both};

const REQUESTS: &[&[&str]] = &[
    &["DEBUG", "JMAP"],
    &["DEBUG", "SLEEP", "0"],
    &["DEBUG"],
    &["MODULE", "UNLOAD", "x"],
    &["MODULE", "LOAD"],
    &["MODULE", "NOSUCH"],
    &["CONFIG", "SET", "dbfilename", "other.rdb"],
    &["CONFIG", "SET", "hz", "12", "dbfilename", "third.rdb"],
    &["CONFIG", "GET", "hz"],
    &["CONFIG", "SET", "dir", "."],
    &["CONFIG", "SET", "enable-debug-command", "yes"],
    &["CONFIG", "SET", "enable-module-command", "yes"],
    &["CONFIG", "SET", "enable-protected-configs", "yes"],
    &["CONFIG", "SET", "protected-mode", "yes"],
    &["CONFIG", "SET", "protected-mode", "no"],
    &["CONFIG", "SET", "appendfilename", "x"],
    &["CONFIG", "SET", "logfile", "x"],
    &["MULTI"],
    &["DEBUG", "JMAP"],
    &["CONFIG", "SET", "dbfilename", "other.rdb"],
    &["EXEC"],
];

/// Refused by default, and then as in the reference. This version has no modules to load.
const LOADS: &[&[&str]] = &[&["MODULE", "LOAD", "/x"], &["MODULE", "LOADEX", "/x", "ARGS", "y"]];

#[test]
fn protected_commands_and_directives_answer_as_in_the_reference() {
    for setting in ["no", "local", "yes"] {
        let args = [
            "--enable-debug-command",
            setting,
            "--enable-module-command",
            setting,
            "--enable-protected-configs",
            setting,
        ];
        let replies = std::cell::RefCell::new(Vec::new());
        on_both(&args, &[], |server| {
            let mut client = client(server);
            let loads = if setting == "no" { LOADS } else { &[] };
            let mut ask = |request: &&[&str]| {
                let reply = client.try_cmd(request).expect("a reply").raw;
                format!("{request:?}: {}", reply.escape_ascii())
            };
            let all: Vec<String> = REQUESTS.iter().chain(loads).map(&mut ask).collect();
            replies.borrow_mut().push(all);
        });
        let replies = replies.into_inner();
        let [.., weft] = &replies[..] else { unreachable!("one server at least") };
        for theirs in &replies {
            assert_eq!(weft, theirs, "{setting}");
        }
    }
}
