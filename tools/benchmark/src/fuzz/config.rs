//! CONFIG SET of the parameters that a server has, with values of their kind.
//!
//! CONFIG GET doesn't return a parameter's kind, but its value shows it: `yes`, a number, or one of
//! the words listed here. Other parameters get their own value, or some text.

use crate::control::Reply;

use super::forbidden;
use super::values::Values;

/// Words that parameters take.
const WORDS: &[(&str, &[&str])] = &[
    (
        "maxmemory-policy",
        &[
            "noeviction",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
        ],
    ),
    ("maxmemory", &["0", "0", "0", "64mb", "256mb", "1gb", "2000000k"]),
    ("appendfsync", &["always", "everysec", "no"]),
    ("notify-keyspace-events", &["", "KEA", "Elg$", "Kx", "AKE", "q"]),
    ("save", &["", "3600 1", "3600 1 300 100"]),
    ("latency-tracking-info-percentiles", &["", "50 99", "0 100 99.999", "101"]),
    ("io-threads", &["1", "2", "3", "4"]),
    ("list-max-listpack-size", &["-5", "-4", "-3", "-2", "-1", "0", "1", "128"]),
    ("list-max-ziplist-size", &["-5", "-2", "1", "7"]),
    ("list-compress-depth", &["0", "1", "2", "9"]),
    ("acl-pubsub-default", &["allchannels", "resetchannels"]),
    ("repl-diskless-load", &["disabled", "on-empty-db", "swapdb", "flush-before-load"]),
    ("propagation-error-behavior", &["ignore", "panic-on-replicas"]),
    ("shutdown-on-sigterm", &["default", "save", "nosave", "now", "force"]),
    ("log-format", &["legacy", "logfmt"]),
];

/// The parameters to set, with their first values.
#[derive(Clone, Debug, Default)]
pub struct Parameters(Vec<(Vec<u8>, Vec<u8>)>);

impl Parameters {
    /// Reads a reply of `CONFIG GET *`; parameters that are never set are left out.
    pub fn new(reply: &Reply) -> Parameters {
        let pairs = reply.items().chunks_exact(2);
        let pairs = pairs.map(|pair| (pair[0].text().to_vec(), pair[1].text().to_vec()));
        Parameters(pairs.filter(|(name, _)| forbidden::parameter(name).is_none()).collect())
    }

    /// A CONFIG SET of one to three parameters; none if the server has none.
    pub fn command(&self, values: &mut Values) -> Option<Vec<Vec<u8>>> {
        let mut args = vec![b"CONFIG".to_vec(), b"SET".to_vec()];
        let several = if values.chance(15.0) { 3 } else { 1 };
        for _ in 0..several {
            if self.0.is_empty() {
                return None;
            }
            let (name, first) = &self.0[values.below(self.0.len() as u32) as usize];
            args.extend([name.clone(), value(name, first, values)]);
        }
        Some(args)
    }
}

fn value(name: &[u8], first: &[u8], values: &mut Values) -> Vec<u8> {
    if values.chance(20.0) {
        return first.to_vec();
    }
    if let Some((_, words)) = WORDS.iter().find(|(known, _)| known.as_bytes() == name) {
        return values.pick(words).into();
    }
    let number = std::str::from_utf8(first).ok().and_then(|text| text.parse::<i64>().ok());
    match (first, number) {
        (b"yes" | b"no", _) => values.pick(&["yes", "no", "no", "yes", "maybe"]).into(),
        (_, Some(number)) => numeric(number, values),
        (_, None) => values.anything(),
    }
}

/// Near the number, small, or at a limit.
fn numeric(number: i64, values: &mut Values) -> Vec<u8> {
    let drawn = match values.below(6) {
        0 => number.saturating_mul(2),
        1 => number / 2,
        2 => number.saturating_add(1),
        3 => i64::from(values.below(10)),
        4 => i64::from(values.below(2000)),
        _ => return values.integer(""),
    };
    drawn.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipper::Types;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    fn parameters(pairs: &[&str]) -> Parameters {
        let texts = pairs.iter().map(|text| Reply::Text(Types::BULK, (*text).into()));
        Parameters::new(&Reply::Items(Types::ARRAY, texts.collect()))
    }

    #[test]
    fn values_are_of_the_kind_of_the_parameter() {
        let all = parameters(&["hz", "10", "port", "1", "lazy", "yes", "maxmemory-policy", "x"]);
        let rng = &mut SmallRng::seed_from_u64(1);
        let mut values = Values { rng, tag: None, group: "server", waits: false };
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let args = all.command(&mut values).unwrap();
            assert!(args.len().is_multiple_of(2) && args.len() >= 4);
            for pair in args[2..].chunks_exact(2) {
                let value = String::from_utf8(pair[1].clone()).unwrap();
                match &pair[0][..] {
                    b"hz" => assert!(value.parse::<i64>().is_ok(), "{value}"),
                    b"lazy" => assert!(["yes", "no", "maybe"].contains(&&value[..])),
                    b"maxmemory-policy" => drop(seen.insert(value)),
                    other => panic!("{other:?} is set"),
                }
            }
        }
        assert!(seen.len() > 8, "{seen:?}");
    }

    #[test]
    fn a_server_without_parameters_gets_none() {
        let rng = &mut SmallRng::seed_from_u64(1);
        let mut values = Values { rng, tag: None, group: "server", waits: false };
        assert_eq!(parameters(&[]).command(&mut values), None);
        assert_eq!(parameters(&["port", "1"]).command(&mut values), None);
    }
}
