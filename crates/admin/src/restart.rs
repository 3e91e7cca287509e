//! The program takes its own place: DEBUG RESTART and DEBUG CRASH-AND-RECOVER.
//!
//! A process that executes its own program keeps its number, so whoever looks after it sees no end of
//! it. What it was called with is noted at the start, since the memory of its arguments becomes its
//! title, and the directory changes. Sockets and files close by themselves.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use weft_process::log_warning;

/// How the program was called.
#[derive(Debug)]
struct Call {
    program: PathBuf,
    /// Its name for itself, and what came behind that.
    words: Vec<OsString>,
    folder: PathBuf,
}

static CALL: OnceLock<Call> = OnceLock::new();

/// When the threads have ended, the program is to be executed again, so much later.
static WANTED: OnceLock<Duration> = OnceLock::new();

/// To be called first of all.
pub fn note_call() {
    let (Ok(program), Ok(folder)) = (std::env::current_exe(), std::env::current_dir()) else {
        // It can't be restarted; DEBUG says so.
        return;
    };
    let words = std::env::args_os().collect();
    let _ = CALL.set(Call { program, words, folder });
}

/// Whether [`again`] may succeed; if not, the log says why.
pub fn is_possible() -> bool {
    let found = CALL.get().is_some_and(|call| call.program.is_file());
    if !found {
        log_warning!("Can't restart: the program is not where it was");
    }
    found
}

/// Has [`again`] be called at the end of the server.
pub fn want(delay: Duration) {
    let _ = WANTED.set(delay);
}

/// How long to wait before [`again`], if that is wanted.
pub fn wanted() -> Option<Duration> {
    WANTED.get().copied()
}

/// Executes the program in the place of this process after `delay`, as it was called at first. Does
/// not return, unless that fails; the reason is in the log.
pub fn again(delay: Duration) {
    std::thread::sleep(delay);
    let Some(call) = CALL.get() else { return };
    let mut command = Command::new(&call.program);
    if let Some((name, words)) = call.words.split_first() {
        command.arg0(name).args(words);
    }
    let e = command.current_dir(&call.folder).exec();
    log_warning!("Can't restart: {e}");
}
