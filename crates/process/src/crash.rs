//! The report of a crash.
//!
//! A crash report goes where the log goes: the signal or panic, the thread, the name of
//! the command it was running, program counter and stack pointer, and a backtrace. It
//! **never contains data**: no keys, values, arguments, or general registers, any
//! of which may hold them. Afterwards the signal takes its default action, so that
//! the exit status is right and a core file is written where these are enabled.
//!
//! **In a broken process** little can be trusted, so the report is written in order of
//! risk. First what needs only system calls and a fixed buffer. Then the raw return addresses,
//! which needs the unwinder. Then their names, which needs the allocator and the executable's debug
//! information, and can hang if the crash happened inside the allocator. An alarm set before the
//! risky part ends the process if it does, and a second crash inside the handler ends it at once.
//! The written part stays.
//!
//! **The stack may be what broke.** A handler on an exhausted stack cannot run, so
//! each thread gets a second one from [`install_thread`], with a guard page.
//!
//! **The current command** is one thread-local word, written by [`set_current_command`]
//! with a plain store when a command starts. It points at a name that lives for
//! ever, so a handler can always follow it.

mod alternate_stack;
mod panic;
mod report;
mod stacks;

pub use alternate_stack::{AlternateStack, install_thread};
pub use panic::{AfterPanic, install_panic_hook};
pub use stacks::log_stacks;

use crate::{log, log_warning, sys};
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

/// Signals that mean a bug.
const CRASHES: [c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// Seconds after which a report that makes no progress is given up.
const PATIENCE_SECONDS: u32 = 10;

/// Name and version of the program, for the report.
static PROGRAM: OnceLock<&'static str> = OnceLock::new();
/// The `crash-log-enabled` setting.
static ENABLED: AtomicBool = AtomicBool::new(true);
/// The thread that writes the report, [`NOBODY`], or [`REPORTED`].
static REPORTER: AtomicI32 = AtomicI32::new(NOBODY);
const NOBODY: i32 = 0;
/// A panic has been reported and the process is aborting.
const REPORTED: i32 = -1;
/// The signal to die of, should the alarm go off.
static CAUSE: AtomicI32 = AtomicI32::new(libc::SIGABRT);

thread_local! {
    /// Null, or the name of the command that this thread runs. Initialized at compile
    /// time and without destructor, so access is one plain memory access, also from a
    /// signal handler.
    static COMMAND: AtomicPtr<&'static str> = const { AtomicPtr::new(ptr::null_mut()) };
}

/// Notes which command this thread runs now. One relaxed store.
///
/// The name is passed by reference because one word can be stored at once and two
/// cannot; a literal works as `set_current_command(&"get")`.
#[inline]
pub fn set_current_command(name: &'static &'static str) {
    let name = ptr::from_ref(name).cast_mut();
    COMMAND.with(|command| command.store(name, Ordering::Relaxed));
}

/// Notes that this thread runs no command.
#[inline]
pub fn clear_current_command() {
    COMMAND.with(|command| command.store(ptr::null_mut(), Ordering::Relaxed));
}

/// [`install_thread`] for a thread that does without where that fails, with a word in the log.
pub fn second_stack() -> Option<AlternateStack> {
    install_thread().map_err(|e| log_warning!("No second stack for crashes: {e}")).ok()
}

/// The name of the command that this thread runs.
pub fn current_command() -> Option<&'static str> {
    let name = COMMAND.with(|command| command.load(Ordering::Relaxed));
    // SAFETY: COMMAND is null or came from a `&'static &'static str`.
    (!name.is_null()).then(|| unsafe { *name })
}

/// Installs the handlers. `program` is name and version, for the report. To be called
/// once at start, before [`install_thread`] on each thread, the main one included.
///
/// # Errors
/// Those of `sigaction`.
pub fn install(program: &'static str) -> io::Result<()> {
    let _ = PROGRAM.set(program);
    report::remember_modules();
    for signal in CRASHES {
        // NODEFER: a crash inside the handler must be noticed, not queued.
        sys::set_handler(signal, on_crash, libc::SA_ONSTACK | libc::SA_NODEFER)?;
    }
    Ok(())
}

/// Turns reports on or off. Off, a crash is what it would be without this module.
pub fn set_enabled(enabled: bool) {
    ENABLED.store(enabled, Ordering::Release);
}

extern "C" fn on_crash(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let me = sys::thread_id();
    let won = REPORTER.compare_exchange(NOBODY, me, Ordering::AcqRel, Ordering::Acquire);
    match won {
        Ok(_) if ENABLED.load(Ordering::Acquire) => {
            CAUSE.store(signal, Ordering::Release);
            // The handler's failure leaves the alarm's default action, which also ends
            // the process.
            let _ = sys::set_handler(libc::SIGALRM, on_alarm, libc::SA_ONSTACK);
            // SAFETY: alarm has no preconditions.
            unsafe { libc::alarm(PATIENCE_SECONDS) };
            // SAFETY: the kernel passes valid pointers to a handler with SA_SIGINFO.
            let crash = unsafe { report::Crash::from_handler(signal, info, context) };
            log::with_fd(|fd| report::write(fd, &crash));
            die(signal);
        }
        Ok(_) | Err(REPORTED) => die(signal),
        Err(reporter) if reporter == me => {
            let message = "Crashed while reporting a crash; giving up.";
            log::write_from_signal_handler(log::Level::Warning, message);
            die(signal);
        }
        // Another thread is writing the report and will end the process.
        Err(_) => loop {
            // SAFETY: pause has no preconditions.
            unsafe { libc::pause() };
        },
    }
}

extern "C" fn on_alarm(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    die(CAUSE.load(Ordering::Acquire));
}

/// Gives the signal its default action and sends it to this thread. Where it is not
/// blocked the process ends here, otherwise on return from the handler.
fn die(signal: c_int) {
    let _ = sys::set_default(signal);
    // SAFETY: raise has no preconditions.
    unsafe { libc::raise(signal) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_its_own_command() {
        assert_eq!(current_command(), None);
        set_current_command(&"get");
        std::thread::spawn(|| {
            assert_eq!(current_command(), None);
            set_current_command(&"set");
            assert_eq!(current_command(), Some("set"));
        })
        .join()
        .unwrap();
        assert_eq!(current_command(), Some("get"));
        clear_current_command();
        assert_eq!(current_command(), None);
    }
}
