//! Tests loading files of other servers, files written and read by several threads, and damaged
//! files.
//!
//! The files in `fuzz/corpus/rdb_file/` were saved by Redis 6.0, 7.0 and 8.0 and by Valkey 8.1 and
//! 9.1, after the same commands. `-lru` and `-lfu` contain the access data of keys.

use super::fuzz::{content_of, load, save};
use super::*;
use crate::rdb::{Fault, Form, VERSION, crc64};
use crate::storage::{Disk, Storage};
use std::io::{self, Read};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_types::hash::Hash;
use weft_types::list::List;
use weft_types::set::Set;
use weft_types::stream::Stream;
use weft_types::string::{Digits, Str};
use weft_types::zset::View;
use weft_types::{Kind, Limits, Record, Type};

const FILES: &[(&str, &[u8])] = &[
    ("redis6", include_bytes!("../../../../../fuzz/corpus/rdb_file/seed-redis6")),
    ("redis7", include_bytes!("../../../../../fuzz/corpus/rdb_file/seed-redis7")),
    ("redis8", include_bytes!("../../../../../fuzz/corpus/rdb_file/seed-redis8")),
    ("valkey8", include_bytes!("../../../../../fuzz/corpus/rdb_file/seed-valkey8")),
    ("valkey9", include_bytes!("../../../../../fuzz/corpus/rdb_file/seed-valkey9")),
    ("valkey9-lru", include_bytes!("../../../../../fuzz/corpus/rdb_file/seed-valkey9-lru")),
    ("valkey9-lfu", include_bytes!("../../../../../fuzz/corpus/rdb_file/seed-valkey9-lfu")),
];

const NEWEST: Form = Form { version: VERSION, compress: true };

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Describes a value; sets and hashes are sorted.
fn describe(record: &Record) -> String {
    let mut parts: Vec<String> = Vec::new();
    let kind = Kind::of(record.kind()).type_of();
    match kind {
        Type::String => {
            let string = Str::of(record).expect("a string");
            let bytes = string.bytes(&mut Digits::new()).to_vec();
            // The bytes of a HyperLogLog are not text.
            parts.push(text(bytes.strip_prefix(b"HYLL").map_or(&bytes, |_| b"(counter)")));
        }
        Type::List => List::of(record).expect("a list").each_from(0, |element| {
            parts.push(text(&element.to_vec()));
            true
        }),
        Type::Set => Set::of(record).expect("a set").each(|m| parts.push(text(&m.to_vec()))),
        Type::Zset => View::of(record).expect("a sorted set").for_each(|member, score| {
            parts.push(format!("{}={score}", text(&member.to_vec())));
        }),
        Type::Hash => Hash::of(record, i64::MIN).expect("a hash").each(|pair| {
            let at = pair.expiry.map_or(String::new(), |at| format!("@{at}"));
            parts.push(format!(
                "{}={}{at}",
                text(&pair.field.to_vec()),
                text(&pair.value.to_vec())
            ));
        }),
        Type::Stream => {
            let stream = Stream::of(record).expect("a stream");
            parts.push(format!("{} entries", stream.log.len()));
            for (name, group) in stream.groups.iter().flat_map(|groups| groups.iter()) {
                let (pending, consumers) = (group.pending_len(), group.consumers_len());
                parts.push(format!("{}:{pending}/{consumers}", text(name)));
            }
        }
    }
    if matches!(kind, Type::Set | Type::Hash) {
        parts.sort();
    }
    let expiry = record.expiry().map_or(String::new(), |at| format!(" until {at}"));
    format!("{} {}{expiry}", kind.name(), parts.join(" "))
}

