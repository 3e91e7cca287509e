//! The log.
//!
//! Three line formats, as log shippers for Redis-compatible servers know them:
//!
//! ```text
//! 4711:M 21 Nov 2026 01:25:27.058 * Ready to accept connections tcp
//! pid=4711 role=primary timestamp="2026-11-21T01:25:27.058+00:00" level=notice message="Ready ..."
//! {"pid":4711,"role":"primary","timestamp":"2026-11-21T01:25:27.058+00:00","level":"notice","message":"Ready ..."}
//! ```
//!
//! **No locks.** Every setting is one atomic word, and a line is put together in
//! memory and leaves in one `write`, which `O_APPEND` keeps whole. So a thread
//! that logs never waits for another, a setting can be changed at any time, and
//! threads may log whatever else they are doing. Write errors are ignored: a full disk
//! must not stop a server.
//!
//! **The file is opened for each line.** That costs some 10 us, on lines that are
//! rare, and in return moving the file away needs no signal and no cooperation.
//!
//! **Line breaks** in a message become blanks, and double quotes single ones in logfmt; JSON has
//! escapes for both: messages can contain names that clients chose, and a
//! client must not be able to forge log lines.
//!
//! A message is formatted only if its level is enabled:
//!
//! ```
//! weft_process::log_notice!("Accepted {}", "127.0.0.1:7000");
//! ```

mod line;

use crate::sys::{self, FixedText};
use std::ffi::{CString, c_char, c_int};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How much a message matters; the `loglevel` setting is the least that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// For developers.
    Debug = 0,
    /// Rarely useful, not overwhelming.
    Verbose = 1,
    /// Events that an operator wants to see.
    Notice = 2,
    /// Events that an operator must see.
    Warning = 3,
    /// As a setting: nothing is kept. Nothing is ever logged at it.
    Nothing = 4,
}

impl Level {
    /// The name in the configuration and in logfmt.
    pub fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Verbose => "verbose",
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Nothing => "nothing",
        }
    }

    const fn from_u8(value: u8) -> Self {
        match value {
            0 => Level::Debug,
            1 => Level::Verbose,
            2 => Level::Notice,
            3 => Level::Warning,
            _ => Level::Nothing,
        }
    }
}

/// The present role of the process, shown in every line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A server that takes writes: `M`, `primary`.
    Primary = 0,
    /// A server that follows another: `S`, `replica`.
    Replica = 1,
    /// A child that saves: `C`, `RDB/AOF`.
    Child = 2,
    /// A monitor: `X`, `sentinel`.
    Sentinel = 3,
}

impl Role {
    const fn from_u8(value: u8) -> Self {
        match value {
            1 => Role::Replica,
            2 => Role::Child,
            3 => Role::Sentinel,
            _ => Role::Primary,
        }
    }
}

/// The `log-format` setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// `pid:role time level message`
    Legacy = 0,
    /// `key=value` pairs
    Logfmt = 1,
    /// An object for each line
    Json = 2,
}

/// The `log-timestamp-format` setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Timestamp {
    /// `21 Nov 2026 01:25:27.058`, local time
    Legacy = 0,
    /// `2026-11-21T01:25:27.058+00:00`, local time with its offset
    Iso8601 = 1,
    /// `1795224327058`, since the Unix epoch
    Milliseconds = 2,
}

/// The `syslog-facility` setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facility {
    /// `user`
    User,
    /// `local0` to `local7`; higher numbers count as 7.
    Local(u8),
}

impl Facility {
    fn code(self) -> c_int {
        const LOCALS: [c_int; 8] = [
            libc::LOG_LOCAL0,
            libc::LOG_LOCAL1,
            libc::LOG_LOCAL2,
            libc::LOG_LOCAL3,
            libc::LOG_LOCAL4,
            libc::LOG_LOCAL5,
            libc::LOG_LOCAL6,
            libc::LOG_LOCAL7,
        ];
        match self {
            Facility::User => libc::LOG_USER,
            Facility::Local(n) => LOCALS[usize::from(n.min(7))],
        }
    }
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Notice as u8);
static ROLE: AtomicU8 = AtomicU8::new(Role::Primary as u8);
static FORMAT: AtomicU8 = AtomicU8::new(Format::Legacy as u8);
static TIMESTAMP: AtomicU8 = AtomicU8::new(Timestamp::Legacy as u8);
/// A leaked C string, or null for stdout.
static FILE: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());
/// The facility, or [`SYSLOG_OFF`].
static SYSLOG: AtomicI32 = AtomicI32::new(SYSLOG_OFF);
const SYSLOG_OFF: i32 = -1;

/// Sets the least level that is kept.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// The least level that is kept.
pub fn level() -> Level {
    Level::from_u8(LEVEL.load(Ordering::Relaxed))
}

/// Whether messages of this level are kept. One relaxed load.
#[inline]
pub fn enabled(level: Level) -> bool {
    level as u8 >= LEVEL.load(Ordering::Relaxed) && level != Level::Nothing
}

/// Sets what the process says it is.
pub fn set_role(role: Role) {
    ROLE.store(role as u8, Ordering::Relaxed);
}

/// Sets the format of lines.
pub fn set_format(format: Format) {
    FORMAT.store(format as u8, Ordering::Relaxed);
}

/// Sets the format of times.
pub fn set_timestamp(timestamp: Timestamp) {
    TIMESTAMP.store(timestamp as u8, Ordering::Relaxed);
}

