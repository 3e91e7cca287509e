//! Records as they were before a script has changed them: see `undo`.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use weft_types::Record;
use weft_types::value::duplicate;

/// The records of one database by name; `None`: the key was absent.
type ByName = HashMap<Box<[u8]>, Option<Record>, RandomState>;

/// By database. Nearly every script uses one.
#[derive(Debug, Default)]
pub(crate) struct OldRecords(Vec<(usize, ByName)>);

impl OldRecords {
    /// The key `name` is about to change from `record`. Only its first change is kept.
    pub(crate) fn keep(&mut self, db: usize, name: &[u8], record: Option<&Record>) {
        let at = self.0.iter().position(|(of, _)| *of == db).unwrap_or_else(|| {
            self.0.push((db, ByName::default()));
            self.0.len() - 1
        });
        let kept = &mut self.0[at].1;
        if kept.contains_key(name) {
            return;
        }
        // No field is left out: none has expired at the beginning of time.
        let copy =
            |record: &Record| duplicate(record, name, record.expiry(), record.clock(), i64::MIN);
        kept.insert(name.into(), record.map(copy));
    }

    /// Each key with its database and record.
    pub(crate) fn into_all(self) -> impl Iterator<Item = (usize, Box<[u8]>, Option<Record>)> {
        self.0
            .into_iter()
            .flat_map(|(db, names)| names.into_iter().map(move |(name, record)| (db, name, record)))
    }
}
