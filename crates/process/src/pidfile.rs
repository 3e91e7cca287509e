//! The file that tells init scripts which process to stop.

use crate::sys::describe;
use crate::{log_notice, sys};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A pid file that this process wrote.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the process id and a line break into `path`, replacing what was there.
    /// To be called after [`crate::daemon::daemonize`], which changes the id.
    ///
    /// # Errors
    /// Those of writing the file. A failure is also logged; the convention is to go on
    /// without a pid file.
    pub fn create(path: &Path) -> io::Result<Self> {
        fs::write(path, format!("{}\n", sys::pid())).inspect_err(|error| {
            log_notice!("Failed to write PID file: {}", describe(error));
        })?;
        Ok(Self { path: path.to_owned() })
    }

    /// Removes the file, at shutdown. That it may be gone already is no error.
    pub fn remove(self) {
        log_notice!("Removing the pid file.");
        let _ = fs::remove_file(&self.path);
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
        file.remove();
        assert!(!path.exists());
    }

    #[test]
    fn reports_a_path_that_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let error = PidFile::create(&folder.path().join("missing/weft.pid")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
