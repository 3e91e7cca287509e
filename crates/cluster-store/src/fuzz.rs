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
