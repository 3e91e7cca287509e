//! Makes the bytes of a request from a rule.

use std::collections::HashMap;

use super::grammar::{Node, Part};
use super::mutate;
use super::values::{Context, Kind};
use weft_testkit::client::{describe, encode_into};
use weft_testkit::rng::Rng;

/// A command to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The name and the arguments.
    pub args: Vec<Vec<u8>>,
    /// Whether the server replies to it.
    pub answered: bool,
    /// Written as a line of quoted words instead of an array of bulk strings.
    pub inline: bool,
}

/// One action on both servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a command.
    Send(Command),
    /// Wait for replies.
    Sync,
    /// Wait for replies, and then until lifetimes of a millisecond are over.
    Sleep,
    /// Expect the servers to close the connection, and open a new one.
    Closes,
}

/// The actions of one rule: the unit that shrinking keeps or drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step(pub Vec<Action>);

/// Percentage of single commands that are made invalid.
const WRONG: usize = 15;
/// Percentage of commands sent inline.
const INLINE: usize = 2;
/// Percentage of words sent in odd case.
const ODD_CASE: usize = 8;
/// Longest command sent inline; servers refuse lines of 64 KB.
const INLINE_MAX: usize = 4000;

/// A step from a parsed rule. `mutable` rules are sometimes made invalid.
pub fn step(parts: &[Part], mutable: bool, rng: &mut Rng, context: Context) -> Step {
    let mut maker = Maker { rng, context, names: HashMap::new() };
    let actions = parts.iter().map(|part| match part {
        Part::Sync => Action::Sync,
        Part::Sleep => Action::Sleep,
        Part::Closes => Action::Closes,
        Part::Command { nodes, answered } => {
            Action::Send(Command { args: maker.command(nodes), answered: *answered, inline: false })
        }
    });
    let mut actions: Vec<Action> = actions.collect();
    if let [Action::Send(command)] = &mut actions[..]
        && mutable
        && rng.percent(WRONG)
    {
        mutate::mutate(&mut command.args, rng);
    }
    for action in &mut actions {
        if let Action::Send(command) = action {
            let size: usize = command.args.iter().map(Vec::len).sum();
            command.inline = rng.percent(INLINE) && size < INLINE_MAX;
        }
    }
    Step(actions)
}

/// Makes one command from its nodes.
struct Maker<'a> {
    rng: &'a mut Rng,
    context: Context,
    names: HashMap<&'static str, Vec<u8>>,
}

/// The arguments so far, and the value of a `numkeys` among them.
#[derive(Default)]
struct Draft {
    args: Vec<Vec<u8>>,
    numkeys_at: Option<usize>,
    repeats: usize,
}

impl Maker<'_> {
    fn command(&mut self, nodes: &[Node]) -> Vec<Vec<u8>> {
        let mut draft = Draft::default();
        self.sequence(nodes, &mut draft);
        if let Some(at) = draft.numkeys_at {
            let wrong = if self.rng.percent(5) { self.rng.between(-2, 2) } else { 0 };
            draft.args[at] = (draft.repeats as i64 + wrong).to_string().into_bytes();
        }
        draft.args
    }

    fn sequence(&mut self, nodes: &[Node], draft: &mut Draft) {
        for node in nodes {
            self.node(node, draft);
        }
    }

    fn node(&mut self, node: &Node, draft: &mut Draft) {
        match node {
            Node::Word(word) => draft.args.push(odd_case(word, self.rng)),
            Node::Quoted(text) => draft.args.push(text.as_bytes().to_vec()),
            Node::Slot(kind, name) => {
                if *kind == Kind::NumKeys {
                    draft.numkeys_at = Some(draft.args.len());
                }
                let arg = kind.draw(self.rng, self.context);
                if let Some(name) = name {
                    self.names.insert(name, arg.clone());
                }
                draft.args.push(arg);
            }
            Node::Again(name) => draft.args.push(self.names[name].clone()),
            Node::Optional(alternatives) => {
                if self.rng.percent(40) {
                    let chosen = self.rng.below(alternatives.len());
                    self.sequence(&alternatives[chosen], draft);
                }
            }
            Node::Choice(alternatives) => {
                let chosen = self.rng.below(alternatives.len());
                self.sequence(&alternatives[chosen], draft);
            }
            Node::AnyOrder(nodes) => {
                let mut order: Vec<&Node> = nodes.iter().collect();
                self.rng.shuffle(&mut order);
                for node in order {
                    self.node(node, draft);
                }
            }
            Node::Repeat(node) => {
                let times = 1 + self.rng.below(4);
                draft.repeats = times;
                for _ in 0..times {
                    self.node(node, draft);
                }
            }
        }
    }
}

