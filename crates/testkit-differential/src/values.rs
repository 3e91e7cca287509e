//! Random arguments: few keys, boundary numbers, unusual strings.
//!
//! Uniformly random arguments are of little use: two random keys are never equal, nor are two
//! random strings. So every kind draws from a small pool of boundary values (the length at which an
//! encoding changes, shared integers, the largest number, the empty string, a byte that isn't
//! text), with a few ordinary ones.

use super::{hyperloglogs, payloads, streams};
use weft_testkit::rng::Rng;

/// A kind of argument, as the tables name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `key`: one of [`KEYS`].
    Key,
    /// `lcskey`: one of three keys with short strings only, since LCS is quadratic.
    LcsKey,
    /// `dna`: a short string over three letters.
    Dna,
    /// `bitkey`: mostly one of four keys that hold bit arrays if they exist.
    BitKey,
    /// `bitstring`: few set or few clear bits, of lengths around those at which storage changes.
    BitString,
    /// `bitat`: the offset of a bit, small or out of range.
    BitAt,
    /// `bitindex`: an end of a range of bits or bytes.
    BitIndex,
    /// `bittype`: the type of an integer in a bit array.
    BitType,
    /// `fieldat`: the offset of such an integer, also in units of integers.
    FieldAt,
    /// `largekey`: one of three keys that hold large strings if they exist.
    LargeKey,
    /// `largeat`: an offset near the end of a piece of a large string.
    LargeAt,
    /// `largebit`: the same for a bit.
    LargeBit,
    /// `largepart`: a part of a large string, or a whole one.
    LargePart,
    /// `value`: any string.
    Value,
    /// `int`: an integer, mostly small.
    Int,
    /// `float`: a decimal number, or an invalid one.
    Float,
    /// `secs`: a lifetime in seconds, over months.
    Secs,
    /// `ms`: a lifetime in milliseconds, over days.
    Millis,
    /// `at`: a time in Unix seconds, long past or far ahead.
    At,
    /// `atms`: a time in Unix milliseconds, long past or far ahead.
    AtMillis,
    /// `future`: a time in Unix seconds, far ahead.
    Future,
    /// `futurems`: a time in Unix milliseconds, far ahead.
    FutureMillis,
    /// `badint`: an invalid integer, or an unusual one.
    BadInt,
    /// `db`: a database number.
    Db,
    /// `index`: a position in a string, also negative.
    Index,
    /// `offset`: a position to write at.
    Offset,
    /// `pattern`: a glob.
    Pattern,
    /// `cursor`: a SCAN cursor.
    Cursor,
    /// `count`: a count, mostly sensible.
    Count,
    /// `numkeys`: the number of repetitions of the repeated part after it.
    NumKeys,
    /// `groupkey`: mostly one of two keys that hold streams with groups if they exist.
    GroupKey,
    /// `group`: the name of a consumer group.
    GroupName,
    /// `consumer`: the name of a consumer.
    Consumer,
    /// `groupid`: the id of an entry of those streams, or an invalid one.
    GroupId,
    /// `idle`: a time in milliseconds far from all times of a run.
    Idle,
    /// `name`: a client name, valid or invalid.
    Name,
    /// `type`: the name of a type, or an invalid one.
    Type,
    /// `script`: a script for two keys and two arguments.
    Script,
    /// The text of a library with one function, its name, and the name of a function.
    Library,
    LibraryName,
    Function,
    /// `word`: a word that isn't an option.
    Word,
    /// `member`: a member, field or element of a collection.
    Member,
    /// `element`: an element of a list, of a length at which nodes are full or the element gets its
    /// own node.
    Element,
    /// `setkey`: mostly one of five keys that hold sets if they exist.
    SetKey,
    /// `setmember`: a member of a set, from a small pool, so that sets have common members.
    SetMember,
    /// `setint`: an integer of that pool.
    SetInt,
    /// `hashkey`: mostly one of five keys that hold hashes if they exist.
    HashKey,
    /// `field`: a field of a hash, from a small pool, so that commands use the same ones.
    Field,
    /// `zkey`: mostly one of five keys that hold sorted sets if they exist.
    ZsetKey,
    /// `lexkey`: one of two keys with sorted sets in which all scores are 0.
    LexKey,
    /// `zmember`: a member of a sorted set, from a small pool, so that sets have common members.
    ZsetMember,
    /// `score`: a score, mostly equal to that of other members.
    Score,
    /// `scoreend`: an end of a range of scores.
    ScoreEnd,
    /// `lexend`: an end of a range of members.
    LexEnd,
    /// `geokey`: mostly one of four keys that hold places if they exist.
    GeoKey,
    /// `lon`: a longitude, mostly near a crowded point.
    Lon,
    /// `lat`: a latitude, mostly near a crowded point.
    Lat,
    /// `radius`: a distance, from zero to more than the earth's circumference.
    Radius,
    /// `hllkey`: mostly one of five keys that hold HyperLogLogs if they exist.
    HllKey,
    /// `hllelement`: an element of a HyperLogLog, from a pool that fills some of the registers.
    HllElement,
    /// `hll`: the bytes of a HyperLogLog, valid or invalid.
    Hll,
    /// `xkey`: mostly one of four keys that hold streams if they exist.
    StreamKey,
    /// `xnew`: a possible id of a new entry.
    NewId,
    /// `xid`: a possible id of an existing entry.
    EntryId,
    /// `xend`: an end of a range of ids.
    IdEnd,
    /// `dumpkey`: one of five keys that hold restored values if they exist.
    DumpKey,
    /// `payload`: a possible reply of DUMP, rarely with a wrong footer.
    Payload,
    /// `badpayload`: a payload with a corrupted value.
    BadPayload,
    /// `idleness`: idle seconds, or a frequency, or an invalid one.
    Idleness,
}

