//! Records as they were before a script has changed them: see `undo`.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use weft_types::{Record, Shared};

/// The records of one database by name; `None`: the key was absent.
type ByName = HashMap<Box<[u8]>, Option<Shared>, RandomState>;

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
        kept.insert(name.into(), record.map(Shared::of));
    }

    /// Each key with its database and record.
    pub(crate) fn into_all(self) -> impl Iterator<Item = (usize, Box<[u8]>, Option<Shared>)> {
        self.0
            .into_iter()
            .flat_map(|(db, names)| names.into_iter().map(move |(name, record)| (db, name, record)))
    }
}
