//! The fuzz target: runs commands on a keyspace without a server.
//!
//! The input is text with one command a line, quoted as on a command line. So seeds are readable,
//! and mutations stay close to valid commands. At the end, the target reads all remaining values
//! completely, which finds values that a command has corrupted.

use crate::testing::{Bench, find};
use std::cell::RefCell;
use weft_base::words;

/// Larger numbers ask for replies or values that fill the memory, such as SRANDMEMBER with a count
/// of minus a billion or SETRANGE at 500 MB.
const MAX_NUMBER: i64 = 10_000;

/// Unix time of the first command, in milliseconds.
const START_MS: i64 = 1_700_000_000_000;

/// The maximum number of lines to run.
const MAX_LINES: usize = 200;

/// Runs the commands in `data`.
///
/// # Panics
///
/// If a command panics or leaves a value that can't be read.
pub fn run(data: &[u8]) {
    BENCH.with_borrow_mut(|bench| run_lines(bench, data));
}

thread_local! {
    /// Created once, since that takes longer than most inputs. Every run leaves it empty.
    static BENCH: RefCell<Bench> = RefCell::new({
        let mut bench = Bench::new(START_MS);
        bench.settings.max_string = 1 << 20;
        bench
    });
}

fn run_lines(bench: &mut Bench, data: &[u8]) {
    set_time(bench, START_MS);
    bench.db = 0;
    for line in data.split(|byte| *byte == b'\n').take(MAX_LINES) {
        let Some(words) = words::split(line) else { continue };
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let Some(command) = find(&args) else { continue };
        if args.iter().any(|arg| is_huge(arg)) {
            continue;
        }
        let reply = bench.run_command(command, &args);
        assert!(reply.is_empty() || reply.ends_with(b"\r\n"), "a reply is complete");
        bench.context.set_time(bench.context.now_ms + 7);
        bench.context.free_removed();
    }
    // The time before all expiries: no key counts as expired, so none is hidden.
    set_time(bench, 0);
    for db in 0..16 {
        bench.db = db;
        if bench.run_words(&[b"DBSIZE"]) != b":0\r\n" {
            read_and_delete_all(bench);
            assert_eq!(bench.run_words(&[b"DBSIZE"]), b":0\r\n", "all keys were deleted");
        }
    }
    // The leak checker can't follow the pointers in payloads and slots.
    bench.context.free_removed();
    drop(bench.context.take_detached());
}

fn set_time(bench: &mut Bench, now_ms: i64) {
    bench.ks.forget_time();
    bench.context.set_time(now_ms);
}

/// Whether a word is a number that a command may take for an amount. Unix times are larger and
/// pass.
fn is_huge(word: &[u8]) -> bool {
    let number = weft_base::num::parse_i64(word);
    number.is_some_and(|n| n.unsigned_abs() > MAX_NUMBER as u64 && n.unsigned_abs() < 1_000_000_000)
        || number.is_some_and(|n| n < -MAX_NUMBER)
}

fn read_and_delete_all(bench: &mut Bench) {
    let keys = bench.run_words(&[b"KEYS", b"*"]);
    for key in bulk_strings(&keys) {
        bench.run_words(&[b"OBJECT", b"ENCODING", key]);
        let whole: &[&[&[u8]]] = &[
            &[b"GET", key],
            &[b"LRANGE", key, b"0", b"-1"],
            &[b"SMEMBERS", key],
            &[b"HGETALL", key],
            &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
            &[b"XRANGE", key, b"-", b"+"],
        ];
        let read = |words: &&&[&[u8]]| !bench.run_words(words).starts_with(b"-");
        assert_eq!(whole.iter().filter(read).count(), 1, "a key has one type");
        assert_eq!(bench.run_words(&[b"DEL", key]), b":1\r\n");
    }
}

/// The elements of an array of bulk strings.
fn bulk_strings(reply: &[u8]) -> Vec<&[u8]> {
    /// The number in a header, and the bytes after the header.
    fn header(reply: &[u8]) -> (usize, &[u8]) {
        let end = reply.iter().position(|b| *b == b'\r').expect("a header ends");
        let number = weft_base::num::parse_i64(&reply[1..end]).expect("a header has a number");
        (number as usize, &reply[end + 2..])
    }
    let (count, mut rest) = header(reply);
    let next = |_| {
        let (len, body) = header(rest);
        rest = &body[len + 2..];
        &body[..len]
    };
    (0..count).map(next).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn nonsense_and_expired_keys_are_ignored() {
        super::run(b"PSETEX gone 1 v\nGET gone\nPSETEX gone 1 v\nSET other 1\n");
        super::run(b"SET a 1\nRPUSH l a b \"\\x00\"\nnonsense\n\"\n\nZADD z 1 a nan b\nHSET h f v\nSADD s 1\nXADD x 1-1 f v\n");
    }
}