/// The keys. Few, so that commands use the same ones; with shared tags, an empty one and a binary
/// one.
pub const KEYS: [&[u8]; 14] = [
    b"k1",
    b"k2",
    b"k3",
    b"k4",
    b"{a}1",
    b"{a}2",
    b"{b}1",
    b"{b}2",
    b"user:{a}:3",
    b"7",
    b"",
    b"\x00\xff\r\n",
    b"{}k",
    b"a-key-that-is-longer-than-what-fits-into-a-small-inline-buffer-of-any-sort-0123456789abcdef",
];

const SMALL_WORDS: [&str; 6] = ["v1", "v2", "hello", "Hello World", "x", "foo"];

const EDGE_INTS: [i64; 16] = [
    0,
    1,
    -1,
    9999,
    10000,
    -10000,
    i32::MAX as i64,
    i32::MIN as i64,
    u32::MAX as i64,
    1 << 53,
    i64::MAX,
    i64::MAX - 1,
    i64::MIN,
    i64::MIN + 1,
    1 << 62,
    -(1 << 62),
];

const FLOATS: [&str; 26] = [
    "0",
    "-0",
    "0.1",
    "0.2",
    "1.5",
    "-3",
    "3.0",
    "1e5",
    "3.0e3",
    "1e-3",
    "5.0e-1",
    "1e17",
    "1e20",
    "-1e20",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "abc",
    " 1",
    "1 ",
    "",
    "0x10",
    "3.14159265358979",
    "123456789.123456789",
    "0.000000001",
];

const PATTERNS: [&str; 18] = [
    "*", "k*", "{a}*", "{?}1", "k?", "k[1-3]", "k[^1]", "k[3-1]", "[", "k[", "k[a-", "\\", "k\\1",
    "", "*1", "**", "nothing", "*:{a}:*",
];

const NAMES: [&str; 6] = ["conn", "other-name", "", "with space", "line\nbreak", "caf\u{e9}"];