/// The content of all files.
const COMMON: &[(usize, &str, &str)] = &[
    (0, "big", "string 12345678901"),
    (0, "bigh", "hash f1=v1 f2=v2 f3=v3"),
    (0, "bigints", "set 1 2 3 4"),
    (0, "biglist", "list 1 2 3 4 5 6 7 8 9 text"),
    (0, "bigwords", "set a b c d e"),
    (0, "bigz", "zset d=-1.5 a=1 b=2 c=3"),
    (0, "h", "hash =empty f=v n=12"),
    (0, "hll", "string (counter)"),
    (0, "int", "string 12345"),
    (0, "ints", "set 1 2 3 5000000000 70000"),
    (0, "list", "list a b 1 2 -3000 ccc"),
    (
        0,
        "longtext",
        "string aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ),
    (0, "neg", "string -70000"),
    (0, "s", "string hello"),
    (0, "st", "stream 3 entries g1:2/2 g2:0/0"),
    (0, "words", "set 4 one three two"),
    (0, "z", "zset c=-inf a=1 b=2.5 e=3 d=inf"),
    (3, "other", "string db"),
    (15, "last", "list e"),
];

#[test]
fn files_of_other_servers_are_loaded() {
    for (name, file) in FILES {
        let records = load(file, VersionCheck::Strict).unwrap_or_else(|| panic!("{name}"));
        let find = |db: usize, key: &str| {
            let mut of = records.iter().filter(|(at, r)| *at == db && r.key() == key.as_bytes());
            let found = of.next().map(|(_, record)| describe(record));
            assert!(of.next().is_none());
            found
        };
        for (db, key, value) in COMMON {
            assert_eq!(find(*db, key).as_deref(), Some(*value), "{name}: {key}");
        }
        let mut more = COMMON.len();
        let mut also = |db, key, is_there: bool, value: &str| {
            assert_eq!(find(db, key).as_deref(), is_there.then_some(value), "{name}: {key}");
            more += usize::from(is_there);
        };
        let ttl = find(0, "ttl").expect("it is there");
        assert!(ttl.starts_with("string soon until 117"), "{ttl}");
        // PXAT came with Redis 6.2, expiring fields with Redis 7.4 and Valkey 9.
        also(3, "ttl2", *name != "redis6", "string x until 4102444800000");
        let expires = name.starts_with("valkey9") || *name == "redis8";
        also(0, "hx", expires, "hash f=v@4102444800000 g=w");
        also(0, "hxs", *name == "redis8", "hash f=v g=w@4102444800001");
        assert_eq!(records.len(), more + 1, "{name}");
    }
}

#[test]
fn saved_files_load_to_the_same_records() {
    for (name, file) in FILES {
        let records = load(file, VersionCheck::Strict).expect("as above");
        for version in [9, 10, 11, 80] {
            for compress in [false, true] {
                let ours = save(&records, Form { version, compress });
                let again = load(&ours, VersionCheck::Strict);
                // Expiring fields are written in Valkey 9's form, whatever the version, because no
                // older form has them.
                let again = again.unwrap_or_else(|| panic!("{name}, version {version}"));
                if version >= 11 {
                    assert_eq!(content_of(&again), content_of(&records), "{name}, {version}");
                }
                assert_eq!(again.len(), records.len());
            }
        }
    }
}

/// A reader that returns at most this many bytes per call.
struct Slowly<'a>(&'a [u8], usize);

impl Read for Slowly<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(self.0.len()).min(to.len());
        to[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

/// Loads with this many threads.
fn load_together(from: impl Read + Send, threads: usize) -> Result<Vec<(usize, Record)>, Trouble> {
    let limits = Limits::default();
    let terms = Terms { limits: &limits, clock: &|_, _| 0, over: None };
    let loader = Mutex::new(Loader::open(from, VersionCheck::Strict, 16)?);
    let records = Mutex::new(Vec::new());
    let work = || {
        loop {
            let piece = loader.lock().unwrap().take(&terms)?;
            let Some(piece) = piece else { return Ok(()) };
            let mut own = Vec::new();
            piece.each(&terms, &mut Counts::default(), |db, record| {
                own.push((db, record));
                true
            })?;
            records.lock().unwrap().extend(own);
        }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().try_for_each(|thread| thread.join().unwrap())
    })?;
    Ok(records.into_inner().unwrap())
}

fn string(key: &str, value: Vec<u8>) -> Record {
    let value = weft_types::string::New::Blob(weft_types::string::Blob::new(value));
    weft_types::string::record(key.as_bytes(), value, None, 0)
}

