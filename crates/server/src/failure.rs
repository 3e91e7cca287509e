//! Reporting why the server does not start.
//!
//! An operator reads the log file, a user at a terminal reads stderr. The reason goes to both, once
//! each: without a log file, the log goes to the terminal already.

use std::path::Path;
use weft_config::{Config, Id, LoadArgs, LoadError};
use weft_process::errors::Failure;
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

/// Refuses to serve without a protection that the configuration asks for.
///
/// # Errors
/// The directives, why they have no effect, and the directive that allows an unprotected start.
pub fn refuse_unprotected(config: &Config) -> Result<(), Failure> {
    let guards = config.unsupported_guards();
    if guards.is_empty() {
        return Ok(());
    }
    let lines = guards.iter().map(|(id, reason)| {
        format!("Directive '{}' can't protect: this version does not have {reason}.", id.name())
    });
    let allow = Id::ALLOW_UNSUPPORTED_PROTECTION.name();
    let advice =
        format!("The server refuses to start unprotected. Set '{allow} yes' to start anyway.");
    Err(lines.chain([advice]).collect::<Vec<_>>().join("\n"))
}
