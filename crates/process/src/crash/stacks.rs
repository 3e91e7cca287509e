//! The stacks of all threads of a process that continues to run: for a watchdog.
//!
//! One thread after the other gets a signal. Its handler only follows the return addresses into a
//! fixed buffer; the watchdog's own thread finds names for them and logs, since that takes memory
//! and time. A thread that does not answer soon (the kernel keeps it in an uninterruptible call) is
//! passed over:
//!
//! ```text
//!  watchdog                                thread
//!  REQUEST = thread's id, signal ────────► handler: REQUEST from its id to BUSY, frames, DONE
//!  waits until DONE                        (finds another id: it came too late, does nothing)
//!  too long: REQUEST from the id to NOBODY
//! ```

use crate::sys::{self, KeepErrno};
use crate::{log, log_warning};
use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The signal; nothing else here uses it.
const SIGNAL: c_int = libc::SIGUSR2;
const MAX_FRAMES: usize = 64;
/// How long a thread may take to answer.
const PATIENCE: Duration = Duration::from_millis(200);

/// Whose stack is wanted: a thread's id, or one of the others.
static REQUEST: AtomicI32 = AtomicI32::new(NOBODY);
const NOBODY: i32 = 0;
const BUSY: i32 = -1;
const DONE: i32 = -2;

/// Return addresses, the handler's own first. Written by the thread that has made REQUEST busy,
/// read when it is done.
static FRAMES: [AtomicUsize; MAX_FRAMES] = [const { AtomicUsize::new(0) }; MAX_FRAMES];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Held by the collecting thread.
static COLLECTING: Mutex<()> = Mutex::new(());

extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    let _errno = KeepErrno::new();
    let me = sys::thread_id();
    if REQUEST.compare_exchange(me, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    let mut count = 0;
    // SAFETY: "unsynchronized" demands that no other code uses the `backtrace` crate meanwhile.
    // Only one thread is ever BUSY, the collecting thread does nothing until it is DONE, and a
    // crash that is reported at the same time ends the process.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            FRAMES[count].store(frame.ip() as usize, Ordering::Relaxed);
            count += 1;
            count < MAX_FRAMES
        });
    }
    COUNT.store(count, Ordering::Relaxed);
    REQUEST.store(DONE, Ordering::Release);
}

/// Logs the stacks of all threads but the calling one, as warnings.
///
/// # Errors
/// Those of `sigaction` and of reading `/proc/self/task`.
pub fn log_stacks() -> io::Result<()> {
    let _collecting = COLLECTING.lock().unwrap_or_else(|p| p.into_inner());
    sys::set_handler(SIGNAL, on_signal, libc::SA_RESTART | libc::SA_ONSTACK)?;
    // All of them before the names of any, for which files are read: the threads run meanwhile.
    let stacks: Vec<(Thread, Option<Vec<usize>>)> = threads()?
        .into_iter()
        .map(|thread| {
            let frames = if thread.takes_signals { frames_of(thread.id) } else { None };
            (thread, frames)
        })
        .collect();
    let mut text = String::from("\n------ STACK TRACE ------\n");
    for (thread, frames) in stacks {
        let _ = writeln!(text, "{} {}", thread.id, thread.name);
        match frames {
            Some(frames) => frames.iter().for_each(|ip| write_frame(&mut text, *ip)),
            None => text.push_str("(does not answer)\n"),
        }
        text.push('\n');
    }
    text.push_str("------ STACK TRACE DONE ------\n");
    if log::enabled(log::Level::Warning) {
        log::write_raw(text.as_bytes());
    }
    log_warning!("--------");
    Ok(())
}

/// Another thread of this process.
struct Thread {
    id: i32,
    name: String,
    takes_signals: bool,
}

/// All threads but the calling one, those that serve clients first.
fn threads() -> io::Result<Vec<Thread>> {
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        let id: i32 = task.file_name().to_string_lossy().parse().unwrap_or(NOBODY);
        if id == sys::thread_id() || id <= NOBODY {
            continue;
        }
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = blocked.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        let takes_signals = blocked.is_none_or(|mask| mask & (1 << (SIGNAL - 1)) == 0);
        all.push(Thread { id, name: name.trim().into(), takes_signals });
    }
    all.sort_by_key(|thread| !thread.name.starts_with("weft-io"));
    Ok(all)
}

/// The return addresses of a thread, if it answers.
fn frames_of(thread: i32) -> Option<Vec<usize>> {
    REQUEST.store(thread, Ordering::Release);
    // SAFETY: tgkill takes plain integers; a thread that has ended meanwhile is an error.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, sys::pid(), thread, SIGNAL) };
    let begin = Instant::now();
    let mut gives_up = sent != 0;
    loop {
        match REQUEST.load(Ordering::Acquire) {
            DONE => break,
            // It writes: that ends.
            BUSY => {}
            _ if gives_up || begin.elapsed() > PATIENCE => {
                let withdrawn =
                    REQUEST.compare_exchange(thread, NOBODY, Ordering::AcqRel, Ordering::Relaxed);
                if withdrawn.is_ok() {
                    return None;
                }
                gives_up = false;
            }
            _ => {}
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    REQUEST.store(NOBODY, Ordering::Relaxed);
    let count = COUNT.load(Ordering::Relaxed).min(MAX_FRAMES);
    Some(FRAMES[..count].iter().map(|frame| frame.load(Ordering::Relaxed)).collect())
}

fn write_frame(text: &mut String, ip: usize) {
    let mut found = false;
    // The call is before the address to which it returns.
    backtrace::resolve(ip.saturating_sub(1) as *mut c_void, |symbol| {
        found = true;
        let file = symbol.filename().and_then(|path| path.file_name()?.to_str());
        let _ = match (symbol.name(), file, symbol.lineno()) {
            (Some(name), Some(file), Some(line)) => writeln!(text, "{ip:#x} {name} {file}:{line}"),
            (Some(name), _, _) => writeln!(text, "{ip:#x} {name}"),
            (None, _, _) => writeln!(text, "{ip:#x} ?"),
        };
    });
    if !found {
        let _ = writeln!(text, "{ip:#x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[inline(never)]
    fn somewhere_to_be_found(wait: impl FnOnce()) {
        wait();
        std::hint::black_box(());
    }

    #[test]
    fn waiting_thread_is_found_and_continues() {
        sys::set_handler(SIGNAL, on_signal, libc::SA_RESTART).unwrap();
        let (go_on, wait) = channel::<()>();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            tell.send(sys::thread_id()).unwrap();
            somewhere_to_be_found(|| wait.recv().unwrap());
        });
        let id = told.recv().unwrap();
        let mut text = String::new();
        let begin = Instant::now();
        // It may not have got there yet.
        while !text.contains("somewhere_to_be_found") {
            assert!(begin.elapsed() < Duration::from_secs(30), "{text}");
            text.clear();
            frames_of(id).unwrap().iter().for_each(|ip| write_frame(&mut text, *ip));
        }
        go_on.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!(frames_of(id), None, "it has ended");
    }
}