/// The word, mostly unchanged.
fn odd_case(word: &str, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = word.as_bytes().to_vec();
    if rng.percent(ODD_CASE) {
        for b in &mut bytes {
            *b = if rng.percent(50) { b.to_ascii_lowercase() } else { b.to_ascii_uppercase() };
        }
    }
    bytes
}

impl Command {
    /// Whether it runs a script or a function.
    pub fn runs_script(&self) -> bool {
        const RUN: [&[u8]; 6] =
            [b"EVAL", b"EVAL_RO", b"EVALSHA", b"EVALSHA_RO", b"FCALL", b"FCALL_RO"];
        RUN.iter().any(|name| self.args[0].eq_ignore_ascii_case(name))
    }

    /// Appends the request to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        if !self.inline {
            return encode_into(&self.args, out);
        }
        for (i, arg) in self.args.iter().enumerate() {
            out.extend_from_slice(if i == 0 { b"\"" } else { b" \"" });
            for &b in arg {
                match b {
                    b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
                    0x20..=0x7e => out.push(b),
                    _ => out.extend_from_slice(format!("\\x{b:02x}").as_bytes()),
                }
            }
            out.push(b'"');
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The command as a user would type it.
    pub fn describe(&self) -> String {
        let silent = if self.answered { "" } else { "(not answered) " };
        let inline = if self.inline { "(inline) " } else { "" };
        format!("{silent}{inline}{}", describe(&self.args))
    }
}

impl Step {
    /// One line for each action.
    pub fn describe(&self) -> String {
        let lines = self.0.iter().map(|action| match action {
            Action::Send(command) => command.describe(),
            Action::Sync => "@sync".to_string(),
            Action::Sleep => "@sleep".to_string(),
            Action::Closes => "@closes".to_string(),
        });
        lines.map(|line| format!("    {line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar;

    fn commands(syntax: &'static str, seed: u64) -> Vec<Vec<Vec<u8>>> {
        let parts = grammar::parse(syntax);
        let step = step(&parts, false, &mut Rng::new(seed), Context { now: 1_700_000_000 });
        let sent = step.0.into_iter().filter_map(|action| match action {
            Action::Send(command) => Some(command.args),
            Action::Sync | Action::Sleep | Action::Closes => None,
        });
        sent.collect()
    }

    #[test]
    fn named_argument_is_constant_within_a_script() {
        for seed in 0..50 {
            let sent = commands("SET <key=a> <value> ; @sleep ; GET <a>", seed);
            assert_eq!(sent[0][1], sent[1][1]);
        }
    }

    #[test]
    fn numkeys_mostly_equals_the_repetitions() {
        let right = (0..400).filter(|&seed| {
            let args = &commands("MSETEX <numkeys> (<key> <value>)...", seed)[0];
            args[1] == ((args.len() - 2) / 2).to_string().into_bytes()
        });
        let right = right.count();
        assert!((360..400).contains(&right), "{right} of 400");
    }

    #[test]
    fn every_alternative_is_generated() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..400 {
            let args = commands("X [A|B] (C|D) {E [F]}", seed).remove(0);
            seen.insert(args.join(&b' ').to_ascii_uppercase());
        }
        // Nothing, A or B; C or D; E alone or with F on either side.
        assert_eq!(seen.len(), 3 * 2 * 3, "{seen:?}");
    }

    #[test]
    fn inline_commands_quote_everything() {
        let command = Command {
            args: vec![b"SET".to_vec(), b"a \"\\".to_vec(), b"\0\n".to_vec()],
            answered: true,
            inline: true,
        };
        let mut out = Vec::new();
        command.encode_into(&mut out);
        assert_eq!(out, b"\"SET\" \"a \\\"\\\\\" \"\\x00\\x0a\"\r\n");
    }
}