/// Values of many sizes in five databases; some are larger than any block.
fn mixed() -> Vec<(usize, Record)> {
    let limits = Limits::default();
    let mut all = Vec::new();
    for n in 0..5000usize {
        let noise = (0..n % 700).map(|i| (i * n % 251) as u8).collect();
        all.push((n % 5, string(&format!("key:{n}"), noise)));
    }
    for (n, size) in [(1 << 20) - 3, 1 << 20, (4 << 20) - 5, 9 << 20].into_iter().enumerate() {
        let noise = (0..size).map(|i: usize| (i.wrapping_mul(i) >> 7) as u8).collect();
        all.push((n, string(&format!("blob:{n}"), noise)));
    }
    let mut list = weft_types::list::Load::new(&limits);
    (0..60_000).for_each(|n| list.push(format!("an element of a long list {n}").as_bytes()));
    all.push((2, list.finish(b"list", Some(4102444800000), 0, &limits, true)));
    let mut hash = weft_types::hash::Load::new(60_000, &limits);
    let value = [7; 60];
    (0..60_000).for_each(|n| hash.add(format!("field {n}").as_bytes(), &value, None));
    all.push((3, hash.finish(b"hash", None, 0).expect("no field twice")));
    all
}

#[test]
fn several_threads_write_and_read() {
    let records = mixed();
    let saver = Saver::begin(Vec::new(), NEWEST, true).expect("a vector takes everything");
    saver.tell("weft-ver", Told::Text("1.2.3")).unwrap();
    saver.tell("ctime", Told::Number(1234)).unwrap();
    saver.function(b"#!lua name=mylib").unwrap();
    (0..5).for_each(|db| saver.sizes(db, 1000, 1));
    std::thread::scope(|scope| {
        for part in records.chunks(records.len().div_ceil(3)) {
            let mut lane = saver.lane();
            scope.spawn(move || {
                part.iter().try_for_each(|(db, record)| lane.add(*db, record, None)).unwrap();
                lane.finish().unwrap();
            });
        }
    });
    assert_eq!(saver.keys(), records.len() as u64);
    let (file, bytes) = saver.finish().unwrap();
    assert_eq!(file.len() as u64, bytes);
    for threads in [1, 3] {
        for most in [7, 100_003, usize::MAX] {
            // A byte at a time would take too long.
            let most = if threads == 1 { most.max(4096) } else { most.max(65_536) };
            let again = load_together(Slowly(&file, most), threads).expect("our own");
            assert_eq!(content_of(&again), content_of(&records));
        }
    }
    let limits = Limits::default();
    let terms = Terms { limits: &limits, clock: &|_, _| 0, over: Some(4102444800000) };
    let mut loader = Loader::open(&file[..], VersionCheck::Strict, 5).unwrap();
    let mut counts = Counts::default();
    while let Some(piece) = loader.take(&terms).unwrap() {
        piece.each(&terms, &mut counts, |_, _| true).unwrap();
    }
    let all = records.len() as u64;
    assert_eq!(counts, Counts { loaded: all - 1, expired: 1, empty: 0 });
    assert_eq!(loader.functions(), [b"#!lua name=mylib"]);
    assert_eq!((loader.announced(), loader.ended()), (5000, Some(Ended::Right)));
    let expected =
        Origin { program: Some(("Weft", "1.2.3".into())), made_s: Some(1234), ..Origin::default() };
    assert_eq!((loader.origin(), loader.offset()), (&expected, bytes));
}

