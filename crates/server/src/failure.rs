//! Reporting why the server does not start.
//!
//! An operator reads the log file, a user at a terminal reads stderr. The reason goes to both, once
//! each: without a log file, the log goes to the terminal already.

use std::path::Path;
use weft_config::{Config, LoadArgs, LoadError};
use weft_process::log::{self, Level};
use weft_process::log_warning;

/// Logs and prints why the server does not start. Call it after the log is set up.
pub fn tell(failure: &str, log_file: Option<&Path>) {
    for line in failure.lines() {
        log_warning!("{line}");
    }
    if log_file.is_some() || !log::enabled(Level::Warning) {
        eprintln!("{failure}");
    }
}

/// Prints why the configuration can't be loaded. Also logs it, if the valid part of the
/// configuration names a log file.
pub fn report_configuration_error(args: &LoadArgs, error: &LoadError) {
    eprintln!("{error}");
    let Some(file) = Config::log_file_of(args) else { return };
    // If the log file can't be written, `error` says so already, or the next start will.
    if log::set_file(Some(&file)).is_ok() {
        log_warning!("{}", error.to_string().trim());
    }
}
