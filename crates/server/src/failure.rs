//! Telling why the server does not start, where somebody will look for it.
//!
//! An operator looks into the log file, somebody at a terminal at the terminal. Both are told, each
//! once: where there is no log file, the log is the terminal already.

use std::path::Path;
use weft_config::{Config, Id, LoadArgs, LoadError};
use weft_process::errors::Failure;
use weft_process::log::{self, Level};
use weft_process::log_warning;

/// Says why the server does not start, once the log is there.
pub fn tell(failure: &str, log_file: Option<&Path>) {
    for line in failure.lines() {
        log_warning!("{line}");
    }
    if log_file.is_some() || !log::enabled(Level::Warning) {
        eprintln!("{failure}");
    }
}

/// Says why the configuration can't be loaded; the log is wherever the parts of it that are right
/// put it.
pub fn tell_of_configuration(args: &LoadArgs, error: &LoadError) {
    eprintln!("{error}");
    let Some(file) = Config::log_file_of(args) else { return };
    // One that can't be written is what the error says, or the next thing that it will say.
    if log::set_file(Some(&file)).is_ok() {
        log_warning!("{}", error.to_string().trim());
    }
}

/// Refuses to serve without a protection that the configuration asks for.
///
/// # Errors
/// Names the directives, why they have no effect, and what allows to start all the same.
pub fn refuse_unprotected(config: &Config) -> Result<(), Failure> {
    let guards = config.unsupported_guards();
    if guards.is_empty() {
        return Ok(());
    }
    let lines = guards.iter().map(|(id, reason)| {
        format!("The directive '{}' protects, but this version does not have {reason}.", id.name())
    });
    let allow = Id::ALLOW_UNSUPPORTED_PROTECTION.name();
    let advice = format!("The server does not start unprotected; '{allow} yes' lets it.");
    Err(lines.chain([advice]).collect::<Vec<_>>().join("\n"))
}
