//! The password of a server in the environment, where other users of the machine can't see it.

use std::env;

/// The variables that valkey-cli and redis-cli read.
pub const VARIABLES: [&str; 2] = ["VALKEYCLI_AUTH", "REDISCLI_AUTH"];

/// The password, if a variable holds it.
pub fn from_environment() -> Option<String> {
    VARIABLES.iter().find_map(|name| env::var(name).ok())
}
