//! Libraries of functions for generated FUNCTION and FCALL commands.

use super::script;
use weft_testkit::rng::Rng;

/// Flags of a function; its library fails to load with the last ones.
const FLAGS: [&str; 8] = [
    "",
    "",
    "",
    "'no-writes'",
    "'allow-oom', 'allow-stale'",
    "'no-cluster'",
    "'No-Writes', 'allow-cross-slot-keys'",
    "'no-writes', 'nosuch'",
];

/// Code that makes a library fail to load.
const FAULTS: [&str; 5] = [
    "redis.call('set', 'undeclared', 1)",
    "x = 1",
    "redis.register_function('f1')",
    "redis.register_function('f-1', function() end)",
    "local x = {",
];

/// A library with one function, which does the same as a script: each reply that lists functions has one order. One in
/// eight doesn't load.
pub fn library(rng: &mut Rng) -> Vec<u8> {
    let (name, function, flags) =
        (library_name(rng), function_name(rng), *rng.pick::<&'static str>(&FLAGS));
    let fault = if rng.below(8) == 0 { *rng.pick::<&'static str>(&FAULTS) } else { "" };
    let script = script(rng);
    let body = String::from_utf8_lossy(&script);
    format!(
        "#!lua name={name}\nredis.register_function{{function_name = '{function}', flags = \
         {{{flags}}}, description = 'of {name}', callback = function(KEYS, ARGV)\n{body}\nend}}\n\
         {fault}"
    )
    .into_bytes()
}

pub fn library_name(rng: &mut Rng) -> &'static str {
    rng.pick::<&'static str>(&["l0", "l0", "l1", "l2", "L0"])
}

pub fn function_name(rng: &mut Rng) -> &'static str {
    rng.pick::<&'static str>(&["f0", "f0", "f1", "f1", "f2", "F0"])
}
