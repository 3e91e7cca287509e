//! Malformed commands: missing, duplicate, exchanged and broken arguments, or far too many.
//!
//! The encoding stays valid, as in the reference: this tests commands, not the protocol.

use super::values::Values;

/// Arguments of a command with far too many.
const MANY: u32 = 3000;

/// Makes one to three changes to a command. At least one argument is left.
pub fn malform(args: &mut Vec<Vec<u8>>, other: &[Vec<u8>], values: &mut Values) {
    for _ in 0..=values.below(3) {
        change(args, other, values);
    }
}

/// One change. `other` is another command, for words that belong elsewhere.
fn change(args: &mut Vec<Vec<u8>>, other: &[Vec<u8>], values: &mut Values) {
    let at = values.below(args.len() as u32) as usize;
    let another = values.below(args.len() as u32) as usize;
    match values.below(100) {
        0..15 if args.len() > 1 => drop(args.remove(at)),
        15..25 => args.truncate(at.max(1)),
        25..35 => args.insert(at, args[another].clone()),
        35..45 => args.swap(at, another),
        45..65 => args[at] = values.odd(),
        65..75 => args.insert(at + 1, values.odd()),
        75..85 if !other.is_empty() => {
            args[at] = other[values.below(other.len() as u32) as usize].clone();
        }
        85..90 => args.truncate(1),
        90..92 => {
            let more = values.below(MANY);
            let filler = args[another].get(..args[another].len().min(20)).unwrap_or(&[]).to_vec();
            args.extend((0..more).map(|_| filler.clone()));
        }
        92..94 => args[0] = values.odd(),
        _ => args.push(values.odd()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    fn malformed(seed: u64) -> Vec<Vec<u8>> {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let mut values = Values { rng, tag: None, group: "string", waits: false };
        let mut args = ["SET", "string:0", "a"].map(Vec::from).to_vec();
        malform(&mut args, &["GET".into()], &mut values);
        args
    }

    proptest! {
        #[test]
        fn something_is_left(seed: u64) {
            let args = malformed(seed);
            prop_assert!(!args.is_empty() && args.len() < 4 * MANY as usize);
            prop_assert_eq!(args, malformed(seed));
        }
    }
}