const TYPES: [&str; 8] =
    ["string", "list", "hash", "STRING", "set", "zset", "stream", "unheard-of"];

/// Invalid integers, or unusual ones.
pub const BAD_INTS: [&str; 17] = [
    "",
    "abc",
    "1.5",
    " 1",
    "1 ",
    "+1",
    "01",
    "-0",
    "0x10",
    "1e3",
    "0",
    "-1",
    "536870912",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
];

/// The input of a generator in addition to its random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Unix seconds at the start of the run, the base of "far ahead".
    pub now: i64,
}

impl Kind {
    /// The kind with this name in the tables.
    pub fn named(name: &str) -> Option<Kind> {
        Some(match name {
            "key" => Kind::Key,
            "lcskey" => Kind::LcsKey,
            "dna" => Kind::Dna,
            "bitkey" => Kind::BitKey,
            "bitstring" => Kind::BitString,
            "bitat" => Kind::BitAt,
            "bitindex" => Kind::BitIndex,
            "bittype" => Kind::BitType,
            "fieldat" => Kind::FieldAt,
            "largekey" => Kind::LargeKey,
            "largeat" => Kind::LargeAt,
            "largebit" => Kind::LargeBit,
            "largepart" => Kind::LargePart,
            "value" => Kind::Value,
            "int" => Kind::Int,
            "float" => Kind::Float,
            "secs" => Kind::Secs,
            "ms" => Kind::Millis,
            "at" => Kind::At,
            "atms" => Kind::AtMillis,
            "future" => Kind::Future,
            "futurems" => Kind::FutureMillis,
            "badint" => Kind::BadInt,
            "db" => Kind::Db,
            "index" => Kind::Index,
            "offset" => Kind::Offset,
            "pattern" => Kind::Pattern,
            "cursor" => Kind::Cursor,
            "count" => Kind::Count,
            "numkeys" => Kind::NumKeys,
            "groupkey" => Kind::GroupKey,
            "group" => Kind::GroupName,
            "consumer" => Kind::Consumer,
            "groupid" => Kind::GroupId,
            "idle" => Kind::Idle,
            "name" => Kind::Name,
            "type" => Kind::Type,
            "script" => Kind::Script,
            "library" => Kind::Library,
            "libraryname" => Kind::LibraryName,
            "function" => Kind::Function,
            "word" => Kind::Word,
            "member" => Kind::Member,
            "element" => Kind::Element,
            "setkey" => Kind::SetKey,
            "setmember" => Kind::SetMember,
            "setint" => Kind::SetInt,
            "hashkey" => Kind::HashKey,
            "field" => Kind::Field,
            "zkey" => Kind::ZsetKey,
            "lexkey" => Kind::LexKey,
            "zmember" => Kind::ZsetMember,
            "score" => Kind::Score,
            "scoreend" => Kind::ScoreEnd,
            "lexend" => Kind::LexEnd,
            "geokey" => Kind::GeoKey,
            "lon" => Kind::Lon,
            "lat" => Kind::Lat,
            "radius" => Kind::Radius,
            "hllkey" => Kind::HllKey,
            "hllelement" => Kind::HllElement,
            "hll" => Kind::Hll,
            "xkey" => Kind::StreamKey,
            "xnew" => Kind::NewId,
            "xid" => Kind::EntryId,
            "xend" => Kind::IdEnd,
            "dumpkey" => Kind::DumpKey,
            "payload" => Kind::Payload,
            "badpayload" => Kind::BadPayload,
            "idleness" => Kind::Idleness,
            _ => return None,
        })
    }