#[test]
fn access_data_of_keys_is_loaded_and_saved() {
    let (idle, counted) = (FILES[5].1, FILES[6].1);
    let access_data = |file: &[u8]| {
        let limits = Limits::default();
        let access_data = Mutex::new(Vec::new());
        let clock = |idle, count| {
            access_data.lock().unwrap().push((idle, count));
            0
        };
        let terms = Terms { limits: &limits, clock: &clock, over: None };
        let mut loader = Loader::open(file, VersionCheck::Strict, 16).unwrap();
        while let Some(piece) = loader.take(&terms).unwrap() {
            piece.each(&terms, &mut Counts::default(), |_, _| true).unwrap();
        }
        assert_eq!(loader.origin().program, Some(("Valkey", "9.1.2".into())));
        access_data.into_inner().unwrap()
    };
    assert!(access_data(idle).iter().all(|(idle, count)| idle.is_some() && count.is_none()));
    assert!(access_data(counted).iter().all(|(idle, count)| idle.is_none() && count.is_some()));
    assert_eq!(access_data(idle).len(), 22);
    let saver = Saver::begin(Vec::new(), NEWEST, true).unwrap();
    let mut lane = saver.lane();
    lane.add(0, &string("a", vec![1]), Some(Used::Idle(77))).unwrap();
    lane.add(0, &string("b", vec![1]), Some(Used::Frequency(9))).unwrap();
    lane.finish().unwrap();
    let (file, _) = saver.finish().unwrap();
    let limits = Limits::default();
    let clock = |idle: Option<u64>, count: Option<u8>| {
        assert!(idle.is_some() != count.is_some());
        idle.unwrap_or_default() as u32 + u32::from(count.unwrap_or_default())
    };
    let terms = Terms { limits: &limits, clock: &clock, over: None };
    let mut loader = Loader::open(&file[..], VersionCheck::Strict, 1).unwrap();
    let mut clocks = Vec::new();
    while let Some(piece) = loader.take(&terms).unwrap() {
        let seen = |_, record: Record| {
            clocks.push(record.clock());
            true
        };
        piece.each(&terms, &mut Counts::default(), seen).unwrap();
    }
    assert_eq!(clocks, [77, 9]);
}

/// A thread can pause repeatedly while it writes a value with millions of elements.
#[test]
fn saver_pauses_within_a_large_value() {
    static PAUSES: AtomicU32 = AtomicU32::new(0);
    let pause = || {
        PAUSES.fetch_add(1, Ordering::Relaxed);
    };
    let saver = Saver::begin(Vec::new(), NEWEST, true).unwrap().pausing(pause);
    let records = mixed();
    let (db, hash) = records.last().expect("some");
    let fields = 60_000;
    let mut lane = saver.lane();
    lane.add(*db, hash, None).unwrap();
    lane.finish().unwrap();
    let pauses = PAUSES.load(Ordering::Relaxed);
    assert!(pauses >= fields / 50, "{pauses} pauses among {fields} fields");
    let again = load_together(&saver.finish().unwrap().0[..], 1).expect("our own");
    assert_eq!(content_of(&again), content_of(&records[records.len() - 1..]));
}

fn wrong(file: &[u8]) -> Trouble {
    match load_together(file, 1) {
        Ok(_) => panic!("{} is fine", file.escape_ascii()),
        Err(trouble) => trouble,
    }
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn truncation_and_changed_bits_are_found() {
    for (name, file) in FILES {
        for end in 0..file.len() {
            let found = wrong(&file[..end]);
            assert!(matches!(found.wrong, Wrong::Value(Fault::Short)), "{name} {end}: {found}");
            assert!(!check(&file[..end], 0, &mut |_: String| {}).is_right);
        }
        // Skips the version: another one is a valid file of that version, and some have no
        // checksum.
        for at in (0..file.len()).filter(|at| !(5..9).contains(at)) {
            for bit in [0x01, 0x10, 0x80] {
                let mut changed = file.to_vec();
                changed[at] ^= bit;
                assert!(load_together(&changed[..], 1).is_err(), "{name} {at}");
                assert!(!check(&changed[..], 0, &mut |_: String| {}).is_right, "{name} {at}");
            }
        }
        let more = [file, &b"*1\r\n$4\r\nPING\r\n"[..]].concat();
        let limits = Limits::default();
        let terms = Terms { limits: &limits, clock: &|_, _| 0, over: None };
        let mut loader = Loader::open(&more[..], VersionCheck::Strict, 16).unwrap();
        while loader.take(&terms).unwrap().is_some() {}
        let (ahead, mut rest) = loader.into_rest();
        let mut all = ahead;
        rest.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"*1\r\n$4\r\nPING\r\n", "the bytes after the file");
    }
}

/// A file of these items, with its end and checksum.
fn file_of(header: &[u8], items: &[u8]) -> Vec<u8> {
    let mut file = [header, items, b"\xff"].concat();
    let sum = crc64(&file);
    file.extend(sum.to_le_bytes());
    file
}

