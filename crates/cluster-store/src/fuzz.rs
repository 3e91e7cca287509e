//! Bodies of the fuzz targets.

use crate::address::Address;
use crate::etcd::decode::{Decoder, Message};
use crate::etcd::lines::Lines;

/// Any text is an address or gets an error; an address that is written and read again is the same.
pub fn run_address(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Address::parse(text) {
        Ok(address) => assert_eq!(Address::parse(&address.to_string()), Ok(address)),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Any bytes are messages or errors, the same however they are divided; revisions ascend, and no batch is empty.
///
/// The first byte is the length of the pieces.
pub fn run_watch(data: &[u8]) {
    let Some((length, data)) = data.split_first() else { return };
    let in_pieces = messages(data.chunks(usize::from(*length).max(1)));
    assert_eq!(in_pieces, messages([data].into_iter()));
    for message in in_pieces.into_iter().flatten() {
        if let Message::Changes(batches) = message {
            assert!(batches.iter().all(|batch| !batch.changes.is_empty()));
            assert!(batches.is_sorted_by(|a, b| a.revision < b.revision));
        }
    }
}

fn messages<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Result<Message, String>> {
    let (mut lines, decoder) = (Lines::default(), Decoder::new("/w/"));
    let mut messages = Vec::new();
    for piece in pieces {
        lines.add(piece).expect("a short line");
        messages.extend(std::iter::from_fn(|| lines.take()).map(|line| decoder.message(&line)));
    }
    messages
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use weft_testkit::rng::Rng;

    /// The seeds of a fuzz target, and each many times with a byte changed or a piece cut out.
    fn run_mutations(target: &str, run: fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let mut rng = Rng::new(30);
        for seed in std::fs::read_dir(corpus).expect("a corpus") {
            let seed = std::fs::read(seed.expect("an entry").path()).expect("a file");
            run(&seed);
            for _ in 0..500 {
                let mut data = seed.clone();
                let at = rng.below(data.len());
                match rng.below(3) {
                    0 => data[at] = rng.next_u64() as u8,
                    1 => data.truncate(at),
                    _ => drop(data.drain(at..(at + 1 + rng.below(9)).min(seed.len()))),
                }
                run(&data);
            }
        }
    }

    #[test]
    fn parsers_survive_mutated_seeds() {
        run_mutations("cluster_store_address", super::run_address);
        run_mutations("cluster_store_watch", super::run_watch);
    }
}
