//! What several of the black-box tests share; the tests are in `tests/`, by feature.
//!
//! They talk to a server over sockets like any client, so the same tests run against a
//! reference by setting `WEFT_SERVER` to its binary, which shows whether a test asks for
//! what the reference does.

use std::env;
use std::str::FromStr;

/// The value of an environment variable, or `default` where it is not set.
///
/// # Panics
/// When it is set to something else than a `T`: a typo must not silently run the default.
pub fn env_or<T: FromStr>(name: &str, default: T) -> T {
    match env::var(name) {
        Err(_) => default,
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not understood")),
    }
}