    /// A random argument of this kind.
    pub fn draw(self, rng: &mut Rng, context: Context) -> Vec<u8> {
        match self {
            Kind::Key => key(rng),
            Kind::LcsKey => format!("lcs{}", rng.below(3)).into_bytes(),
            Kind::Dna => (0..rng.below(40)).map(|_| *rng.pick(b"abc")).collect(),
            Kind::BitKey => match rng.below(24) {
                0 => key(rng),
                1 => b"no-such-bits".to_vec(),
                _ => format!("bits{}", rng.below(4)).into_bytes(),
            },
            Kind::BitString => bit_string(rng),
            Kind::BitAt => bit_at(rng),
            Kind::BitIndex => match rng.below(16) {
                0 => number(*rng.pick(&EDGE_INTS)),
                1 | 2 => number(rng.between(4000, 4200) * *rng.pick(&[1, 8, -1, -8])),
                3..8 => number(rng.between(-9, 9)),
                _ => number(rng.between(-150, 150)),
            },
            Kind::BitType => match rng.below(16) {
                0 => rng
                    .pick(&["u64", "i65", "u0", "i0", "U8", "8", "i", "u08", "", "i-8", "u 8"])
                    .as_bytes()
                    .to_vec(),
                1..4 => rng.pick(&["i64", "u63", "i63", "u1", "i1"]).as_bytes().to_vec(),
                4..9 => rng.pick(&["i8", "u8", "u16", "i32"]).as_bytes().to_vec(),
                _ => format!("{}{}", rng.pick(&["u", "i"]), rng.between(1, 63)).into_bytes(),
            },
            Kind::FieldAt => match rng.below(24) {
                0 => rng
                    .pick(&[
                        "#-1",
                        "#",
                        "##1",
                        "#9223372036854775807",
                        "#4611686018427387904",
                        "#x",
                    ])
                    .as_bytes()
                    .to_vec(),
                1..9 => format!("#{}", rng.below(12)).into_bytes(),
                _ => bit_at(rng),
            },
            Kind::LargeKey => format!("large{}", rng.below(3)).into_bytes(),
            Kind::LargeAt => number(large_at(rng)),
            Kind::LargeBit => number(8 * large_at(rng) + rng.between(0, 7)),
            Kind::LargePart => large_part(rng),
            Kind::Value => value(rng),
            Kind::Int => match rng.below(10) {
                0 => number(*rng.pick(&EDGE_INTS)),
                1 => number(rng.between(-1_000_000, 1_000_000)),
                _ => number(rng.between(-5, 20)),
            },
            Kind::Float => rng.pick(&FLOATS).as_bytes().to_vec(),
            Kind::Secs => lifetime(rng, 10_000_000, 1_000_000_000),
            Kind::Millis => lifetime(rng, 100_000_000, 1_000_000_000_000),
            Kind::At => moment(rng, context.now, 1),
            Kind::AtMillis => moment(rng, context.now, 1000),
            Kind::Future => number(ahead(rng, context.now)),
            Kind::FutureMillis => number(ahead(rng, context.now) * 1000),
            Kind::BadInt => rng.pick(&BAD_INTS).as_bytes().to_vec(),
            Kind::Db => match rng.below(40) {
                0 => number(16),
                1 => number(-1),
                2 => number(15),
                _ => number(rng.between(0, 2)),
            },
            Kind::Index => match rng.below(12) {
                0 => number(*rng.pick(&EDGE_INTS)),
                _ => number(rng.between(-50, 50)),
            },
            Kind::Offset => match rng.below(20) {
                // Beyond the largest string, so that no server allocates it.
                0 => number(*rng.pick(&[536_870_912, 1 << 40, i64::MAX])),
                1 => number(rng.between(-3, -1)),
                _ => number(rng.between(0, 80)),
            },
            Kind::Pattern => rng.pick(&PATTERNS).as_bytes().to_vec(),
            Kind::Cursor => match rng.below(4) {
                0 => number(rng.between(0, 300)),
                _ => number(0),
            },
            Kind::Count => match rng.below(8) {
                0 => number(rng.between(-1, 0)),
                _ => number(*rng.pick(&[1, 2, 10, 100, 1000])),
            },
            // Replaced when the repeated part is known.
            Kind::NumKeys => number(0),
            Kind::GroupKey => match rng.below(40) {
                0 => key(rng),
                1 => b"no-such-stream".to_vec(),
                _ => format!("xg{}", rng.below(2)).into_bytes(),
            },
            Kind::GroupName => match rng.below(24) {
                0 => rng.pick(&["", "none", "g\0x", "g\r\n"]).as_bytes().to_vec(),
                1..5 => b"g2".to_vec(),
                _ => b"g1".to_vec(),
            },
            Kind::Consumer => match rng.below(24) {
                0 => rng.pick(&["", "none", "c\0x", "C1"]).as_bytes().to_vec(),
                _ => format!("c{}", rng.below(3)).into_bytes(),
            },
            Kind::GroupId => group_id(rng),
            Kind::Idle => match rng.below(8) {
                0 => rng.pick(&["-1", "x", "", "-9223372036854775808"]).as_bytes().to_vec(),
                1 => number(i64::MAX),
                2 | 3 => number(50_000),
                _ => number(0),
            },
            Kind::Name => rng.pick(&NAMES).as_bytes().to_vec(),
            Kind::Type => rng.pick(&TYPES).as_bytes().to_vec(),
            Kind::Script => crate::scripts::script(rng),
            Kind::Library => crate::scripts::functions::library(rng),
            Kind::LibraryName => crate::scripts::functions::library_name(rng).into(),
            Kind::Function => crate::scripts::functions::function_name(rng).into(),
            Kind::Word => rng.pick(&["bogus", "xyzzy", "nx2", "--", "get "]).as_bytes().to_vec(),
            Kind::Member => match rng.below(4) {
                0 => number(rng.between(0, 9)),
                _ => rng.pick(&SMALL_WORDS).as_bytes().to_vec(),
            },
            Kind::Element => element(rng),
            Kind::SetKey => match rng.below(16) {
                0 => key(rng),
                1 => b"no-such-set".to_vec(),
                _ => format!("s{}", rng.below(5)).into_bytes(),
            },
            Kind::SetMember => match rng.below(16) {
                0..5 => set_int(rng),
                5..13 => format!("m{}", rng.below(24)).into_bytes(),
                13 => rng.pick(&["", "007", "-0", "+1", "\u{e9}\r\n"]).as_bytes().to_vec(),
                // Around the length at which a packed set ends.
                14 => vec![b'l'; 3 + rng.below(4)],
                _ => vec![b'l'; *rng.pick(&[63, 64, 65, 2000])],
            },
            Kind::SetInt => set_int(rng),
            Kind::HashKey => match rng.below(16) {
                0 => key(rng),
                1 => b"no-such-hash".to_vec(),
                _ => format!("h{}", rng.below(5)).into_bytes(),
            },
            Kind::Field => match rng.below(16) {
                0..3 => number(rng.between(-2, 9)),
                3..13 => format!("f{}", rng.below(14)).into_bytes(),
                13 => rng.pick(&["", "007", "-0", "\u{e9}\r\n"]).as_bytes().to_vec(),
                // Around the length at which a packed hash ends.
                14 => vec![b'l'; 3 + rng.below(4)],
                _ => vec![b'l'; *rng.pick(&[63, 64, 65, 2000])],
            },
            Kind::ZsetKey => match rng.below(16) {
                0 => key(rng),
                1 => b"no-such-zset".to_vec(),
                _ => format!("z{}", rng.below(5)).into_bytes(),
            },
            Kind::LexKey => format!("lex{}", rng.below(2)).into_bytes(),
            Kind::ZsetMember => zset_member(rng),
            Kind::Score => score(rng),
            Kind::ScoreEnd => match rng.below(8) {
                0 => rng.pick(&["-inf", "+inf", "(-inf", "(inf"]).as_bytes().to_vec(),
                1 | 2 => [b"(".to_vec(), score(rng)].concat(),
                _ => score(rng),
            },
            Kind::LexEnd => match rng.below(8) {
                0 => b"-".to_vec(),
                1 => b"+".to_vec(),
                2..5 => [b"(".to_vec(), zset_member(rng)].concat(),
                _ => [b"[".to_vec(), zset_member(rng)].concat(),
            },
            Kind::GeoKey => match rng.below(20) {
                0 => key(rng),
                1 => b"no-such-geo".to_vec(),
                _ => format!("g{}", rng.below(4)).into_bytes(),
            },
            Kind::Lon => degrees(rng, &[13.36, 13.36, 2.35, -122.4, 179.99, -179.99, 0.0], 180.0),
            Kind::Lat => degrees(rng, &[38.1, 38.1, 48.85, -33.8, 84.9, -84.9, 0.0], 85.05112878),
            Kind::Radius => match rng.below(12) {
                0 => {
                    rng.pick(&["0", "-1", "inf", "1e300", "0.0001", "40075000"]).as_bytes().to_vec()
                }
                1 => rng.pick(&FLOATS).as_bytes().to_vec(),
                2..5 => number(*rng.pick(&[100, 500, 2000, 10_000])),
                _ => format!("{}", rng.between(1, 4000) as f64 / 8.0).into_bytes(),
            },
            Kind::HllKey => match rng.below(16) {
                0 => key(rng),
                1 => b"no-such-hll".to_vec(),
                _ => format!("hll{}", rng.below(5)).into_bytes(),
            },
            Kind::HllElement => match rng.below(16) {
                0 => value(rng),
                1 => number(rng.between(0, 1 << 40)),
                _ => number(rng.between(0, 5000)),
            },
            Kind::Hll => hyperloglogs::value(rng),
            Kind::StreamKey => match rng.below(24) {
                0 => key(rng),
                1 => b"no-such-stream".to_vec(),
                _ => format!("x{}", rng.below(4)).into_bytes(),
            },
            Kind::NewId => streams::new_id(rng),
            Kind::EntryId => streams::entry_id(rng),
            Kind::IdEnd => streams::end(rng),
            Kind::DumpKey => format!("d{}", rng.below(5)).into_bytes(),
            Kind::Payload => payloads::payload(rng, context.now),
            Kind::BadPayload => payloads::corrupted(rng, context.now),
            Kind::Idleness => match rng.below(8) {
                0 => rng.pick(&BAD_INTS).as_bytes().to_vec(),
                1 => number(*rng.pick(&[255, 256, 1 << 24, i64::MAX])),
                _ => number(rng.between(-1, 300)),
            },
        }
    }
}

