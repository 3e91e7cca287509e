//! Commands from trees of arguments.
//!
//! Generated commands are well-formed: every argument has the right type and place, and every count
//! precedes as many arguments. Chance decides whether a score is a number and a key holds a list,
//! as among real clients.

use super::table::{Arg, Kind, Spec};
use super::values::Values;

/// The most repetitions of an argument, except for a few commands with very many.
const SEVERAL: u32 = 4;

/// Repetitions in those commands.
const MANY: u32 = 1500;

/// Writes one command.
struct Writer<'a, 'b> {
    values: &'a mut Values<'b>,
    args: Vec<Vec<u8>>,
    /// The announced number of repetitions of the next repeated argument.
    announced: Option<u32>,
    /// The last announced number, for weights.
    keys: u32,
}

/// A command of this form.
pub fn command(spec: &Spec, values: &mut Values) -> Vec<Vec<u8>> {
    let mut writer = Writer { values, args: spec.words.clone(), announced: None, keys: 1 };
    writer.list(&spec.args);
    writer.args
}

impl Writer<'_, '_> {
    /// Arguments in their order. Two neighbours that may both come several times come equally
    /// often, as the keys and ids of XREAD do.
    fn list(&mut self, args: &[Arg]) {
        let mut before = None;
        for arg in args {
            if arg.optional && !self.values.chance(40.0) {
                before = None;
                continue;
            }
            if !arg.multiple {
                self.once(arg, true);
                before = None;
                continue;
            }
            let times = self.announced.take().or(before.filter(|_| !arg.optional));
            let times = times.unwrap_or_else(|| self.times(arg));
            for nth in 0..times {
                self.once(arg, nth == 0 || arg.multiple_token);
            }
            before = Some(times);
        }
    }

    fn times(&mut self, arg: &Arg) -> u32 {
        if arg.name == "weight" {
            return self.keys;
        }
        match self.values.below(500) {
            0 if matches!(arg.kind, Kind::Text | Kind::Key) => MANY,
            _ => 1 + self.values.below(SEVERAL),
        }
    }

    fn once(&mut self, arg: &Arg, with_token: bool) {
        if let Some(token) = &arg.token
            && with_token
        {
            self.args.push(token.clone());
        }
        let value = match &arg.kind {
            Kind::Key => self.values.key(),
            Kind::Text => self.values.text(&arg.name),
            Kind::Integer if announces(&arg.name) => {
                self.keys = 1 + self.values.below(SEVERAL);
                self.announced = Some(self.keys);
                self.keys.to_string().into_bytes()
            }
            Kind::Integer => self.values.integer(&arg.name),
            Kind::Double => self.values.double(&arg.name),
            Kind::Pattern => self.values.pattern(),
            Kind::UnixTime => self.values.unix_time(&arg.name),
            Kind::Token => return,
            Kind::OneOf(choices) => {
                let chosen = self.values.below(choices.len() as u32) as usize;
                return self.list(&[Arg { optional: false, ..choices[chosen].clone() }]);
            }
            Kind::Block(parts) => return self.list(parts),
        };
        self.args.push(value);
    }
}

/// Whether an integer announces the number of following arguments.
fn announces(name: &str) -> bool {
    matches!(name, "numkeys" | "numfields" | "num-vertices")
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    /// A command for tests.
    pub fn generated(spec: &Spec, seed: u64) -> Vec<Vec<u8>> {
        let rng = &mut SmallRng::seed_from_u64(seed);
        command(spec, &mut Values { rng, tag: None, group: &spec.group, waits: false })
    }

    fn arg(name: &str, kind: Kind) -> Arg {
        Arg { name: name.into(), kind, ..Arg::default() }
    }

    fn token(word: &str) -> Arg {
        Arg { token: Some(word.into()), ..arg(word, Kind::Token) }
    }

    fn spec(name: &str, args: Vec<Arg>) -> Spec {
        Spec { words: vec![name.into()], group: "list".into(), args }
    }

    /// `X key numkeys key ... LEFT|RIGHT [COUNT n] [GET p [GET p ...]] score member [...]`
    fn tree() -> Spec {
        let several = |arg| Arg { multiple: true, ..arg };
        let optional = |word: &str, arg| Arg { optional: true, token: Some(word.into()), ..arg };
        let get = Arg { multiple_token: true, ..several(arg("p", Kind::Pattern)) };
        let pair = Kind::Block(vec![arg("score", Kind::Double), arg("member", Kind::Text)]);
        spec(
            "X",
            vec![
                arg("key", Kind::Key),
                arg("numkeys", Kind::Integer),
                several(arg("key", Kind::Key)),
                arg("where", Kind::OneOf(vec![token("LEFT"), token("RIGHT")])),
                optional("COUNT", arg("count", Kind::Integer)),
                optional("GET", get),
                several(arg("pair", pair)),
            ],
        )
    }

    /// Checks the form of [`tree`].
    fn check(args: &[Vec<u8>]) -> Option<()> {
        let is_key = |arg: &Vec<u8>| arg.contains(&b':');
        let mut rest = args.iter();
        (rest.next()? == b"X" && is_key(rest.next()?)).then_some(())?;
        let keys: usize = std::str::from_utf8(rest.next()?).ok()?.parse().ok()?;
        (keys >= 1 && rest.by_ref().take(keys).filter(|arg| is_key(arg)).count() == keys)
            .then_some(())?;
        matches!(&rest.next()?[..], b"LEFT" | b"RIGHT").then_some(())?;
        let mut rest = rest.as_slice();
        if rest.first()? == b"COUNT" {
            std::str::from_utf8(&rest[1]).ok()?.parse::<i64>().ok()?;
            rest = &rest[2..];
        }
        while rest.first()? == b"GET" {
            rest = &rest[2..];
        }
        let pairs = rest.chunks_exact(2);
        (!rest.is_empty() && pairs.remainder().is_empty()).then_some(())?;
        for pair in pairs {
            std::str::from_utf8(&pair[0]).ok()?.parse::<f64>().ok()?;
            pair[1].starts_with(b"member:").then_some(())?;
        }
        Some(())
    }

    proptest! {
        #[test]
        fn commands_have_the_form_of_their_tree(seed: u64) {
            let args = generated(&tree(), seed);
            prop_assert!(check(&args).is_some(), "{:?}", args);
        }

        #[test]
        fn the_same_seed_gives_the_same_command(seed: u64) {
            prop_assert_eq!(generated(&tree(), seed), generated(&tree(), seed));
        }

        #[test]
        fn neighbours_come_equally_often(seed: u64) {
            let several = |name: &str, kind| Arg { multiple: true, ..arg(name, kind) };
            let streams = vec![several("key", Kind::Key), several("channel", Kind::Text)];
            let streams = Arg { token: Some("STREAMS".into()), ..arg("s", Kind::Block(streams)) };
            let args = generated(&spec("XREAD", vec![streams]), seed);
            prop_assert_eq!(&args[1], b"STREAMS");
            let (keys, ids) = args[2..].split_at(args.len() / 2 - 1);
            prop_assert_eq!(keys.len(), ids.len());
            prop_assert!(!keys.iter().any(|key| key.starts_with(b"channel:")));
            prop_assert!(ids.iter().all(|id| id.starts_with(b"channel:")));
        }
    }
}