/// Logs into this file from now on, or to stdout if `None`. The file is opened once at
/// once, so that a path that cannot work is found at start-up.
///
/// The path is kept for the life of the process (a line may be on its way to it), so
/// this is for start-up and the rare change, not for a loop.
///
/// # Errors
/// Those of opening the file for appending, or `InvalidInput` for a path with a NUL.
pub fn set_file(path: Option<&Path>) -> io::Result<()> {
    let pointer = match path {
        None => std::ptr::null_mut(),
        Some(path) => {
            let path = CString::new(path.as_os_str().as_bytes())?;
            let fd = sys::open_append(&path).ok_or_else(io::Error::last_os_error)?;
            sys::close(fd);
            path.into_raw()
        }
    };
    FILE.store(pointer, Ordering::Release);
    Ok(())
}

/// Sends every line to syslog too, under this name, or no longer if `None`. The name
/// is kept for the life of the process, as the C library demands.
///
/// # Errors
/// `InvalidInput` for a name with a NUL.
pub fn set_syslog(syslog: Option<(&str, Facility)>) -> io::Result<()> {
    let facility = match syslog {
        None => SYSLOG_OFF,
        Some((ident, facility)) => {
            let ident = CString::new(ident)?.into_raw();
            let options = libc::LOG_PID | libc::LOG_NDELAY | libc::LOG_NOWAIT;
            // SAFETY: `ident` is a NUL-terminated string that is never freed, which
            // openlog requires because it keeps the pointer.
            unsafe { libc::openlog(ident, options, facility.code()) };
            facility.code()
        }
    };
    SYSLOG.store(facility, Ordering::Release);
    Ok(())
}

/// Logs a message. Use the macros, which format enabled messages only.
pub fn write(level: Level, message: fmt::Arguments<'_>) {
    if !enabled(level) {
        return;
    }
    let message = message.to_string();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let format = match FORMAT.load(Ordering::Relaxed) {
        0 => Format::Legacy,
        1 => Format::Logfmt,
        _ => Format::Json,
    };
    let timestamp = match TIMESTAMP.load(Ordering::Relaxed) {
        0 => Timestamp::Legacy,
        1 => Timestamp::Iso8601,
        _ => Timestamp::Milliseconds,
    };
    let time = line::time(timestamp, now, line::local_time);
    let role = Role::from_u8(ROLE.load(Ordering::Relaxed));
    let line = line::line(format, sys::pid(), role, &time, level, &message);
    write_raw(line.as_bytes());
    write_to_syslog(level, message);
}

/// Writes bytes to where the log goes, without a prefix. Safe in signal handlers.
pub(crate) fn write_raw(bytes: &[u8]) {
    with_fd(|fd| sys::write_all(fd, bytes));
}

/// Opens where the log goes, runs `body` with it, and closes it again. Safe in signal
/// handlers as far as `body` is.
pub(crate) fn with_fd(body: impl FnOnce(c_int)) {
    let path = FILE.load(Ordering::Acquire);
    if path.is_null() {
        body(libc::STDOUT_FILENO);
        return;
    }
    // SAFETY: every non-null value of FILE came from `CString::into_raw` and is
    // never freed.
    let path = unsafe { std::ffi::CStr::from_ptr(path) };
    if let Some(fd) = sys::open_append(path) {
        body(fd);
        sys::close(fd);
    }
}

/// Logs one line from a signal handler: no time zone, no allocation, no locks.
pub(crate) fn write_from_signal_handler(level: Level, message: &str) {
    if enabled(level) {
        let line = FixedText::<512>::format(format_args!(
            "{}:signal-handler ({}) {message}\n",
            sys::pid(),
            sys::unix_seconds(),
        ));
        write_raw(line.as_bytes());
    }
}

fn write_to_syslog(level: Level, message: String) {
    let facility = SYSLOG.load(Ordering::Acquire);
    if facility == SYSLOG_OFF {
        return;
    }
    let priority = match level {
        Level::Debug => libc::LOG_DEBUG,
        Level::Verbose => libc::LOG_INFO,
        Level::Notice => libc::LOG_NOTICE,
        Level::Warning | Level::Nothing => libc::LOG_WARNING,
    };
    if let Ok(message) = CString::new(message.replace('\0', " ")) {
        // SAFETY: the format consumes exactly one string, which is NUL-terminated.
        unsafe { libc::syslog(facility | priority, c"%s".as_ptr(), message.as_ptr()) };
    }
}

/// Logs at [`Level::Debug`](crate::log::Level::Debug); arguments as for `format!`.
#[macro_export]
macro_rules! log_debug {
    ($($argument:tt)*) => { $crate::log_at!(Debug, $($argument)*) };
}

/// Logs at [`Level::Verbose`](crate::log::Level::Verbose); arguments as for `format!`.
#[macro_export]
macro_rules! log_verbose {
    ($($argument:tt)*) => { $crate::log_at!(Verbose, $($argument)*) };
}

/// Logs at [`Level::Notice`](crate::log::Level::Notice); arguments as for `format!`.
#[macro_export]
macro_rules! log_notice {
    ($($argument:tt)*) => { $crate::log_at!(Notice, $($argument)*) };
}

/// Logs at [`Level::Warning`](crate::log::Level::Warning); arguments as for `format!`.
#[macro_export]
macro_rules! log_warning {
    ($($argument:tt)*) => { $crate::log_at!(Warning, $($argument)*) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! log_at {
    ($level:ident, $($argument:tt)*) => {
        if $crate::log::enabled($crate::log::Level::$level) {
            $crate::log::write($crate::log::Level::$level, format_args!($($argument)*));
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facilities() {
        assert_eq!(Facility::User.code(), libc::LOG_USER);
        assert_eq!(Facility::Local(3).code(), libc::LOG_LOCAL3);
        assert_eq!(Facility::Local(200).code(), libc::LOG_LOCAL7);
    }
}