/// A coordinate up to `most`: a corner of a small grid around one of `crowds`, so that places are
/// often equal. Or any coordinate, an end of the range, or rarely one beyond it.
fn degrees(rng: &mut Rng, crowds: &[f64], most: f64) -> Vec<u8> {
    let degrees = match rng.below(40) {
        0 => {
            return rng
                .pick(&["inf", "-inf", "1e30", "181", "-85.06", "x", ""])
                .as_bytes()
                .to_vec();
        }
        1 => most,
        2 => -most,
        3..8 => most * (rng.between(-10_000_000, 10_000_000) as f64 / 1e7),
        8..14 => rng.pick(crowds) + rng.between(-50_000, 50_000) as f64 / 1e5,
        _ => rng.pick(crowds) + rng.between(-3, 3) as f64 / 100.0,
    };
    format!("{}", degrees.clamp(-most, most)).into_bytes()
}

/// Mostly an id of entries that were added as `1-*` to `9-*`.
fn group_id(rng: &mut Rng) -> Vec<u8> {
    let ms = *rng.pick(&[1, 2, 3, 5, 5, 5, 9]);
    match rng.below(40) {
        0 => rng.pick(&["", "x", "-", "+", "5-", "-5", "5-x", "$", ">"]).as_bytes().to_vec(),
        1 => rng
            .pick(&["18446744073709551615-18446744073709551615", "18446744073709551616", "0-0"])
            .as_bytes()
            .to_vec(),
        2..6 => number(ms),
        _ => format!("{ms}-{}", rng.below(8)).into_bytes(),
    }
}

