//! Thin safe wrappers around the few system calls that several modules here need.
//!
//! Everything in this file may be called from a signal handler: no allocation, no
//! locks, no buffered I/O.

use std::ffi::{CStr, c_int, c_void};
use std::fmt::{self, Write};
use std::io;

/// A handler that gets the signal's number, its details and the interrupted context.
pub(crate) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Writes all of `bytes`, retrying when interrupted; gives up silently on errors, as there is no
/// place to report them.
pub(crate) fn write_all(fd: c_int, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: `bytes` is readable for the length given.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(0) => return,
            Ok(written) => bytes = &bytes[written.min(bytes.len())..],
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return,
        }
    }
}

/// Opens a file for appending, creating it if need be; `None` if that fails.
pub(crate) fn open_append(path: &CStr) -> Option<c_int> {
    const FLAGS: c_int = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: `path` is NUL-terminated, and the mode is passed as O_CREAT requires.
    let fd = unsafe { libc::open(path.as_ptr(), FLAGS, 0o644) };
    (fd >= 0).then_some(fd)
}

pub(crate) fn close(fd: c_int) {
    // SAFETY: closing is defined for every number. Callers pass descriptors that they
    // opened themselves and do not use afterwards.
    unsafe { libc::close(fd) };
}

pub(crate) fn errno() -> c_int {
    // SAFETY: the C library's errno is a valid, thread-local integer at all times.
    unsafe { *libc::__errno_location() }
}

/// Restores `errno` when dropped, as a signal handler must.
pub(crate) struct KeepErrno(c_int);

impl KeepErrno {
    pub(crate) fn new() -> Self {
        Self(errno())
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as in `errno`.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Seconds since the Unix epoch.
pub(crate) fn unix_seconds() -> i64 {
    // SAFETY: a null pointer is allowed and means "only return it".
    unsafe { libc::time(std::ptr::null_mut()) }
}

pub(crate) fn pid() -> c_int {
    // SAFETY: getpid has no preconditions.
    unsafe { libc::getpid() }
}

pub(crate) fn thread_id() -> c_int {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() }
}

/// Installs `handler` for `signal`.
pub(crate) fn set_handler(signal: c_int, handler: Handler, flags: c_int) -> io::Result<()> {
    set_action(signal, handler as usize, flags | libc::SA_SIGINFO)
}

pub(crate) fn ignore(signal: c_int) -> io::Result<()> {
    set_action(signal, libc::SIG_IGN, 0)
}

pub(crate) fn set_default(signal: c_int) -> io::Result<()> {
    set_action(signal, libc::SIG_DFL, 0)
}

fn set_action(signal: c_int, action: libc::sighandler_t, flags: c_int) -> io::Result<()> {
    // SAFETY: all-zero is a valid sigaction: default action, empty mask, no flags.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = action;
    new.sa_flags = flags;
    // SAFETY: `new` is initialized; the action is SIG_DFL, SIG_IGN or, from
    // `set_handler` with SA_SIGINFO, a function of the type that flag demands. A null
    // pointer for the old action is allowed.
    let status = unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An error as C's `strerror` words it, without the number that Rust appends.
pub(crate) fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Text built without allocation; what does not fit is dropped.
pub(crate) struct FixedText<const N: usize> {
    buffer: [u8; N],
    length: usize,
}

impl<const N: usize> FixedText<N> {
    pub(crate) fn new() -> Self {
        Self { buffer: [0; N], length: 0 }
    }

    pub(crate) fn format(arguments: fmt::Arguments<'_>) -> Self {
        let mut text = Self::new();
        // `write_str` below never fails.
        let _ = text.write_fmt(arguments);
        text
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl<const N: usize> Write for FixedText<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.len().min(N - self.length);
        self.buffer[self.length..self.length + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.length += fits;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_text_drops_what_does_not_fit() {
        let text = FixedText::<8>::format(format_args!("{}-{}", 12345, "abcdef"));
        assert_eq!(text.as_bytes(), b"12345-ab");
    }

    #[test]
    fn errors_read_as_in_c() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(describe(&error), "No such file or directory");
        assert_eq!(describe(&io::Error::other("plain")), "plain");
    }
}
