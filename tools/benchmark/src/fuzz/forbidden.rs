//! The commands that are never sent, and the reasons.
//!
//! This check comes last before a command is sent, after the generator and the mutations. The
//! reference leaves out most of these commands too.

use std::collections::HashSet;

use super::values::USER;

/// Commands, or subcommands, that are not sent.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["SHUTDOWN"], "ends the server"),
    (&["DEBUG"], "ends it, stops it, or puts it into states that no client can"),
    (&["FAILOVER"], "gives the server another role"),
    (&["REPLICAOF"], "gives the server another role, and other data"),
    (&["SLAVEOF"], "gives the server another role, and other data"),
    (&["SYNC"], "turns the connection into a replica's"),
    (&["PSYNC"], "turns the connection into a replica's"),
    (&["REPLCONF"], "turns the connection into a replica's, without replies"),
    (&["CLUSTER"], "takes slots and nodes away"),
    (&["MONITOR"], "turns the connection into a stream of commands"),
    (&["MIGRATE"], "waits for other hosts, with the whole server"),
    (&["PFSELFTEST"], "keeps the server busy for long"),
    (&["SAVE"], "writes files, and keeps the server busy for it"),
    (&["BGSAVE"], "writes files"),
    (&["BGREWRITEAOF"], "writes files"),
    (&["CONFIG", "REWRITE"], "writes the configuration file"),
    (&["ACL", "SAVE"], "writes the file of the users"),
    (&["ACL", "LOAD"], "replaces all users"),
    (&["ACL", "DELUSER"], "closes connections, as a crash does"),
    (&["MODULE", "LOAD"], "loads code from files"),
    (&["MODULE", "LOADEX"], "loads code from files"),
    (&["MODULE", "UNLOAD"], "takes commands away"),
    (&["SCRIPT", "DEBUG"], "turns the connection into a debugger's"),
    (&["CLIENT", "REPLY"], "ends replies, as a hang does"),
    (&["CLIENT", "PAUSE"], "stops all clients"),
    (&["CLIENT", "KILL"], "closes connections, as a crash does"),
    (&["FLUSHALL"], "leaves no values to the commands that follow"),
    (&["FLUSHDB"], "leaves no values to the commands that follow"),
    (&["POST"], "servers close the connection: they take it for an attack from a browser"),
    (&["HOST:"], "servers close the connection: they take it for an attack from a browser"),
];

/// Parameters that CONFIG SET doesn't change. A star stands for any beginning or end.
const PARAMETERS: &[(&str, &str)] = &[
    ("port", "moves the server"),
    ("bind", "moves the server"),
    ("cluster-port", "moves the server"),
    ("unixsocket*", "moves the server"),
    ("tls-*", "needs certificates, or moves the server"),
    ("rdma-*", "moves the server"),
    ("protected-mode", "may lock out"),
    ("requirepass", "locks out"),
    ("maxclients", "locks out, or closes connections"),
    ("timeout", "closes connections"),
    ("maxmemory-clients", "closes connections"),
    ("client-output-buffer-limit", "closes connections"),
    ("min-replicas-to-write", "refuses all writes from then on"),
    ("min-slaves-to-write", "refuses all writes from then on"),
    ("dir", "writes files elsewhere"),
    ("dbfilename", "writes files elsewhere"),
    ("*file", "writes files elsewhere"),
    ("appendfilename", "writes files elsewhere"),
    ("appenddirname", "writes files elsewhere"),
    ("loglevel", "hides the server's crash report"),
    ("crash-*", "hides the server's crash report"),
    ("*cpulist", "concerns the machine"),
    ("oom-score-adj*", "concerns the machine"),
    ("replicaof", "gives the server another role"),
    ("slaveof", "gives the server another role"),
    ("watchdog-period", "ends the server when it is slow"),
];

/// Commands that may block, for servers whose tables don't have the flag.
const WAIT: &[&str] = &[
    "BLPOP",
    "BRPOP",
    "BLMOVE",
    "BLMPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "XREAD",
    "XREADGROUP",
    "WAIT",
    "WAITAOF",
];