/// Few letters, so that elements are often equal. Lengths around 4 and 8 KiB, at which elements are
/// large by `list-max-listpack-size` -1 and -2, and lengths of which two, ten or hundreds fill a
/// node.
fn element(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(16) {
        0..7 => 1,
        7..9 => *rng.pick(&[30, 60, 126, 127]),
        9..12 => *rng.pick(&[700, 1500, 2500]),
        12..14 => *rng.pick(&[3000, 4000, 4080, 4089, 4090, 4096, 4097]),
        14 => *rng.pick(&[5000, 8000, 8180, 8185, 8192, 8193]),
        _ => *rng.pick(&[9000, 20_000]),
    };
    vec![*rng.pick(b"ab7"); if rng.percent(10) { 2 } else { len }]
}

fn zset_member(rng: &mut Rng) -> Vec<u8> {
    match rng.below(16) {
        0..4 => number(rng.between(-3, 12)),
        4..13 => format!("m{}", rng.below(30)).into_bytes(),
        13 => rng.pick(&["", "007", "-0", "\u{e9}\r\n"]).as_bytes().to_vec(),
        14 => vec![b'l'; 4 + rng.below(9)],
        _ => vec![b'l'; *rng.pick(&[63, 64, 65, 511, 512, 513, 3000])],
    }
}

