//! The commands of one client, one after the other.
//!
//! The commands follow from the seed and from whether the client is in a transaction, except for
//! times around now. So a run can be repeated.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::options::Fuzz;

use super::config::Parameters;
use super::forbidden::{Judge, Verdict};
use super::generate;
use super::malform::malform;
use super::table::{Arg, Kind, Spec, Table};
use super::values::Values;

/// Percentage of malformed commands, in that mode.
const MALFORMED: f64 = 35.0;

/// Percentage of CONFIG SET, in that mode.
const CONFIG: f64 = 6.0;

/// Percentage of commands drawn from those on keys.
const ON_KEYS: f64 = 75.0;

/// The commands and parameters that all clients draw from.
#[derive(Debug)]
pub struct Material {
    specs: Vec<Spec>,
    /// Indexes of the commands on keys.
    on_keys: Vec<usize>,
    judge: Judge,
    parameters: Parameters,
    malformed: bool,
}

impl Material {
    pub fn new(table: Table, parameters: Parameters, fuzz: &Fuzz) -> Material {
        let on_keys = |(_, spec): &(usize, &Spec)| has_key(&spec.args);
        Material {
            on_keys: table.specs.iter().enumerate().filter(on_keys).map(|(at, _)| at).collect(),
            judge: Judge { blocking: table.blocking, config: fuzz.config },
            specs: table.specs,
            parameters,
            malformed: fuzz.malformed,
        }
    }
}

fn has_key(args: &[Arg]) -> bool {
    args.iter().any(|arg| match &arg.kind {
        Kind::Key => true,
        Kind::OneOf(parts) | Kind::Block(parts) => has_key(parts),
        Kind::Text
        | Kind::Integer
        | Kind::Double
        | Kind::Pattern
        | Kind::UnixTime
        | Kind::Token => false,
    })
}

/// A command to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub args: Vec<Vec<u8>>,
    /// Whether it must be in a transaction, because it may block forever.
    pub wrapped: bool,
}

/// The commands of one client.
#[derive(Debug)]
pub struct Script<'a> {
    material: &'a Material,
    rng: SmallRng,
    /// Tags that hash to the client's node of a cluster; none without.
    tags: Vec<[u8; 3]>,
    /// Commands left in the open transaction, EXEC included.
    transaction: u32,
}

