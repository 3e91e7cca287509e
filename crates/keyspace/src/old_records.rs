//! Records as they were before a script has changed them: see `undo`.

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::collections::HashMap;
use weft_types::Shared;

/// The name of a key. Most are short.
type Name = SmallVec<[u8; 32]>;

/// The database and name of a key, and its record; `None`: the key was absent.
type Old = (usize, Name, Option<Shared>);

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
        if self.is_one_of_few(db, name) {
            return;
        }
        if self.few.len() < FEW {
            self.few.push((db, Name::from_slice(name), record()));
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

    #[inline]
    fn is_one_of_few(&self, db: usize, name: &[u8]) -> bool {
        self.few.iter().any(|(of, kept, _)| *of == db && **kept == *name)
    }

    /// Whether the record of a key is kept.
    pub(crate) fn has(&self, db: usize, name: &[u8]) -> bool {
        self.is_one_of_few(db, name)
            || self.many.iter().any(|(of, names)| *of == db && names.contains_key(name))
    }

    /// Removes each key with its database and record.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Old> {
        let many = std::mem::take(&mut self.many).into_iter();
        self.few.drain(..).chain(many.flat_map(|(db, names)| {
            names.into_iter().map(move |(name, record)| (db, name.into_vec().into(), record))
        }))
    }
}