/// Mostly small integers and quarters, so that scores are often equal and sums exact.
fn score(rng: &mut Rng) -> Vec<u8> {
    match rng.below(20) {
        0 => rng.pick(&FLOATS).as_bytes().to_vec(),
        1 => rng.pick(&["inf", "-inf", "+inf", "-0", "1e3"]).as_bytes().to_vec(),
        2 => number(*rng.pick(&EDGE_INTS)),
        3..6 => format!("{}", rng.between(-20, 40) as f64 / 4.0).into_bytes(),
        _ => number(rng.between(-3, 10)),
    }
}

/// Small integers, and those at which the width of stored integers changes.
fn set_int(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => number(*rng.pick(&EDGE_INTS)),
        1 => number(*rng.pick(&[-32769, -32768, 32767, 32768, 1 << 31, -(1 << 31) - 1])),
        _ => number(rng.between(-4, 24)),
    }
}

fn bit_at(rng: &mut Rng) -> Vec<u8> {
    match rng.below(32) {
        // Beyond the longest string, so that no server allocates it.
        0 => number(*rng.pick(&[1 << 32, 1 << 40, i64::MAX])),
        1 => number(rng.between(-3, -1)),
        // Around the length at which a string gets separate memory.
        2 => number(8 * 4096 + rng.between(-70, 70)),
        3 => number(rng.between(0, 80_000)),
        4..12 => number(rng.between(0, 20)),
        _ => number(rng.between(0, 400)),
    }
}

/// Bytes of four pieces of a large string.
const PIECE: i64 = 64 << 10;

/// An offset, mostly near the end of a piece.
fn large_at(rng: &mut Rng) -> i64 {
    match rng.below(6) {
        0 => rng.between(0, 6 * PIECE),
        _ => (rng.between(0, 6) * PIECE + rng.between(-2, 2)).max(0),
    }
}

/// Few set bits, or equal bytes, so that searches go far; with the lengths of pieces.
fn large_part(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(4) {
        0 => rng.between(0, 100),
        1 => PIECE + rng.between(-2, 2),
        _ => large_at(rng),
    };
    let mut part = vec![*rng.pick(&[0, 0, 0xff, b'a', b'b']); usize::try_from(len).unwrap_or(0)];
    for _ in 0..rng.below(3) {
        let at = rng.below(part.len().max(1));
        if let Some(byte) = part.get_mut(at) {
            *byte ^= 0x10;
        }
    }
    part
}