#[test]
fn items_of_all_kinds_are_read_or_refused() {
    let key = b"\x00\x01k\x01v";
    let count = |header: &[u8], items: &[u8]| {
        load(&file_of(header, items), VersionCheck::Relaxed).map(|records| records.len())
    };
    let with = |items: &[u8]| [items, key].concat();
    for header in [&b"REDIS0009"[..], b"REDIS0012", b"VALKEY080"] {
        assert_eq!(count(header, key), Some(1));
        assert_eq!(count(header, &with(b"\xfa\x01a\x01b\xfe\x03\xfb\x05\x00")), Some(1));
        assert_eq!(count(header, &with(b"\xf4\x01\x40\xff\x00")), Some(1), "slots of Redis");
        assert_eq!(count(header, &with(b"\xfe\x10")), None, "there are sixteen databases");
        assert_eq!(count(header, &with(b"\xf6\x01a\x01b\x00")), None, "functions of a preview");
        assert_eq!(count(header, &with(b"\xf7\x81\0\0\0\0\0\0\0\x01\x02\x02\x00")), None);
        assert_eq!(count(header, b"\x07\x01k\x00"), None, "a value of a module");
        assert_eq!(count(header, b"\x01\x01k\x00"), Some(0), "a list of nothing");
        assert_eq!(count(header, b"\x63\x01k\x00"), None);
        assert_eq!(count(header, &with(b"\xfd\x01\0\0\0\xf8\x05")), Some(1));
        assert_eq!(count(header, &with(b"\xfc\x01\0\0\0\0\0\0\0\xfe\x01")), Some(1));
    }
    let import = with(b"\xf3\x03job\x02\x01\x05\x07\x40\xff");
    assert_eq!(count(b"VALKEY080", &import), Some(1));
    assert_eq!(count(b"REDIS0012", &import), None);
    let records = load(&file_of(b"REDIS0009", &with(b"\xfd\x01\0\0\0")), VersionCheck::Strict);
    assert_eq!(records.unwrap()[0].1.expiry(), Some(1000));
    let twice = key.repeat(2);
    let limits = Limits::default();
    let terms = Terms { limits: &limits, clock: &|_, _| 0, over: None };
    let file = file_of(b"REDIS0009", &twice);
    let mut loader = Loader::open(&file[..], VersionCheck::Strict, 16).unwrap();
    let piece = loader.take(&terms).unwrap().unwrap();
    let mut seen = 0;
    let found = piece.each(&terms, &mut Counts::default(), |_, _| {
        seen += 1;
        seen == 1
    });
    assert!(matches!(found.unwrap_err().wrong, Wrong::Twice));
}

#[test]
fn checksums_are_verified_unless_disabled() {
    let mut none = file_of(b"REDIS0009", b"");
    let at = none.len() - 8;
    none[at..].fill(0);
    let limits = Limits::default();
    let terms = Terms { limits: &limits, clock: &|_, _| 0, over: None };
    let ended = |file: &[u8], ignore: bool| {
        let mut loader = Loader::open(file, VersionCheck::Strict, 1).unwrap();
        if ignore {
            loader.ignore_sum();
        }
        loader.take(&terms).map(|_| loader.ended())
    };
    assert_eq!(ended(&none, false).unwrap(), Some(Ended::Unsummed));
    assert_eq!(ended(b"REDIS0004\xff", false).unwrap(), Some(Ended::Unchecked));
    none[at] = 1;
    assert!(matches!(ended(&none, false).unwrap_err().wrong, Wrong::Sum { expected: 1, .. }));
    assert_eq!(ended(&none, true).unwrap(), Some(Ended::Unchecked));
    let saver = Saver::begin(Vec::new(), NEWEST, false).unwrap();
    assert!(saver.finish().unwrap().0.ends_with(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0]));
}

/// Returns the report of the check on a file.
fn report(file: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    check(file, 0, &mut |line: String| lines.push(line));
    lines
}

