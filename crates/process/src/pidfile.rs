//! The file that names the process for init scripts.
//!
//! It goes with the process, however that ends: in `main`, on some thread in the middle of loading,
//! or in a signal handler. So its path is where all of them find it.

use crate::sys::describe;
use crate::{log_notice, sys};
use std::ffi::{CString, c_char};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The path of the file that goes with the process; null: there is none, or it has gone. The string
/// is never freed, since a signal handler may read it at any time.
static HELD: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// A pid file that this process wrote.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the process id and a line break into `path`, replacing its content. To be called
    /// after [`crate::daemon::daemonize`], which changes the id.
    ///
    /// # Errors
    /// Those of writing the file. A failure is also logged; the convention is to continue without a
    /// pid file.
    pub fn create(path: &Path) -> io::Result<Self> {
        fs::write(path, format!("{}\n", sys::pid())).inspect_err(|error| {
            log_notice!("Failed to write PID file: {}", describe(error));
        })?;
        // The directory may change before it is removed.
        Ok(Self { path: std::path::absolute(path)? })
    }

    /// Leaves the file to the process: the code that ends it calls [`remove_held`].
    pub fn hold(self) {
        // A path that was opened holds no NUL.
        if let Ok(path) = CString::new(self.path.into_os_string().into_vec()) {
            HELD.store(path.into_raw(), Ordering::Release);
        }
    }
}

/// Removes the file that the process holds, if there is one, before the process ends. That it may
/// be gone already is no error.
pub fn remove_held() {
    if !HELD.load(Ordering::Acquire).is_null() {
        log_notice!("Removing the pid file.");
        unlink_held();
    }
}

/// The same without a word, for a signal handler, too.
pub(crate) fn unlink_held() {
    let path = HELD.swap(ptr::null_mut(), Ordering::AcqRel);
    if !path.is_null() {
        // SAFETY: `path` comes from CString::into_raw in `hold` and is never freed, so it is a
        // string that ends with a NUL. unlink may be called by a signal handler.
        unsafe { libc::unlink(path) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_the_process_id_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.pid");
        fs::write(&path, "a longer text from an earlier run").unwrap();
        let file = PidFile::create(&path).unwrap();
        let expected = format!("{}\n", std::process::id());
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        file.hold();
        assert!(path.exists());
        remove_held();
        assert!(!path.exists());
        // Another process may have one of that name now.
        fs::write(&path, "2").unwrap();
        remove_held();
        assert!(path.exists());
    }

    #[test]
    fn reports_a_path_that_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let error = PidFile::create(&folder.path().join("missing/weft.pid")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
