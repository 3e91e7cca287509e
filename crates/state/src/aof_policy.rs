//! The configuration of the append-only file, in the form that the writer thread uses.

use weft_config::{Config, Id};
use weft_persist::aof::{Ahead, Annotations};

/// When written units are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before the reply.
    Always,
    EverySecond,
    /// When the kernel decides to.
    Never,
}

/// The policy of the append-only file.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub sync: Sync,
    /// Skips syncs while a snapshot is written.
    pub pauses: bool,
    /// The least growth in percent that starts a rewrite; 0: rewrites don't start automatically.
    pub growth: u64,
    /// The size in bytes up to which rewrites don't start automatically.
    pub least: u64,
    pub annotations: Annotations,
    /// Writes zeros ahead of the data where that makes syncs cheaper.
    pub zeros: bool,
    /// A rewritten file begins with a snapshot in RDB format.
    pub snapshot: bool,
    /// A rewrite syncs its file at intervals while it writes.
    pub incremental: bool,
    pub compress: bool,
    /// Obsolete files are kept.
    pub keeps_files: bool,
}

impl Policy {
    pub fn of(config: &Config) -> Policy {
        Policy {
            sync: match config.word(Id::APPENDFSYNC) {
                "always" => Sync::Always,
                "no" => Sync::Never,
                _ => Sync::EverySecond,
            },
            pauses: config.bool(Id::NO_APPENDFSYNC_ON_REWRITE),
            growth: config.int(Id::AUTO_AOF_REWRITE_PERCENTAGE).unsigned_abs(),
            least: config.memory(Id::AUTO_AOF_REWRITE_MIN_SIZE),
            annotations: Annotations {
                timestamps: config.bool(Id::AOF_TIMESTAMP_ENABLED),
                checksums: config.bool(Id::AOF_CHECKSUM),
            },
            zeros: config.bool(Id::AOF_ZEROS_AHEAD),
            snapshot: config.bool(Id::AOF_USE_RDB_PREAMBLE),
            incremental: config.bool(Id::AOF_REWRITE_INCREMENTAL_FSYNC),
            compress: config.bool(Id::RDBCOMPRESSION),
            keeps_files: config.bool(Id::AOF_DISABLE_AUTO_GC),
        }
    }

    /// The zeros written ahead of the units. None if not every unit is synced, or if units have no
    /// checksums, since an incomplete unit could then not be recognized.
    pub fn ahead(&self) -> Option<Ahead> {
        let syncs_all = self.sync == Sync::Always && !self.pauses;
        (self.zeros && syncs_all && self.annotations.checksums).then(Ahead::default)
    }

    /// The growth from `then` to `now` bytes in percent, if it is enough for a rewrite.
    pub fn growth(&self, now: u64, then: u64) -> Option<u64> {
        let percent = now.saturating_mul(100) / then.max(1);
        let growth = percent.saturating_sub(100);
        (self.growth > 0 && now > self.least && growth >= self.growth).then_some(growth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_must_exceed_size_and_percentage() {
        let policy = Policy::of(&Config::default());
        let megabytes = |n: u64| n << 20;
        assert_eq!(policy.growth(megabytes(60), 1), None, "the file is too small");
        assert_eq!(policy.growth(megabytes(130), megabytes(66)), None);
        assert_eq!(policy.growth(megabytes(132), megabytes(66)), Some(100));
        assert!(policy.growth(megabytes(65), 0).is_some());
        assert_eq!(Policy { growth: 0, ..policy }.growth(megabytes(65), 0), None);
    }
}