#[test]
fn reports_match_the_reference() {
    let valkey = FILES[4].1;
    let mut fine = report(valkey);
    fine.drain(2..4);
    assert_eq!(
        fine,
        [
            "[offset 27] AUX FIELD valkey-ver = '9.1.2'",
            "[offset 41] AUX FIELD redis-bits = '64'",
            "[offset 80] AUX FIELD aof-base = '0'",
            "[offset 82] Selecting DB ID 0",
            "[offset 889] Selecting DB ID 3",
            "[offset 921] Selecting DB ID 15",
            "[offset 952] Checksum OK",
            "[offset 952] Check RDB returned error code 0 (0 means success)",
            "[offset 952] \\o/ RDB looks OK! \\o/",
            "[info] 22 keys read",
            "[info] 2 expires",
            "[info] 0 already expired",
            "[info] 0 functions",
        ]
    );
    let last = |file: &[u8]| report(file)[report(file).len() - 8..].to_vec();
    let mut sum = valkey.to_vec();
    sum[951] ^= 1;
    assert_eq!(
        last(&sum),
        [
            "--- RDB ERROR DETECTED ---",
            "[offset 952] RDB CRC error",
            "[additional info] While doing: check-sum",
            "[info] 22 keys read",
            "[info] 2 expires",
            "[info] 0 already expired",
            "[info] 0 functions",
            "[offset 952] Check RDB returned error code 1 (0 means success)",
        ]
    );
    let short = last(&valkey[..500]);
    assert_eq!(short[0], "--- RDB ERROR DETECTED ---");
    assert_eq!(short[3..5], ["[info] 13 keys read", "[info] 1 expires"]);
    assert_eq!(last(b"NOTARDB80")[1], "[offset 9] Wrong signature trying to load DB from file");
    assert_eq!(last(b"REDIS0080")[1], "[offset 9] Can't handle RDB format version 80");
    assert_eq!(last(b"REDIS")[1], "[offset 0] Unexpected EOF reading RDB file");
    let future = file_of(b"VALKEY081", b"");
    assert_eq!(report(&future)[0], "[offset 9] Future RDB version 81 detected");
    let foreign = file_of(b"REDIS0013", b"\x00\x01k\x01v\x63\x01k\x00");
    assert_eq!(report(&foreign)[0], "[offset 9] Foreign RDB version 13 detected");
    assert!(last(&foreign)[1].ends_with("Invalid object type: 99"));
    let body = report(&file_of(b"REDIS0009", b"\x03\x02zz\x01\x01a\x01x"));
    assert!(body.contains(&"[additional info] Reading key 'zz'".into()), "{body:?}");
    assert!(body.contains(&"[additional info] Reading type 3 (zset-v1)".into()), "{body:?}");
}

#[test]
fn file_is_replaced_completely_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, at) = (Disk, folder.path());
    let write = |bytes: &[u8], incremental, finish| {
        let mut place = Place::begin(&disk, at, "dump.rdb", 7, incremental).unwrap();
        io::Write::write_all(&mut place, bytes).unwrap();
        if finish {
            place.finish().unwrap();
        } else {
            drop(place);
        }
        assert_eq!(disk.list(at).unwrap().len(), usize::from(at.join("dump.rdb").exists()));
        std::fs::read(at.join("dump.rdb")).ok()
    };
    assert_eq!(write(b"lost", false, false), None);
    assert_eq!(write(b"one", false, true).as_deref(), Some(&b"one"[..]));
    let long = vec![7; 20 << 20];
    assert_eq!(write(&long, true, false).as_deref(), Some(&b"one"[..]));
    assert_eq!(write(&long, true, true), Some(long.clone()));
    assert!(Place::begin(&disk, &at.join("nowhere"), "dump.rdb", 7, false).is_err());
}

#[test]
fn writes_after_a_failed_write_fail() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let n = bytes.len().min(self.0);
            self.0 -= n;
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let value = string("k", vec![1; 300_000]);
    for room in [0, 100, 250_000, 700_000] {
        let saver = Saver::begin(Full(room), Form { version: VERSION, compress: false }, true);
        let saver = saver.expect("the header waits for more");
        let (mut a, mut b) = (saver.lane(), saver.lane());
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(a.add(0, &value, None).is_ok());
            all.push(b.add(1, &value, None).is_ok());
        }
        let first = all.iter().position(|ok| !ok).expect("there is no room");
        assert!(all[first..].iter().all(|ok| !ok), "{all:?}");
        drop((a, b));
        assert!(saver.finish().is_err());
    }
}

#[test]
fn fuzz_target_passes_on_mutated_files() {
    for (_, file) in FILES {
        super::fuzz::run(file);
        for at in (0..file.len()).step_by(3) {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = file.to_vec();
                changed[at] = byte;
                let end = changed.len() - 8;
                changed[end..].fill(0);
                super::fuzz::run(&changed);
            }
        }
    }
}
