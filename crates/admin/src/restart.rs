//! Restarting the program in the same process: DEBUG RESTART and DEBUG CRASH-AND-RECOVER.
//!
//! A process that executes its own program again keeps its process id, so its supervisor notices no
//! exit. The arguments and the directory are recorded at the start, because the title overwrites
//! the memory of the arguments, and the directory changes. Sockets and files are closed on exec.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use weft_process::log_warning;

/// The command line and directory of the start.
#[derive(Debug)]
struct Call {
    program: PathBuf,
    /// The program's name (argument 0) and its arguments.
    words: Vec<OsString>,
    folder: PathBuf,
}

static CALL: OnceLock<Call> = OnceLock::new();

/// The delay before the restart, if one is requested. It happens after all threads have ended.
static WANTED: OnceLock<Duration> = OnceLock::new();

/// Records the command line. Must be called before anything else.
pub fn note_call() {
    let (Ok(program), Ok(folder)) = (std::env::current_exe(), std::env::current_dir()) else {
        // Then a restart is impossible, which DEBUG reports.
        return;
    };
    let words = std::env::args_os().collect();
    let _ = CALL.set(Call { program, words, folder });
}

/// Whether [`again`] can work. Logs the reason if not.
pub fn is_possible() -> bool {
    let found = CALL.get().is_some_and(|call| call.program.is_file());
    if !found {
        log_warning!("Can't restart: the program file was not found");
    }
    found
}

/// Requests [`again`] after the server has stopped.
pub fn want(delay: Duration) {
    let _ = WANTED.set(delay);
}

/// The requested delay before [`again`], if a restart is requested.
pub fn wanted() -> Option<Duration> {
    WANTED.get().copied()
}

/// Executes the program in this process after `delay`, with the original command line. Returns only
/// on failure, after logging the reason.
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
