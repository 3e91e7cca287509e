//! Cargo, as a command of a task.

use std::env;
use std::process::Command;

/// Variables that describe the package of a program which cargo runs. The build script of ring reads them as its own: a build
/// below such a program would compile ring, and all that depends on it, again.
const OF_A_PACKAGE: [&str; 5] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_"];

/// The cargo that runs this task, with the environment of a shell.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let is_of_package = |text: &str| OF_A_PACKAGE.iter().any(|start| text.starts_with(start));
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}