impl<'a> Script<'a> {
    pub fn new(material: &'a Material, seed: u64, tags: Vec<[u8; 3]>) -> Script<'a> {
        Script { material, rng: SmallRng::seed_from_u64(seed), tags, transaction: 0 }
    }

    /// The next command.
    pub fn next(&mut self, in_transaction: bool) -> Planned {
        if self.transaction > 0 {
            self.transaction -= 1;
            if self.transaction == 0 {
                let end = if self.rng.random_bool(0.85) { "EXEC" } else { "DISCARD" };
                return Planned { args: vec![end.into()], wrapped: false };
            }
        } else if self.rng.random_bool(0.02) {
            return self.begin(vec!["MULTI".into()]);
        }
        // A server may have only commands that are not sent.
        for _ in 0..1000 {
            let (args, mutated) = self.draw();
            let verdict = self.material.judge.verdict(&args, mutated);
            let is = |word: &str| args[0].eq_ignore_ascii_case(word.as_bytes());
            let bad_there = is_subscription(&args) || is("QUIT");
            match verdict {
                Verdict::Never(_) => {}
                _ if in_transaction && bad_there => {}
                Verdict::Send if is("MULTI") && self.transaction == 0 => return self.begin(args),
                Verdict::Send => return Planned { args, wrapped: false },
                Verdict::InTransaction => return Planned { args, wrapped: !in_transaction },
            }
        }
        Planned { args: vec!["PING".into()], wrapped: false }
    }

    fn begin(&mut self, args: Vec<Vec<u8>>) -> Planned {
        self.transaction = self.rng.random_range(2..=10);
        Planned { args, wrapped: false }
    }

    /// A command, which may be a forbidden one, and whether it was malformed.
    fn draw(&mut self) -> (Vec<Vec<u8>>, bool) {
        let Material { specs, judge, parameters, malformed, .. } = self.material;
        let at = self.place();
        let other = self.place();
        let tag = match self.tags.len() {
            0 => None,
            tags => Some(self.tags[self.rng.random_range(0..tags)]),
        };
        let spec = &specs[at];
        let waits = judge.waits(&spec.words[0]);
        let mut values = Values { rng: &mut self.rng, tag, group: &spec.group, waits };
        let config = judge.config && values.chance(CONFIG);
        let set = if config { parameters.command(&mut values) } else { None };
        let mut args = set.unwrap_or_else(|| generate::command(spec, &mut values));
        let mutated = *malformed && values.chance(MALFORMED);
        if mutated {
            let other = generate::command(&specs[other], &mut values);
            malform(&mut args, &other, &mut values);
        }
        (args, mutated)
    }

    fn place(&mut self) -> usize {
        let Material { specs, on_keys, .. } = self.material;
        if !on_keys.is_empty() && self.rng.random_bool(ON_KEYS / 100.0) {
            return on_keys[self.rng.random_range(0..on_keys.len())];
        }
        self.rng.random_range(0..specs.len())
    }
}

/// Whether a command subscribes or ends subscriptions: its replies may be pushes, and more or
/// fewer than one.
pub fn is_subscription(args: &[Vec<u8>]) -> bool {
    let name = args[0].to_ascii_uppercase();
    matches!(
        &name[..],
        b"SUBSCRIBE"
            | b"PSUBSCRIBE"
            | b"SSUBSCRIBE"
            | b"UNSUBSCRIBE"
            | b"PUNSUBSCRIBE"
            | b"SUNSUBSCRIBE"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn material(malformed: bool) -> Material {
        let key = Arg { name: "key".into(), kind: Kind::Key, ..Arg::default() };
        let timeout = Arg { name: "timeout".into(), kind: Kind::Double, ..Arg::default() };
        let spec = |name: &str, args: &[&Arg]| Spec {
            words: name.split(' ').map(Into::into).collect(),
            group: "list".into(),
            args: args.iter().map(|arg| (*arg).clone()).collect(),
        };
        let specs = vec![
            spec("GET", &[&key]),
            spec("BLPOP", &[&key, &timeout]),
            spec("MULTI", &[]),
            spec("SUBSCRIBE", &[]),
            spec("SHUTDOWN", &[]),
            spec("CLIENT KILL", &[]),
            spec("QUIT", &[]),
        ];
        let table = Table { specs, blocking: HashSet::new() };
        Material::new(table, Parameters::default(), &Fuzz { malformed, ..Fuzz::default() })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn the_same_seed_gives_the_same_commands(seed: u64, malformed: bool) {
            let material = material(malformed);
            let [mut a, mut b] = [(); 2].map(|()| Script::new(&material, seed, Vec::new()));
            for _ in 0..50 {
                prop_assert_eq!(a.next(false), b.next(false));
            }
        }

        #[test]
        fn nothing_forbidden_is_sent(seed: u64, malformed: bool, in_transaction: bool) {
            let material = material(malformed);
            let mut script = Script::new(&material, seed, vec![*b"abc"]);
            for _ in 0..100 {
                let planned = script.next(in_transaction);
                let args = &planned.args;
                let mutated = planned.wrapped;
                let verdict = material.judge.verdict(args, mutated);
                prop_assert!(!matches!(verdict, Verdict::Never(_)), "{:?}", args);
                prop_assert!(!(in_transaction && (is_subscription(args) || planned.wrapped)));
                if args[0] == b"GET" && !malformed {
                    let tagged = args[1].starts_with(b"{abc}");
                    prop_assert!(tagged);
                }
            }
        }

        #[test]
        fn transactions_end(seed: u64) {
            let material = material(false);
            let mut script = Script::new(&material, seed, Vec::new());
            let mut since = None;
            for _ in 0..300 {
                let planned = script.next(since.is_some());
                match &planned.args[0][..] {
                    b"MULTI" if since.is_none() => since = Some(0),
                    b"EXEC" | b"DISCARD" => prop_assert!(since.take().is_some()),
                    _ => since = since.map(|n| n + 1),
                }
                prop_assert!(since.is_none_or(|n| n <= 10));
            }
        }
    }
}
