//! Properties that hold for any text as a configuration, for the fuzzer.

use std::path::Path;
use std::sync::Arc;

use crate::config::Config;
use crate::files::NoFiles;

/// Loads `data` as a file, without touching any other file. If it loads, its
/// REWRITE must load as well and give the same answers.
///
/// # Panics
/// When that does not hold.
pub fn fuzz_parse(data: &[u8]) {
    let name = Path::new("fuzz.conf");
    let Ok(config) = Config::parse(name, data, Arc::new(NoFiles)) else {
        return;
    };
    let rewritten = config.rewritten(data);
    let again = match Config::parse(name, &rewritten, Arc::new(NoFiles)) {
        Ok(again) => again,
        Err(error) => panic!("{error}\n{}", String::from_utf8_lossy(&rewritten)),
    };
    assert_eq!(config.get(&[b"*"]), again.get(&[b"*"]));
    assert_eq!(again.rewritten(&rewritten), rewritten, "REWRITE twice is REWRITE once");
}
