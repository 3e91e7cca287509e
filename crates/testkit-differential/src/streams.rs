//! Ids of stream entries.
//!
//! Ids must ascend, and this generator doesn't know the last one. So most new ids leave the
//! sequence number to the server (`1000-*`), with few times that recur. A time far ahead ends a
//! stream's ascent until its key is deleted. No id has the server's own time: `*` is only sent if
//! the last id is far ahead, so both servers count on from it.

use weft_testkit::rng::Rng;

/// Far ahead of any clock.
const FAR: &str = "99999999999999";

/// The time of an id.
fn time(rng: &mut Rng) -> String {
    match rng.below(40) {
        0 => FAR.to_string(),
        1 => rng.pick(&["0", "7", "18446744073709551615", "9223372036854775808"]).to_string(),
        2..6 => (1000 + 40 * rng.below(8)).to_string(),
        6..14 => (1000 + rng.below(40)).to_string(),
        _ => (1000 + rng.below(4)).to_string(),
    }
}

/// An invalid or unusual id.
fn odd(rng: &mut Rng) -> Vec<u8> {
    rng.pick(&[
        "0-0",
        "0",
        "-",
        "+",
        "",
        "abc",
        "1000-",
        "-1",
        "1000-x",
        " 1000-1",
        "1000-01",
        "1000--1",
        "1000--01",
        "+1000-3",
        "1000-1-1",
        "18446744073709551616",
        "1000-18446744073709551615",
        "18446744073709551615-18446744073709551615",
        "1000-**",
        "*-1",
        "$",
        ">",
        "(5",
        "1e3",
    ])
    .as_bytes()
    .to_vec()
}

/// An id for XADD.
pub fn new_id(rng: &mut Rng) -> Vec<u8> {
    match rng.below(40) {
        0 => odd(rng),
        1..4 => entry_id(rng),
        4 => time(rng).into_bytes(),
        _ => format!("{}-*", time(rng)).into_bytes(),
    }
}

/// An id that an entry may have.
pub fn entry_id(rng: &mut Rng) -> Vec<u8> {
    match rng.below(40) {
        0 => odd(rng),
        1..5 => time(rng).into_bytes(),
        5..10 => format!("{}-{}", time(rng), rng.below(120)).into_bytes(),
        _ => format!("{}-{}", time(rng), rng.below(12)).into_bytes(),
    }
}

/// An end of a range of ids.
pub fn end(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0..3 => b"-".to_vec(),
        3..6 => b"+".to_vec(),
        6..8 => [b"(".to_vec(), entry_id(rng)].concat(),
        _ => entry_id(rng),
    }
}
