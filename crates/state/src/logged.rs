//! Commands of the effect log in the form that files and the stream to replicas need.

use smallvec::SmallVec;
use weft_keyspace::log::{Entry, Target, Unit};
use weft_resp::Command;

/// An entry of the log.
#[derive(Debug)]
pub struct Logged<'a>(Entry<'a>);

impl Command for Logged<'_> {
    fn db(&self) -> usize {
        self.0.db()
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        self.0.append_to(out);
    }
}

/// Calls `append` with the commands of `unit` for that target; there may be none. Allocates only
/// for more than four.
#[inline]
pub fn with_commands<T>(
    unit: &Unit<'_>,
    target: Target,
    append: impl FnOnce(&[Logged<'_>]) -> T,
) -> T {
    if let Some(entry) = unit.only_entry().filter(|entry| entry.target().has(target)) {
        return append(&[Logged(entry)]);
    }
    let entries = unit.entries().filter(|entry| entry.target().has(target));
    append(&entries.map(Logged).collect::<SmallVec<[Logged<'_>; 4]>>())
}
