//! Body of the fuzz target `rdb_file`: the input is a file. The loaded records are saved and loaded
//! again, and must not differ. The check must accept every file that loads.

use super::{Counts, Loader, Saver, Terms, VersionCheck, check};
use crate::rdb::Form;
use crate::rdb::fuzz::content;
use std::collections::BTreeMap;
use weft_types::{Limits, Record};

/// Number of databases.
const DATABASES: usize = 16;

/// The content of a file: expiry and value by database and key.
pub type Content = BTreeMap<(usize, Vec<u8>), (Option<i64>, Vec<Vec<u8>>)>;

/// Runs `data`.
///
/// # Panics
///
/// One of these properties is violated.
pub fn run(data: &[u8]) {
    let found = check(data, 0, &mut |_: String| {});
    let Some(records) = load(data, VersionCheck::Relaxed) else { return };
    assert!(found.is_right, "a file that loads is valid");
    let before = content_of(&records);
    for (version, compress) in [(80, true), (80, false), (11, false)] {
        let file = save(&records, Form { version, compress });
        let again = load(&file, VersionCheck::Relaxed).expect("our own");
        // Older versions have no form for expiring fields.
        assert!(version < 80 || check(&file[..], 0, &mut |_: String| {}).is_right);
        assert_eq!(content_of(&again), before);
    }
}

/// All records of a file with their databases, if it is valid; the first record for each key.
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

/// Saves these records to a file.
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

/// The content of these records.
#[must_use]
pub fn content_of(records: &[(usize, Record)]) -> Content {
    let of = |(db, record): &(usize, Record)| {
        ((*db, record.key().to_vec()), (record.expiry(), content(record)))
    };
    records.iter().map(of).collect()
}
