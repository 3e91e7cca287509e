//! Records as they were before a script has changed them: see `undo`.

use std::collections::HashMap;
use weft_types::Record;
use weft_types::value::duplicate;

/// By database and name; `None`: the key was absent.
#[derive(Debug, Default)]
pub(crate) struct OldRecords(pub(crate) HashMap<(usize, Box<[u8]>), Option<Record>>);

impl OldRecords {
    /// The key `name` is about to change from `record`. Only its first change is kept.
    pub(crate) fn keep(&mut self, db: usize, name: &[u8], record: Option<&Record>) {
        let copy = |record: &Record| {
            // No field is left out: none has expired at the beginning of time.
            duplicate(record, name, record.expiry(), record.clock(), i64::MIN)
        };
        self.0.entry((db, name.into())).or_insert_with(|| record.map(copy));
    }
}
