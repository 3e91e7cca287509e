//! Scripts for generated EVAL commands: each uses two keys, which may have any type, and two arguments.

use weft_testkit::rng::Rng;

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
