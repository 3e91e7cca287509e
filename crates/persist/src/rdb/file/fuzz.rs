//! What the fuzz target `rdb_file` runs: bytes as a file. What is read is written again, and must
//! come back as the same; the check must find right what is loaded, and nothing else.

use super::{Counts, Loader, Saver, Terms, VersionCheck, check};
use crate::rdb::Form;
use crate::rdb::fuzz::content;
use std::collections::BTreeMap;
use weft_types::{Limits, Record};

/// Databases that there may be.
const DATABASES: usize = 16;

/// Everything in a file: by database and key the expiry and the value.
pub type Content = BTreeMap<(usize, Vec<u8>), (Option<i64>, Vec<Vec<u8>>)>;

/// Reads `data`.
///
/// # Panics
///
/// If what is promised of files does not hold.
pub fn run(data: &[u8]) {
    let found = check(data, 0, &mut |_: String| {});
    let Some(records) = load(data, VersionCheck::Relaxed) else { return };
    assert!(found.is_right, "what is loaded is right");
    let before = content_of(&records);
    for (version, compress) in [(80, true), (80, false), (11, false)] {
        let file = save(&records, Form { version, compress });
        let again = load(&file, VersionCheck::Relaxed).expect("our own");
        // Fields that expire have no older form.
        assert!(version < 80 || check(&file[..], 0, &mut |_: String| {}).is_right);
        assert_eq!(content_of(&again), before);
    }
}

/// All records of a file with their databases, if it is one; of two of the same key the first.
#[must_use]
pub fn load(data: &[u8], check: VersionCheck) -> Option<Vec<(usize, Record)>> {
    let limits = Limits::default();
    let terms = Terms { limits: &limits, clock: &|_, _| 0, over: None };
    let mut loader = Loader::open(data, check, DATABASES).ok()?;
    let (mut counts, mut records) = (Counts::default(), Vec::new());
    while let Some(piece) = loader.take(&terms).ok()? {
        let seen = |db, record| {
            records.push((db, record));
            true
        };
        piece.each(&terms, &mut counts, seen).ok()?;
    }
    assert_eq!(counts.loaded, records.len() as u64);
    let mut names = std::collections::BTreeSet::new();
    records.retain(|(db, record)| names.insert((*db, record.key().to_vec())));
    Some(records)
}

/// A file of these records.
#[must_use]
pub fn save(records: &[(usize, Record)], form: Form) -> Vec<u8> {
    let saver = Saver::begin(Vec::new(), form, true).expect("a vector takes everything");
    let mut lane = saver.lane();
    for (db, record) in records {
        lane.add(*db, record, None).expect("a vector takes everything");
    }
    lane.finish().expect("a vector takes everything");
    saver.finish().expect("a vector takes everything").0
}

/// What is in these records.
#[must_use]
pub fn content_of(records: &[(usize, Record)]) -> Content {
    let of = |(db, record): &(usize, Record)| {
        ((*db, record.key().to_vec()), (record.expiry(), content(record)))
    };
    records.iter().map(of).collect()
}
