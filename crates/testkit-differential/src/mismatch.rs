//! A reply or keyspace that differs between the servers.

use weft_testkit::client::{Reply, describe};
use weft_testkit::value::{Value, quote_short};

/// The first difference of an episode.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// The step; the number of steps if only the final keyspaces differ.
    pub step: usize,
    /// The command and both replies.
    pub what: String,
    /// Identifies equal mismatches: the command's name and the types of the replies.
    pub key: String,
}

impl Mismatch {
    /// Different replies to the command of `step`.
    pub fn of(step: usize, args: &[Vec<u8>], ours: &Reply, theirs: &Reply) -> Mismatch {
        let command = describe(args);
        let what = format!(
            "{command}\n  ours:      {}\n  reference: {}",
            quote_short(&ours.raw),
            quote_short(&theirs.raw)
        );
        let kind = |reply: &Reply| match &reply.value {
            Value::Error(text) => String::from_utf8_lossy(text).chars().take(24).collect(),
            other => format!("{:?}", std::mem::discriminant(other)),
        };
        let words: Vec<String> = args
            .iter()
            .take(2)
            .map(|arg| String::from_utf8_lossy(arg).to_ascii_uppercase())
            .collect();
        // The second word only if it names a subcommand.
        let container = [
            "CLIENT",
            "CONFIG",
            "COMMAND",
            "COMMANDLOG",
            "DEBUG",
            "LATENCY",
            "MEMORY",
            "OBJECT",
            "SLOWLOG",
        ];
        let name =
            if container.contains(&words[0].as_str()) { words.join(" ") } else { words[0].clone() };
        Mismatch { step, what, key: format!("{name}: {} against {}", kind(ours), kind(theirs)) }
    }
}