/// The verdict on a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent unchanged.
    Send,
    /// It may block forever, so it is sent in a transaction, where no command blocks.
    InTransaction,
    /// It is not sent, for this reason.
    Never(&'static str),
}

/// Decides which commands may be sent.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// Commands that may wait, in upper case.
    pub blocking: HashSet<Vec<u8>>,
    /// Whether CONFIG SET is requested.
    pub config: bool,
}

impl Judge {
    /// Whether a command may wait.
    pub fn waits(&self, name: &[u8]) -> bool {
        self.blocking.contains(&name.to_ascii_uppercase())
            || WAIT.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    }

    /// Judges a command. `mutated`: its timeout may be any number.
    pub fn verdict(&self, args: &[Vec<u8>], mutated: bool) -> Verdict {
        let is = |at: usize, word: &str| {
            args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
        };
        let begins_with = |words: &&(&[&str], &'static str)| {
            words.0.iter().enumerate().all(|(at, word)| is(at, word))
        };
        if args.is_empty() {
            return Verdict::Never("has no reply");
        }
        if let Some((_, why)) = COMMANDS.iter().find(begins_with) {
            return Verdict::Never(why);
        }
        if is(0, "CONFIG") && is(1, "SET") {
            if !self.config {
                return Verdict::Never("is a separate mode");
            }
            if let Some(why) = args[2..].iter().find_map(|arg| parameter(arg)) {
                return Verdict::Never(why);
            }
        }
        let others = is(0, "ACL")
            && is(1, "SETUSER")
            && args.get(2).is_some_and(|user| !user.starts_with(USER.as_bytes()));
        if others {
            return Verdict::Never("changes users that are not the fuzzer's");
        }
        if mutated && self.waits(&args[0]) { Verdict::InTransaction } else { Verdict::Send }
    }
}

/// The reason why a parameter is not set; none if it may be.
pub fn parameter(name: &[u8]) -> Option<&'static str> {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let meets = |(pattern, _): &&(&str, &'static str)| match (
        pattern.strip_prefix('*'),
        pattern.strip_suffix('*'),
    ) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(beginning)) => name.starts_with(beginning),
        (None, None) => name == *pattern,
    };
    PARAMETERS.iter().find(meets).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(line: &str, mutated: bool) -> Verdict {
        let args: Vec<Vec<u8>> = line.split_whitespace().map(|word| word.into()).collect();
        Judge { config: true, ..Judge::default() }.verdict(&args, mutated)
    }

    #[test]
    fn nothing_that_ends_or_hides_is_sent() {
        for line in [
            "",
            "shutdown NOSAVE",
            "Debug SEGFAULT",
            "client reply off",
            "CONFIG SET port 1",
            "config set hz 10 RequirePass x",
            "CONFIG SET aclfile x",
            "CONFIG SET tls-port 1",
            "acl setuser default off",
            "ACL DELUSER fuzz-user-1",
            "post",
        ] {
            assert!(matches!(verdict(line, false), Verdict::Never(_)), "{line}");
        }
    }

    #[test]
    fn all_else_is() {
        for line in [
            "GET shutdown",
            "CLIENT LIST",
            "CONFIG GET port",
            "CONFIG SET hz 10",
            "CONFIG",
            "ACL SETUSER fuzz-user-1 on ~*",
            "ACL",
            "ACL SETUSER",
            "BLPOP list:0 0.01",
        ] {
            assert_eq!(verdict(line, false), Verdict::Send, "{line}");
        }
    }

    #[test]
    fn blocking_command_goes_into_a_transaction() {
        assert_eq!(verdict("blpop list:0 0", true), Verdict::InTransaction);
        assert_eq!(verdict("LPOP list:0 0", true), Verdict::Send);
        let judge = Judge { blocking: HashSet::from([b"NEW".to_vec()]), config: false };
        assert_eq!(judge.verdict(&[b"new".to_vec()], true), Verdict::InTransaction);
        let set = ["CONFIG", "SET", "hz", "1"].map(|word| word.into());
        assert!(matches!(judge.verdict(&set, true), Verdict::Never(_)));
    }
}