/// Zeros or ones with a few other bytes, so that searches go far, or random bytes.
fn bit_string(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(16) {
        0 => 0,
        1 => 4090 + rng.below(12),
        2 => rng.below(10_000),
        3..6 => 250 + rng.below(300),
        _ => rng.below(40),
    };
    if rng.percent(30) {
        return rng.bytes(len);
    }
    let mut bytes = vec![*rng.pick(&[0, 0xff]); len];
    for _ in 0..rng.below(3) {
        if len > 0 {
            bytes[rng.below(len)] = rng.bytes(1)[0];
        }
    }
    bytes
}

fn number(n: i64) -> Vec<u8> {
    n.to_string().into_bytes()
}

/// Half of all keys are the first four.
fn key(rng: &mut Rng) -> Vec<u8> {
    let pool = if rng.percent(50) { &KEYS[..4] } else { &KEYS[..] };
    rng.pick(pool).to_vec()
}

fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.below(100) {
        0..30 => number(rng.between(-3, 30)),
        30..38 => number(*rng.pick(&EDGE_INTS)),
        38..44 => rng.pick(&FLOATS).as_bytes().to_vec(),
        44..74 => rng.pick(&SMALL_WORDS).as_bytes().to_vec(),
        74..78 => Vec::new(),
        78..84 => {
            let len = 1 + rng.below(20);
            rng.bytes(len)
        }
        // Around the length limit of Valkey's embedded strings.
        84..96 => vec![b'e'; 40 + rng.below(110)],
        96..99 => vec![b'l'; 200 + rng.below(1800)],
        _ => rng.bytes(20_000),
    }
}

/// Long enough to outlive the run, over at once, or out of range.
fn lifetime(rng: &mut Rng, low: i64, high: i64) -> Vec<u8> {
    match rng.below(24) {
        0 => number(0),
        1 => number(-rng.between(1, 100)),
        2 => number(*rng.pick(&[
            i64::MAX,
            i64::MIN,
            i64::MAX / 1000,
            i64::MAX / 1000 + 1,
            i64::MIN / 1000,
        ])),
        _ => number(rng.between(low, high)),
    }
}

/// A time in Unix seconds, months to decades from now.
fn ahead(rng: &mut Rng, now: i64) -> i64 {
    now + rng.between(10_000_000, 1_000_000_000)
}

/// A time in units of a second or a millisecond: past, ahead, or out of range.
fn moment(rng: &mut Rng, now: i64, unit: i64) -> Vec<u8> {
    match rng.below(24) {
        0 => number(0),
        1 => number(-1),
        2..5 => number(*rng.pick(&[1, 1_000_000_000])),
        5 => number(*rng.pick(&[i64::MAX, i64::MIN, i64::MAX / 1000, i64::MAX / 1000 + 1])),
        _ => number(ahead(rng, now) * unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_never_end_during_a_run() {
        let (mut rng, context) = (Rng::new(3), Context { now: 1_700_000_000 });
        for _ in 0..20_000 {
            for (kind, unit) in [(Kind::Secs, 1000), (Kind::Millis, 1)] {
                let n: i64 =
                    String::from_utf8(kind.draw(&mut rng, context)).unwrap().parse().unwrap();
                assert!(n <= 0 || n.saturating_mul(unit) > 86_400_000, "{kind:?} {n}");
            }
            for (kind, unit) in [(Kind::At, 1000), (Kind::AtMillis, 1)] {
                let n: i64 =
                    String::from_utf8(kind.draw(&mut rng, context)).unwrap().parse().unwrap();
                let ahead = n.saturating_mul(unit).saturating_sub(context.now * 1000);
                assert!(ahead.unsigned_abs() > 86_400_000, "{kind:?} {n}");
            }
        }
    }
}
