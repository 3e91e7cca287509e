//! Reports of panics.
//!
//! A panic is a bug, reported like a crash. Its message needs care: a literal is ours, but a
//! formatted one may quote what a client sent (`assert_eq!` prints both sides). So of formatted
//! messages only those are shown that begin like the standard library's own and are known to
//! continue with numbers, and only the part that cannot contain a value. For all others the place
//! in the source must do.

use super::{NOBODY, REPORTED, REPORTER, report};
use crate::log;
use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;
use std::sync::atomic::Ordering;

/// The action after a panic was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterPanic {
    /// The process aborts. Whatever the thread was changing may be half done.
    Abort,
    /// The thread unwinds, and the code that catches it decides.
    Unwind,
}

/// Installs the hook that reports panics on all threads, in place of the standard one.
pub fn install_panic_hook(after: AfterPanic) {
    std::panic::set_hook(Box::new(move |info| {
        write_report(info);
        match after {
            AfterPanic::Unwind => {}
            AfterPanic::Abort => {
                // The abort's signal should not be reported once more.
                let _ = REPORTER.compare_exchange(
                    NOBODY,
                    REPORTED,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                std::process::abort();
            }
        }
    }));
}

fn write_report(info: &PanicHookInfo<'_>) {
    // The standard library's own, which unlike the crash handler's may run on several
    // threads at once.
    let trace = Backtrace::force_capture();
    let payload = info.payload();
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(literal), _) => *literal,
        (None, Some(formatted)) => without_data(formatted),
        (None, None) => "(not a text)",
    };
    log::with_fd(|fd| {
        report::begin(fd);
        report::put(fd, format_args!("{} panicked: {message}\n", report::program()));
        if let Some(place) = info.location() {
            report::put(fd, format_args!("Place: {}:{}\n", place.file(), place.line()));
        }
        report::write_thread(fd);
        report::put(fd, format_args!("\n------ STACK TRACE ------\n"));
        crate::sys::write_all(fd, trace.to_string().as_bytes());
        report::put(fd, format_args!("------ STACK TRACE DONE ------\n"));
        report::end(fd);
    });
}

/// How formatted messages begin that can be shown, and what ends the part that can.
const HARMLESS: [(&str, &[char]); 6] = [
    ("index out of bounds: ", &['\n']),
    ("range start index ", &['\n']),
    ("range end index ", &['\n']),
    ("slice index starts at ", &['\n']),
    ("attempt to ", &['\n']),
    // Both sides follow on lines of their own, a message of the caller's after a colon.
    ("assertion `", &['\n', ':']),
];

const UNWRAP: &str = "called `Result::unwrap()` on an `Err` value";

/// The part of a formatted message that cannot hold data.
fn without_data(message: &str) -> &str {
    let known = HARMLESS.iter().find(|(start, _)| message.starts_with(start));
    match known {
        Some((_, ends)) => message.split(*ends).next().unwrap_or(""),
        // The error itself follows.
        None if message.starts_with(UNWRAP) => UNWRAP,
        None => "(the message is left out because it may hold data)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_left_out() {
        for message in [
            "index out of bounds: the len is 3 but the index is 5",
            "range end index 9 out of range for slice of length 3",
            "attempt to subtract with overflow",
        ] {
            assert_eq!(without_data(message), message);
        }
        for (message, kept) in [
            (
                "assertion `left == right` failed\n  left: 1\n right: 2",
                "assertion `left == right` failed",
            ),
            (
                "assertion `left == right` failed: key secret\n  left: 1",
                "assertion `left == right` failed",
            ),
            (
                "called `Result::unwrap()` on an `Err` value: secret",
                "called `Result::unwrap()` on an `Err` value",
            ),
        ] {
            assert_eq!(without_data(message), kept);
        }
        for message in ["no such key secret", "byte index 1 is not a char boundary in `secret`", ""]
        {
            assert!(!without_data(message).contains("secret"));
        }
    }
}
