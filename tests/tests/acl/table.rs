//! Every command x every category, and every argument x read and write access.

use weft_testkit::{Client, Server, skip_without};
use weft_testkit_differential::own;

struct Pair(Client, Client);

/// A client of each server. `None`: there is no reference.
fn pair(test: &str) -> Option<(Pair, Server, Server)> {
    let reference = Server::valkey(&[]);
    if skip_without(test, &reference, "valkey-server") {
        return None;
    }
    let (weft, reference) = (Server::weft(&[]), reference.expect("not skipped"));
    Some((Pair(weft.client(), reference.client()), weft, reference))
}

impl Pair {
    /// Both replies.
    fn ask(&mut self, args: &[&str]) -> [String; 2] {
        [self.0.cmd(args).to_string(), self.1.cmd(args).to_string()]
    }

    fn same(&mut self, args: &[&str]) {
        let [ours, theirs] = self.ask(args);
        assert_eq!(ours, theirs, "{args:?}");
    }

    /// The names of a reply of the reference, without those that are ours alone.
    fn names(&mut self, args: &[&str]) -> [Vec<String>; 2] {
        [self.0.cmd(args), self.1.cmd(args)].map(|reply| {
            let names = reply.items().iter().map(|name| name.text());
            let mut names: Vec<String> = names.filter(|name| !own::is_own(name)).collect();
            names.sort();
            names
        })
    }
}

#[test]
fn categories_have_the_same_commands() {
    let Some((mut pair, _weft, _reference)) = pair("categories_have_the_same_commands") else {
        return;
    };
    pair.same(&["ACL", "CAT"]);
    let [_, categories] = pair.names(&["ACL", "CAT"]);
    let [_, commands] = pair.names(&["COMMAND", "LIST"]);
    for category in &categories {
        let [ours, theirs] = pair.names(&["ACL", "CAT", category]);
        assert_eq!(ours, theirs, "{category}");
        for rules in [["nocommands", "+"], ["allcommands", "-"]] {
            let rule = format!("{}@{category}", rules[1]);
            pair.same(&[
                "ACL",
                "SETUSER",
                "u",
                "reset",
                "alldbs",
                "allkeys",
                "allchannels",
                rules[0],
                &rule,
            ]);
            for command in &commands {
                dry_run(&mut pair, command, &[]);
            }
        }
    }
}

/// Asks for a command with the arguments `1`, as many as it needs at least, and `last`.
fn dry_run(pair: &mut Pair, command: &str, last: &[&str]) -> bool {
    let mut args = vec!["ACL", "DRYRUN", "u"];
    args.extend(command.split('|'));
    args.extend(last);
    for _ in 0..12 {
        let [ours, theirs] = pair.ask(&args);
        assert_eq!(ours, theirs, "{args:?}");
        if !theirs.contains("wrong number of arguments") {
            return true;
        }
        args.push("1");
    }
    false
}

/// One argument is a key or channel that the user has no right to.
#[test]
fn arguments_need_the_same_rights() {
    let Some((mut pair, _weft, _reference)) = pair("arguments_need_the_same_rights") else {
        return;
    };
    let [_, commands] = pair.names(&["COMMAND", "LIST"]);
    for rights in ["%R~1", "%W~1", "~1", "&1", "db=0"] {
        pair.same(&[
            "ACL",
            "SETUSER",
            "u",
            "reset",
            "allcommands",
            "allkeys",
            "allchannels",
            "alldbs",
        ]);
        match rights {
            "&1" => pair.same(&["ACL", "SETUSER", "u", "resetchannels", rights]),
            "db=0" => pair.same(&["ACL", "SETUSER", "u", rights]),
            _ => pair.same(&["ACL", "SETUSER", "u", "resetkeys", rights]),
        }
        for command in commands.iter().filter(|name| !MORE_RIGHTS.contains(&name.as_str())) {
            dry_run(&mut pair, command, &[]);
            for at in 0..5 {
                let mut args = vec!["1"; at];
                args.push("2");
                dry_run(&mut pair, command, &args);
            }
        }
    }
}

/// Commands that need more rights than in the reference: `docs/differences.md`.
const MORE_RIGHTS: [&str; 1] = ["pfmerge"];
