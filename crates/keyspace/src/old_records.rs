//! Records as they were before a script has changed them: see `undo`.

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::collections::HashMap;
use weft_types::Shared;

/// The database and name of a key, and its record; `None`: the key was absent.
type Old = (usize, Box<[u8]>, Option<Shared>);

/// The records of one database by name.
type ByName = HashMap<Box<[u8]>, Option<Shared>, RandomState>;

/// So many keys are found by comparing their names. Nearly every script changes fewer.
const FEW: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct OldRecords {
    few: SmallVec<[Old; FEW]>,
    /// The rest, by database.
    many: Vec<(usize, ByName)>,
}

impl OldRecords {
    /// The key `name` is about to change from `record`. Only its first change is kept; for others, `record` isn't called.
    pub(crate) fn keep(&mut self, db: usize, name: &[u8], record: impl FnOnce() -> Option<Shared>) {
        if self.few.iter().any(|(of, kept, _)| *of == db && **kept == *name) {
            return;
        }
        if self.few.len() < FEW {
            self.few.push((db, name.into(), record()));
            return;
        }
        let at = self.many.iter().position(|(of, _)| *of == db).unwrap_or_else(|| {
            self.many.push((db, ByName::default()));
            self.many.len() - 1
        });
        let kept = &mut self.many[at].1;
        if !kept.contains_key(name) {
            kept.insert(name.into(), record());
        }
    }

    /// Each key with its database and record.
    pub(crate) fn into_all(self) -> impl Iterator<Item = Old> {
        let many = self.many.into_iter();
        self.few.into_iter().chain(many.flat_map(|(db, names)| {
            names.into_iter().map(move |(name, record)| (db, name, record))
        }))
    }
}
