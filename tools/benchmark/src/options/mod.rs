//! The command line: that of valkey-benchmark, with more options.
//!
//! Scripts that call valkey-benchmark or redis-benchmark must keep working, so its spelling holds.
//! `-h` is the host, and requests the short help only without a value; `--help` is the help. The
//! last value of a repeated option counts. The first word that isn't an option begins a command,
//! which takes all following words. Wrong use ends with status 1 and `Invalid option "X" or option
//! argument missing`. Unlike there, an invalid number is refused instead of being read as 0.

mod fuzz;
mod raw;
mod resolve;
mod short;
mod tls;

pub use fuzz::{Fuzz, Level};
use raw::COMMANDS;
pub use raw::{Raw, ReadFrom};
pub use resolve::{Amount, Options, Output, Target};
use short::{EXAMPLES, short_help};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use std::ffi::OsString;

use crate::suite;

/// The reason why there is nothing to run.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// The user requested this text: status 0.
    Print(String),
    /// Wrong use, in one or two lines for standard error: status 1.
    Wrong(String),
}

/// The second line of an error about an option.
const SEE_HELP: &str = "weft-benchmark -h shows examples, --help all options and tests";

/// Reads a command line without the program's name.
///
/// # Errors
/// If there is nothing to run: the user requested help, or an option is wrong.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Options, Stop> {
    let program = OsString::from("weft-benchmark");
    let args = std::iter::once(program).chain(args);
    let command = command().args_override_self(true).mut_args(|arg| {
        // The value of an option is the next word, even if it looks like an option.
        let takes_value = arg.get_action().takes_values() && !arg.is_positional();
        if takes_value { arg.allow_hyphen_values(true) } else { arg }
    });
    let matches = command.clone().try_get_matches_from(args);
    match matches.and_then(|matches| Raw::from_arg_matches(&matches)) {
        Ok(Raw { install_docs: Some(dir), .. }) => Err(install_docs(&dir)),
        Ok(raw) => Options::new(raw).map_err(Stop::Wrong),
        Err(error) => Err(explain(&error)),
    }
}

/// The options with their help: examples before them, commands and tests after them.
fn command() -> clap::Command {
    let tests = suite::list_of_tests();
    // Not a part of `about`, which is the NAME of the man page.
    let template = format!(
        "{{about-with-newline}}\n{EXAMPLES}\n{{usage-heading}} {{usage}}\n\n{{all-args}}{{after-help}}"
    );
    Raw::command()
        .help_template(template)
        .after_help(format!("{COMMANDS}\n\nTests of -t:\n{tests}"))
        .after_long_help(format!("{EXAMPLES}\n{COMMANDS}\n\nTests of -t:\n{tests}"))
}

/// Writes the man page and completions, and prints their paths.
fn install_docs(dir: &std::path::Path) -> Stop {
    match weft_manual::install(command(), dir) {
        Ok(paths) => {
            Stop::Print(paths.iter().map(|path| format!("{}\n", path.display())).collect())
        }
        Err(e) => Stop::Wrong(format!("{}: {e}", dir.display())),
    }
}

fn explain(error: &clap::Error) -> Stop {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(" "),
        _ => String::new(),
    };
    // clap shows the argument with the name of its value, "-n <REQUESTS>".
    let option = context(ContextKind::InvalidArg);
    let option = option.split([' ', '=']).next().unwrap_or_default().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Print(error.to_string()),
        // clap reports an option without its value as one with an empty value.
        ErrorKind::InvalidValue
            if option == "-h" && context(ContextKind::InvalidValue).is_empty() =>
        {
            Stop::Print(short_help())
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue
            if !context(ContextKind::InvalidValue).is_empty() =>
        {
            let value = context(ContextKind::InvalidValue);
            let why = std::error::Error::source(error).map_or(String::new(), |e| format!(": {e}"));
            Stop::Wrong(format!("Invalid value \"{value}\" of {option}{why}\n{SEE_HELP}"))
        }
        _ => {
            let nearest = context(ContextKind::SuggestedArg);
            let hint = match nearest.split([' ', '=']).next() {
                Some(nearest) if !nearest.is_empty() => format!("did you mean {nearest}? "),
                _ => String::new(),
            };
            Stop::Wrong(format!(
                "Invalid option \"{option}\" or option argument missing\n{hint}{SEE_HELP}"
            ))
        }
    }
}

#[cfg(test)]
mod tests;
