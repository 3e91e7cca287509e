//! Signals that ask the server to stop.
//!
//! A handler can do next to nothing safely, so it notes the signal and makes a file
//! descriptor readable; the main event loop, which watches that descriptor, does
//! the rest. Two shortcuts are taken at once, in the handler:
//!
//! * A second SIGINT while the shutdown is under way means that an operator at a keyboard has lost
//!   patience: the process ends with status 1.
//! * While a data set is being loaded there is nothing to save: it ends with status 0.
//!
//! SIGHUP and SIGPIPE are ignored. A server started from a terminal must survive the
//! terminal, and a closed connection is an error code, not a reason to die.

use crate::log::{self, Level};
use crate::pidfile;
use crate::sys;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Why the server should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM: an orderly request, from an init system.
    Terminate,
    /// SIGINT: Ctrl-C.
    Interrupt,
}

/// The signal that asked to stop, or 0. It stays until the server changes its mind.
static PENDING: AtomicI32 = AtomicI32::new(0);
/// The descriptor to write to, or -1.
static WAKE_UP: AtomicI32 = AtomicI32::new(-1);
static LOADING: AtomicBool = AtomicBool::new(false);

/// The receiving end of SIGTERM and SIGINT.
#[derive(Debug)]
pub struct StopSignals {
    event: OwnedFd,
}

impl StopSignals {
    /// Installs the handlers. Signals go to the instance installed last.
    ///
    /// # Errors
    /// Those of `eventfd` and `sigaction`.
    pub fn install() -> io::Result<Self> {
        // SAFETY: eventfd takes plain integers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is open and has no other owner.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        WAKE_UP.store(event.as_raw_fd(), Ordering::Release);
        for signal in [libc::SIGTERM, libc::SIGINT] {
            sys::set_handler(signal, on_stop_signal, libc::SA_RESTART)?;
        }
        for signal in [libc::SIGHUP, libc::SIGPIPE] {
            sys::ignore(signal)?;
        }
        Ok(Self { event })
    }

    /// The signal that has asked to stop, if one has.
    pub fn pending(&self) -> Option<StopSignal> {
        match PENDING.load(Ordering::Acquire) {
            0 => None,
            libc::SIGINT => Some(StopSignal::Interrupt),
            _ => Some(StopSignal::Terminate),
        }
    }

    /// Forgets the request, when a shutdown was given up because the data could not be
    /// saved, and quiets the descriptor.
    pub fn clear(&self) {
        forget();
        self.acknowledge();
    }

    /// Quiets the descriptor; the request stays.
    pub fn acknowledge(&self) {
        let mut count = [0u8; 8];
        // SAFETY: `count` is writable for 8 bytes, what reading an eventfd takes. It is
        // non-blocking, so an error means that it is quiet already.
        unsafe { libc::read(self.event.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

/// Readable while a signal is pending; to be watched by an event loop.
impl AsFd for StopSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        let mine = self.event.as_raw_fd();
        // A later instance may have taken over; then this one has nothing to undo.
        let _ = WAKE_UP.compare_exchange(mine, -1, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Forgets the signal that has asked to stop: the server continues.
pub fn forget() {
    PENDING.store(0, Ordering::Release);
}

/// Says whether a data set is being loaded, so that a signal may end the process at once.
pub fn set_loading(loading: bool) {
    LOADING.store(loading, Ordering::Release);
}

extern "C" fn on_stop_signal(signal: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    let _errno = sys::KeepErrno::new();
    let earlier = PENDING.swap(signal, Ordering::AcqRel);
    if earlier != 0 && signal == libc::SIGINT {
        log::write_from_signal_handler(Level::Warning, "You insist... exiting now.");
        pidfile::unlink_held();
        // SAFETY: _exit has no preconditions and is safe in a signal handler.
        unsafe { libc::_exit(1) };
    }
    if LOADING.load(Ordering::Acquire) {
        let message = "Received shutdown signal during loading, exiting now.";
        log::write_from_signal_handler(Level::Warning, message);
        pidfile::unlink_held();
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    let message = match signal {
        libc::SIGINT => "Received SIGINT scheduling shutdown...",
        _ => "Received SIGTERM scheduling shutdown...",
    };
    log::write_from_signal_handler(Level::Warning, message);
    let fd = WAKE_UP.load(Ordering::Acquire);
    if fd >= 0 {
        sys::write_all(fd, &1u64.to_ne_bytes());
    }
}
/// Ends the process when it writes to a closed pipe, as programs such as cat do: for `weft-server --check-rdb FILE | head`.
///
/// # Errors
/// Those of `sigaction`.
pub fn end_at_closed_output() -> io::Result<()> {
    sys::set_default(libc::SIGPIPE)
}
