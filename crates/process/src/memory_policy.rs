//! How the kernel treats this process's memory: which process it kills first when none is left, and
//! whether it uses huge pages.

use crate::log_warning;
use crate::sys::describe;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The range of the kernel's out-of-memory score.
const SCORES: std::ops::RangeInclusive<i32> = -1000..=1000;

/// The `oom-score-adj` setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomMode {
    /// Leave the score alone, or give back the one the process started with.
    No,
    /// Add the value to the score the process started with.
    Relative,
    /// Set the value.
    Absolute,
}

/// The process's standing with the out-of-memory killer.
#[derive(Debug)]
pub struct OomScore {
    path: PathBuf,
    /// The score before the first change, once there has been one.
    original: Option<i32>,
}

impl Default for OomScore {
    fn default() -> Self {
        Self::new()
    }
}

impl OomScore {
    /// Nothing changed so far.
    pub fn new() -> Self {
        Self::at(Path::new("/proc/self/oom_score_adj"))
    }

    fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), original: None }
    }

    /// Applies the setting with the value that belongs to the process's role; clamped
    /// to the kernel's range of -1000 (never kill) to 1000 (kill first).
    ///
    /// # Errors
    /// Those of the file in `/proc`, also logged; lowering a score needs a privilege.
    pub fn apply(&mut self, mode: OomMode, value: i32) -> io::Result<()> {
        if mode == OomMode::No && self.original.is_none() {
            return Ok(());
        }
        let original = match self.original {
            Some(original) => original,
            None => self.read().inspect_err(|error| {
                log_warning!("Unable to read oom_score_adj: {}", describe(error));
            })?,
        };
        self.original = Some(original);
        let score = match mode {
            OomMode::No => original,
            OomMode::Relative => original.saturating_add(value),
            OomMode::Absolute => value,
        };
        let score = score.clamp(*SCORES.start(), *SCORES.end());
        fs::write(&self.path, format!("{score}\n")).inspect_err(|error| {
            log_warning!("Unable to write oom_score_adj: {}", describe(error));
        })
    }

    fn read(&self) -> io::Result<i32> {
        let text = fs::read_to_string(&self.path)?;
        let score = text.trim().parse();
        score.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// `PR_THP_DISABLE_EXCEPT_ADVISED` of `linux/prctl.h` (Linux 6.18).
const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;

/// Keeps the kernel from backing this process with huge pages that it did not ask for, for
/// `disable-thp`. The memory of the keyspace does ask (docs/design/huge-pages.md).
///
/// # Errors
/// `EINVAL` on kernels before 6.18, which can only disable all of them or none.
pub fn disable_huge_pages() -> io::Result<()> {
    // SAFETY: this prctl takes plain integers, the unused ones 0 as it demands.
    match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, EXCEPT_ADVISED, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether huge pages are disabled for this process.
pub fn huge_pages_disabled() -> bool {
    // SAFETY: this prctl takes plain integers, the unused ones 0 as it demands.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) & 1 == 1 }
}

/// Whether the kernel hands out huge pages to processes that did not ask for them.
pub fn huge_pages_always() -> bool {
    fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|modes| modes.contains("[always]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_set_added_clamped_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oom_score_adj");
        fs::write(&path, "100\n").unwrap();
        let mut score = OomScore::at(&path);
        let mut after = |mode, value| {
            score.apply(mode, value).unwrap();
            fs::read_to_string(&path).unwrap().trim().parse::<i32>().unwrap()
        };
        fs::write(&path, "50\n").unwrap();
        assert_eq!(after(OomMode::No, 800), 50, "untouched so far");
        assert_eq!(after(OomMode::Relative, 200), 250);
        assert_eq!(after(OomMode::Relative, 800), 850, "relative to the start, not to the last");
        assert_eq!(after(OomMode::Relative, i32::MAX), 1000);
        assert_eq!(after(OomMode::Absolute, -2000), -1000);
        assert_eq!(after(OomMode::Absolute, 7), 7);
        assert_eq!(after(OomMode::No, 7), 50);
    }

    #[test]
    fn a_file_that_makes_no_sense_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut score = OomScore::at(&folder.path().join("missing"));
        assert!(score.apply(OomMode::Absolute, 1).is_err());
        assert!(score.apply(OomMode::No, 1).is_ok(), "nothing was changed, nothing to undo");
        fs::write(folder.path().join("junk"), "x").unwrap();
        assert!(OomScore::at(&folder.path().join("junk")).apply(OomMode::Relative, 1).is_err());
    }

    #[test]
    fn huge_pages_can_be_disabled() {
        disable_huge_pages().unwrap();
        assert!(huge_pages_disabled());
    }
}
