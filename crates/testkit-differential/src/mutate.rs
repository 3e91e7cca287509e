//! Makes requests invalid, as a faulty or hostile client would send them.
//!
//! A grammar describes valid requests only, and servers differ most in how they refuse invalid
//! ones. Each mutation breaks one thing. If several things are wrong, the order of a server's
//! checks decides about the error, and the comparison tests that order.

use super::values::BAD_INTS;
use weft_testkit::rng::Rng;

const ODD_WORDS: [&str; 14] = [
    "NX", "XX", "GT", "LT", "GET", "EX", "PX", "EXAT", "PXAT", "KEEPTTL", "PERSIST", "REPLACE",
    "FOO", "MATCH",
];

/// Suffixes that make a command unknown; the error repeats them.
const TAILS: [&[u8]; 4] = [b"x", b"\r\n", b"\xff", b" "];

/// The commands in which a number may be a lifetime.
const WITH_LIFETIME: [&[u8]; 12] = [
    b"SET",
    b"SETEX",
    b"PSETEX",
    b"GETEX",
    b"MSETEX",
    b"EXPIRE",
    b"PEXPIRE",
    b"EXPIREAT",
    b"PEXPIREAT",
    b"RESTORE",
    b"HEXPIRE",
    b"HSETEX",
];

/// The commands that make a string as long as the offset of a bit.
const WITH_OFFSET: [&[u8]; 2] = [b"SETBIT", b"BITFIELD"];

/// A shorter lifetime, in any unit, may end during the run.
const SHORT: i64 = 10_000_000;

const ATTEMPTS: usize = 8;

/// Breaks one thing about a command. Rarely leaves it unchanged, if every attempt would have given
/// a key a lifetime that ends during the run.
pub fn mutate(args: &mut Vec<Vec<u8>>, rng: &mut Rng) {
    for _ in 0..ATTEMPTS {
        let mut wrong = args.clone();
        break_one(&mut wrong, rng);
        if !may_expire_soon(&wrong) && !may_fill_memory(&wrong) {
            *args = wrong;
            return;
        }
    }
}

fn may_expire_soon(args: &[Vec<u8>]) -> bool {
    let is_short = |arg: &Vec<u8>| {
        let number = std::str::from_utf8(arg).ok().and_then(|text| text.parse::<i64>().ok());
        number.is_some_and(|n| (1..SHORT).contains(&n))
    };
    let name = args[0].to_ascii_uppercase();
    WITH_LIFETIME.contains(&&name[..]) && args[1..].iter().any(is_short)
}

/// Whether a number among the words might become a valid, large offset: the string becomes that
/// long.
fn may_fill_memory(args: &[Vec<u8>]) -> bool {
    let is_far = |arg: &Vec<u8>| {
        let digits = arg.strip_prefix(b"#").unwrap_or(arg);
        let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<i64>().ok());
        number.is_some_and(|n| (1_000_000..1 << 32).contains(&n))
    };
    let name = args[0].to_ascii_uppercase();
    WITH_OFFSET.contains(&&name[..]) && args[1..].iter().any(is_far)
}

fn break_one(args: &mut Vec<Vec<u8>>, rng: &mut Rng) {
    // Any argument after the name.
    let at = (args.len() > 1).then(|| 1 + rng.below(args.len() - 1));
    match (rng.below(11), at) {
        (0, _) => args.push(rng.pick(&ODD_WORDS).as_bytes().to_vec()),
        (1, _) => args.push(b"1".to_vec()),
        (2, Some(_)) => drop(args.pop()),
        (3, Some(at)) => drop(args.remove(at)),
        (4 | 5, Some(at)) => args[at] = rng.pick(&BAD_INTS).as_bytes().to_vec(),
        (6, Some(at)) => args[at] = rng.pick(&ODD_WORDS).as_bytes().to_vec(),
        (7, Some(at)) => args[at] = Vec::new(),
        (8, Some(at)) => args.insert(at, args[at].clone()),
        (9, Some(at)) => {
            let other = 1 + rng.below(args.len() - 1);
            args.swap(at, other);
        }
        (_, _) if rng.percent(20) => args[0].extend_from_slice(TAILS[rng.below(TAILS.len())]),
        (_, Some(at)) => args[at].push(*rng.pick(b"x1 \x7f")),
        (_, None) => args.push(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &str) -> Vec<Vec<u8>> {
        words.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn mutations_set_no_bit_at_large_offsets() {
        let mut rng = Rng::new(4);
        for _ in 0..20_000 {
            for words in ["SETBIT k 20 1", "BITFIELD k SET u8 #20 7"] {
                let mut args = command(words);
                mutate(&mut args, &mut rng);
                assert!(!may_fill_memory(&args), "{args:?}");
            }
        }
        assert!(may_fill_memory(&command("setbit k 536870912 1")));
        assert!(may_fill_memory(&command("BITFIELD k SET u8 #8388608 1")));
        assert!(!may_fill_memory(&command("GETBIT k 536870912")));
        assert!(!may_fill_memory(&command("SETBIT k 4294967296 1")));
    }

    #[test]
    fn no_key_gets_a_short_lifetime() {
        let mut rng = Rng::new(4);
        for _ in 0..10_000 {
            let mut args = command("SETEX k 20000000 5");
            mutate(&mut args, &mut rng);
            assert!(args == command("SETEX k 20000000 5") || !may_expire_soon(&args), "{args:?}");
        }
    }

    #[test]
    fn mutations_change_the_request() {
        let mut rng = Rng::new(5);
        let changed = (0..1000).filter(|_| {
            let mut args = command("GETRANGE k 0 -1");
            mutate(&mut args, &mut rng);
            args != command("GETRANGE k 0 -1")
        });
        assert!(changed.count() > 900);
    }

    #[test]
    fn command_without_arguments_can_be_mutated() {
        let mut rng = Rng::new(6);
        for _ in 0..1000 {
            let mut args = command("PING");
            mutate(&mut args, &mut rng);
            assert!(!args.is_empty());
        }
    }
}
