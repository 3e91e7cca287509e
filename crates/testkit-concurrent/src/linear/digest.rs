//! Hashes that stand for values.

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use std::hash::{Hash, Hasher};

/// Two hashes in one pass over the value.
struct DoubleHasher(FoldHasher<'static>, FoldHasher<'static>);

impl Hasher for DoubleHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
        self.1.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// A hash of 128 bits stands for the value: a collision is less likely than a hardware fault.
pub(super) fn digest(of: &impl Hash) -> u128 {
    let hasher = |seed| FoldHasher::with_seed(seed, SharedSeed::global_fixed());
    let mut twice = DoubleHasher(hasher(1), hasher(2));
    of.hash(&mut twice);
    u128::from(twice.0.finish()) << 64 | u128::from(twice.1.finish())
}
