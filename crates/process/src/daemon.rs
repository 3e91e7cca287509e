//! Detaching from the terminal.
//!
//! The classic double fork: the first child leaves its parent's session and becomes
//! the leader of a new one, the second is no leader and so can never acquire a
//! controlling terminal again. Only the forking thread survives in a child, with
//! whatever locks others held locked for ever; so this must happen before any thread
//! is started, and is refused otherwise.

use std::ffi::c_int;
use std::io;

/// Moves to the background: a new session without terminal, and standard input, output and error
/// connected to `/dev/null`. The calling process ends with status 0; this returns in its
/// grandchild, with another process id.
///
/// # Errors
/// `ResourceBusy` if the process already has more than one thread; otherwise those of
/// `fork`, `setsid` and opening `/dev/null`, all before the terminal is given up.
pub fn daemonize() -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        let text = "cannot daemonize: threads are already running";
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
    }
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    fork_and_leave_parent()?;
    // SAFETY: setsid has no preconditions; it fails only in a group leader, which a
    // fresh child is not.
    check(unsafe { libc::setsid() })?;
    fork_and_leave_parent()?;
    for standard in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        use std::os::fd::AsRawFd;
        // SAFETY: `null` is open, and the standard descriptors have no owner, so replacing their
        // files is allowed.
        check(unsafe { libc::dup2(null.as_raw_fd(), standard) })?;
    }
    Ok(())
}

/// Forks; the parent ends, the child returns.
fn fork_and_leave_parent() -> io::Result<()> {
    // SAFETY: the caller made sure that this is the only thread, so the child inherits
    // a consistent process and may do anything.
    match check(unsafe { libc::fork() })? {
        0 => Ok(()),
        // SAFETY: _exit has no preconditions; it skips exit handlers and buffers, which
        // belong to the child now.
        _parent => unsafe { libc::_exit(0) },
    }
}

fn check(status: c_int) -> io::Result<c_int> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_when_threads_are_running() {
        // The test harness itself runs tests on threads.
        std::thread::spawn(|| {
            let error = daemonize().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        })
        .join()
        .unwrap();
    }
}
