//! Geo commands: sorted sets whose scores are places on the earth.
//!
//! | file | holds |
//! |---|---|
//! | [`add`] | GEOADD |
//! | [`read`] | GEOPOS, GEODIST, GEOHASH |
//! | [`search`] | GEOSEARCH, GEOSEARCHSTORE, and the older GEORADIUS family |
//! | [`request`] | the arguments of a search |
//! | [`cell`] | places as scores, and map cells |
//! | [`shape`] | distances and search shapes |
//! | [`order`] | the order of the results |

mod add;
mod cell;
mod order;
mod read;
mod request;
mod search;
mod shape;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::registry::Command;
use cell::Place;
use weft_resp::Reply;
use weft_types::zset::View;

/// The commands of this group.
pub const COMMANDS: &[&Command] = &[
    &add::GEOADD,
    &read::GEODIST,
    &read::GEOHASH,
    &read::GEOPOS,
    &search::GEORADIUS,
    &search::GEORADIUS_RO,
    &search::GEORADIUSBYMEMBER,
    &search::GEORADIUSBYMEMBER_RO,
    &search::GEOSEARCH,
    &search::GEOSEARCHSTORE,
];

const BAD_UNIT: Error = Error::new("ERR unsupported unit provided. please use M, KM, FT, MI");

/// The length of a unit in metres.
fn unit(name: &[u8]) -> Result<f64, Error> {
    let is = |unit: &str| name.eq_ignore_ascii_case(unit.as_bytes());
    match () {
        () if is("m") => Ok(1.0),
        () if is("km") => Ok(1000.0),
        () if is("ft") => Ok(0.3048),
        () if is("mi") => Ok(1609.34),
        () => Err(BAD_UNIT),
    }
}

/// The place of a member of a set.
fn member_place(set: View<'_>, member: &[u8]) -> Option<Place> {
    set.score(member).map(Place::of_score)
}

/// Writes a place: each coordinate with 17 digits after the point, without trailing zeros.
fn write_coordinates(reply: &mut Reply, place: Place) {
    use std::io::Write;
    reply.array(2);
    for degrees in [place.lon, place.lat] {
        // Sign, three digits, point, 17 digits.
        let mut text = [0u8; 32];
        let mut room = &mut text[..];
        write!(room, "{degrees:.17}").expect("degrees have three digits");
        let unused = room.len();
        let len = text.len() - unused;
        let zeros = text[..len].iter().rev().take_while(|digit| **digit == b'0').count();
        let len = len - zeros - usize::from(zeros == 17);
        let text = std::str::from_utf8(&text[..len]).expect("digits");
        reply.double(if text == "-0" { "0" } else { text });
    }
}

/// Writes a distance with four digits after the point.
fn write_distance(reply: &mut Reply, distance: f64) {
    let tenths = (distance * 10_000.0).round_ties_even() as i64;
    let (whole, rest) = (tenths / 10_000, tenths % 10_000);
    let mut text = [0u8; 32];
    let len = {
        use std::io::Write;
        let mut room = &mut text[..];
        write!(room, "{whole}.{rest:04}").expect("a number of 64 bits has 19 digits");
        32 - room.len()
    };
    reply.bulk(&text[..len]);
}
