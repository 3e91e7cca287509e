//! Scripts and libraries for generated EVAL and FCALL commands: each uses two keys, which may have any type, and two
//! arguments.

use crate::rng::Rng;

/// Parts of scripts; `R` is the result that the last line returns.
const STEPS: [&str; 30] = [
    "R = redis.call('get', KEYS[1])",
    "R = redis.call('set', KEYS[1], 'v' .. ARGV[1])",
    "R = redis.call('incrby', KEYS[1], ARGV[2])",
    "R = redis.pcall('incrby', KEYS[2], ARGV[2])",
    "R = redis.call('append', KEYS[2], 'v' .. ARGV[1])",
    "R = redis.call('rpush', KEYS[1], ARGV[1], 'x', ARGV[2])",
    "R = redis.call('lrange', KEYS[1], 0, -1)",
    "R = redis.pcall('lpop', KEYS[2])",
    "R = redis.call('hset', KEYS[1], 'f', ARGV[1], ARGV[2], 'v')",
    "R = redis.pcall('hget', KEYS[2], 'f')",
    "R = redis.pcall('hlen', KEYS[1])",
    "R = redis.pcall('sadd', KEYS[2], ARGV[1], ARGV[2])",
    "R = redis.pcall('scard', KEYS[1])",
    "R = redis.pcall('zadd', KEYS[1], ARGV[2], ARGV[1])",
    "R = redis.pcall('zscore', KEYS[1], ARGV[1])",
    "R = redis.pcall('zrange', KEYS[2], 0, -1, 'withscores')",
    "R = redis.call('del', KEYS[2])",
    "R = redis.call('exists', KEYS[1], KEYS[2], 'undeclared')",
    "R = redis.call('rename', KEYS[1], KEYS[2])",
    "R = redis.call('type', KEYS[1])",
    "R = redis.call('expire', KEYS[1], 1000000)",
    "R = redis.call('persist', KEYS[1])",
    "R = redis.call('copy', KEYS[1], KEYS[2], 'replace')",
    "R = redis.call('set', 'undeclared' .. ARGV[2], 'v' .. ARGV[1])",
    "R = redis.call('get', 'undeclared' .. ARGV[2])",
    "R = redis.call('mget', KEYS[1], 'undeclared1', KEYS[2])",
    "redis.setresp(3)",
    "if R == false then R = redis.call('echo', ARGV[1]) end",
    "R = {pcall(redis.call, 'incr', KEYS[1])}",
    "R = {type(R), R, #KEYS, ARGV[1]}",
];

/// Ends of scripts.
const ENDS: [&str; 9] = [
    "return R",
    "return R",
    "return {R, true, false, 1.5}",
    "return {R, redis.status_reply('FINE')}",
    "return tostring(type(R) == 'table' and (R.err or R.ok or #R) or R)",
    "return redis.error_reply('MY error')",
    "error('last')",
    "return cjson.encode({ARGV[1] == KEYS[1], ARGV[2]})",
    "return {double = 2.5}",
];

/// A script of up to five steps.
pub fn script(rng: &mut Rng) -> Vec<u8> {
    let mut lines: Vec<&str> = vec!["local R"];
    for _ in 0..=rng.below(4) {
        lines.push(*rng.pick::<&'static str>(&STEPS));
    }
    lines.push(*rng.pick::<&'static str>(&ENDS));
    lines.join("\n").into_bytes()
}

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
