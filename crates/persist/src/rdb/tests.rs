//! Values of every type and encoding are encoded and decoded, values of other servers are decoded,
//! and invalid ones are refused.

use super::fuzz::content;
use super::*;
use proptest::prelude::*;
use weft_types::list::{End, Waste};
use weft_types::packed::Value;
use weft_types::stream::{Keep, Stream, StreamId, Trim};
use weft_types::string::New;
use weft_types::{Kind, Limits, Record, Shared, Type, hash, list, set, string, value, zset};

fn target(limits: &Limits) -> Target<'_> {
    Target { key: b"k", expiry: Some(77), clock: 5, limits, plain_most: usize::MAX }
}

fn read(bytes: &[u8], dialect: Dialect) -> Result<Record, Fault> {
    decode(&mut Slice(bytes), dialect, &target(&Limits::default()))
}

/// Describes a value and its encoding, or the error.
fn describe(bytes: &[u8]) -> String {
    describe_as(bytes, Dialect::Valkey)
}

fn describe_as(bytes: &[u8], dialect: Dialect) -> String {
    match read(bytes, dialect) {
        Err(e) => format!("{e}"),
        Ok(record) => {
            assert_eq!((record.key(), record.expiry(), record.clock()), (&b"k"[..], Some(77), 5));
            let texts: Vec<String> = texts(&record);
            format!("{} {}", value::encoding_name(&record), texts.join(" "))
        }
    }
}

fn texts(record: &Record) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(view) = zset::View::of(record) {
        view.for_each(|m, s| all.push(format!("{}={s}", String::from_utf8_lossy(&m.to_vec()))));
        return all;
    }
    if let Some(hash) = hash::Hash::of(record, i64::MIN) {
        hash.each(|p| {
            let text = |v: Value<'_>| String::from_utf8_lossy(&v.to_vec()).into_owned();
            let at = p.expiry.map_or(String::new(), |at| format!("@{at}"));
            all.push(format!("{}={}{at}", text(p.field), text(p.value)));
        });
        all.sort();
        return all;
    }
    let all = content(record);
    all[..all.len() - 1].iter().map(|t| String::from_utf8_lossy(t).into_owned()).collect()
}

fn values() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let text = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        (-300i64..300).prop_map(|n| n.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..20),
        (0usize..300).prop_map(|n| vec![b'z'; n]),
        (4000usize..9000).prop_map(|n| vec![b'q'; n]),
    ];
    prop_oneof![
        4 => prop::collection::vec(text.clone(), 1..12),
        1 => prop::collection::vec(text, 100..700),
    ]
}

/// A value of each type made of these texts.
fn records(texts: &[Vec<u8>], limits: &Limits) -> Vec<Record> {
    let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let mut all = vec![string::record(b"k", New::Bytes(&texts.concat()), Some(77), 5)];
    all.push(string::record(b"k", New::Bytes(slices[0]), Some(77), 5));
    let list = list::create(b"k", 5, End::Right, &slices, limits);
    // These nodes could not result from pushes.
    let mut waste = Waste::default();
    let list = list::trim(list, 0, slices.len().div_ceil(2), limits, &mut waste);
    all.push(list::insert(list, slices[0], b"inserted", true, limits).0);
    let mut set = set::create(b"k", slices[0], 1, Some(77), 5, limits);
    let mut ints = set::Builder::new(b"k", set::Start::Ints, Some(77), 5, limits);
    let mut zset = zset::Edit::new(b"k", Some(77), 5);
    let mut hash = hash::create(b"k", &[], 5, limits);
    let mut timed = hash::create(b"k", &[], 5, limits);
    for (n, text) in slices.iter().enumerate() {
        set = set::add(set, Value::Bytes(text), limits).0;
        ints.add(Value::Int(n as i64 * 40_000_000_000 * text.len() as i64));
        let score = [n as f64, -0.5, f64::INFINITY, 1e300, text.len() as f64 / 7.0][n % 5];
        zset.change(text, limits, |_| Some(score));
        hash = hash::set(hash, text, slices[slices.len() - 1 - n], None, 0, limits).0;
        let expiry = (n % 3 != 0).then_some(n as i64 * 1_000_000_007);
        timed = hash::set(timed, text, slices[0], expiry, 0, limits).0;
    }
    all.extend([set, ints.finish(), zset.finish(), hash, timed]);
    all
}

fn written(record: &Record, form: Form) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(record, form, &mut bytes).expect("a vector takes everything");
    bytes
}

/// Adds elements to a collection and removes some.
fn changed(mut record: Record, limits: &Limits) -> Record {
    for n in 0..50u8 {
        let text = [n; 40];
        record = match Kind::of(record.kind()).type_of() {
            Type::String => string::append(record, &text),
            Type::List => {
                let record = list::push(record, End::Left, &[&text], limits);
                list::pop(record, End::Right, 1, limits, &mut Waste::default(), |_| {})
            }
            Type::Set => set::pop(
                set::add(record, Value::Bytes(&text), limits).0,
                &mut || u64::from(n) << 57,
                |_| {},
            ),
            Type::Zset => {
                let mut edit = zset::Edit::of(record).expect("a sorted set");
                edit.change(&text, limits, |_| Some(f64::from(n)));
                edit.pop(1, n % 2 == 0, |_, _| {});
                edit.finish()
            }
            Type::Hash => hash::set(record, &text, &text, None, 0, limits).0,
            Type::Stream => unreachable!("streams have a separate test"),
        };
    }
    record
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn encoded_values_decode_to_the_same_in_any_form(texts in values()) {
        let limits = Limits::default();
        for record in records(&texts, &limits) {
            for version in [9, 10, 11, 80] {
                for compress in [false, true] {
                    let mut bytes = Vec::new();
                    let code = encode(&record, Form { version, compress }, &mut bytes).unwrap();
                    prop_assert_eq!(bytes[0], code as u8);
                    prop_assert_eq!(code, code_of(&record, version));
                    let again = decode(&mut Slice(&bytes), Dialect::Valkey, &target(&limits));
                    let again = again.unwrap_or_else(|e| panic!("{code:?}: {e}"));
                    prop_assert_eq!(content(&again), content(&record));
                    prop_assert_eq!((again.expiry(), again.clock()), (Some(77), 5));
                    if version == 80 {
                        // The same encoding, except where only decoding restores a compact one.
                        let (new, old) = (value::encoding_name(&again), value::encoding_name(&record));
                        let same = new == old || (new, old) == ("listpack", "hashtable")
                            || (new, old) == ("listpack", "quicklist")
                            || (new, old) == ("intset", "hashtable")
                            || (new, old) == ("intset", "listpack")
                            || (new, old) == ("listpack", "skiplist")
                            || (new, old) == ("embstr", "raw");
                        prop_assert!(same, "{} was {}", new, old);
                    }
                    // Decodes from a reader, and from truncated input.
                    let mut stream = Reader(&bytes[..]);
                    let streamed = decode(&mut stream, Dialect::Valkey, &target(&limits)).unwrap();
                    prop_assert_eq!(content(&streamed), content(&record));
                    let short = bytes.len() * texts.len() % bytes.len();
                    prop_assert!(read(&bytes[..short], Dialect::Valkey).is_err());
                }
            }
        }
    }

    /// A value is saved on another thread while the key changes.
    #[test]
    fn shared_value_is_encoded_as_at_sharing_time(texts in values()) {
        let limits = Limits::default();
        for record in records(&texts, &limits) {
            let forms = [Form { version: 9, compress: false }, Form { version: 80, compress: true }];
            let wanted = forms.map(|form| written(&record, form));
            let shared = Shared::of(&record);
            let bytes = std::thread::scope(|scope| {
                let again = [Shared::of(&record), Shared::of(&record)];
                let saving = scope.spawn(|| forms.map(|form| written(&shared, form)));
                let passing = scope.spawn(move || {
                    let mut bytes = [Vec::new(), Vec::new()];
                    for ((shared, form), to) in again.into_iter().zip(forms).zip(&mut bytes) {
                        encode_shared(shared, form, to).expect("a vector takes everything");
                    }
                    bytes
                });
                drop(changed(record, &limits));
                assert!(passing.join().expect("it was saved") == wanted);
                saving.join().expect("it was saved")
            });
            prop_assert!(bytes == wanted);
        }
    }

    #[test]
    fn mutated_bytes_are_refused_or_valid(
        texts in values(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let limits = Limits::default();
        for record in records(&texts, &limits) {
            for version in [9, 80] {
                let mut bytes = vec![2];
                encode(&record, Form { version, compress: version == 9 }, &mut bytes).unwrap();
                for (at, byte) in &flips {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
                super::fuzz::run(&bytes);
            }
        }
    }

    #[test]
    fn random_bytes_are_refused_or_valid(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        super::fuzz::run(&bytes);
    }
}

#[test]
fn encoding_matches_the_reference() {
    // Bodies of DUMP of Valkey 9.1.
    let same = |record: Record, expected: &[u8]| {
        let mut bytes = Vec::new();
        encode(&record, Form { version: VERSION, compress: false }, &mut bytes).expect("memory");
        assert_eq!(bytes, expected);
    };
    let limits = Limits::default();
    same(string::record(b"k", New::Bytes(b"hello"), None, 0), b"\x00\x05hello");
    same(string::record(b"k", New::Bytes(b"12345"), None, 0), b"\x00\xc190");
    let list = list::create(b"k", 0, End::Right, &[b"a", b"b", b"1"], &limits);
    same(list, b"\x12\x01\x02\x0f\x0f\x00\x00\x00\x03\x00\x81a\x02\x81b\x02\x01\x01\xff");
    let mut set = set::create(b"k", b"1", 3, None, 0, &limits);
    for member in [2, 3] {
        set = set::add(set, Value::Int(member), &limits).0;
    }
    same(set, b"\x0b\x0e\x02\x00\x00\x00\x03\x00\x00\x00\x01\x00\x02\x00\x03\x00");
    let set = set::create(b"k", b"a", 2, None, 0, &limits);
    let set = set::add(set, Value::Bytes(b"b"), &limits).0;
    same(set, b"\x14\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff");
    let zset = zset::build(b"k", None, 0, &[(b"a", 1.0), (b"b", 2.5)], &limits);
    same(zset, b"\x11\x14\x14\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x81b\x02\x832.5\x04\xff");
    let hash = hash::set(hash::create(b"k", &[], 0, &limits), b"f", b"v", None, 0, &limits).0;
    same(hash, b"\x10\x0d\x0d\x00\x00\x00\x02\x00\x81f\x02\x81v\x02\xff");
}

#[test]
fn strings_and_lengths_are_decoded() {
    assert_eq!(describe(b"\x00\x05hello"), "embstr hello");
    assert_eq!(describe(b"\x00\x40\x05hello"), "embstr hello");
    assert_eq!(describe(b"\x00\x80\0\0\0\x05hello"), "embstr hello");
    assert_eq!(describe(b"\x00\x81\0\0\0\0\0\0\0\x05hello"), "embstr hello");
    assert_eq!(describe(b"\x00\xc0\x85"), "int -123");
    assert_eq!(describe(b"\x00\xc1\x85\x01"), "int 389");
    assert_eq!(describe(b"\x00\xc2\x85\x01\xff\xff"), "int -65147");
    assert_eq!(
        describe(b"\x00\xc3\x09\x40\x64\x01aa\xe0\x57\x00\x01aa").len(),
        "embstr ".len() + 100
    );
    for short in
        [&b"\x00\x06hello"[..], b"\x00\x81\x7f\xff\xff\xff\xff\xff\xff\xffhello", b"", b"\x00"]
    {
        assert_eq!(describe(short), "it ends in the middle");
    }
    for wrong in [&b"\x00\x82\x05hello"[..], b"\x00\xc4aaaa", b"\x02\x82\x01\x01a"] {
        assert!(read(wrong, Dialect::Valkey).is_err(), "{wrong:?}");
    }
}

/// A string of these bytes, with its length first.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [&[0x40 | (bytes.len() >> 8) as u8, bytes.len() as u8], bytes].concat()
}

fn listpack(count: u16, entries: &[u8]) -> Vec<u8> {
    let len = entries.len() as u32 + 7;
    framed(&[&len.to_le_bytes()[..], &count.to_le_bytes(), entries, b"\xff"].concat())
}

fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
    let (mut body, mut before, mut tail) = (Vec::new(), 0, 10);
    for entry in entries {
        tail = 10 + body.len();
        body.push(before);
        body.extend_from_slice(entry);
        before = 1 + entry.len() as u8;
    }
    let len = body.len() as u32 + 11;
    let head = [len.to_le_bytes(), (tail as u32).to_le_bytes()].concat();
    framed(&[&head[..], &(entries.len() as u16).to_le_bytes(), &body, b"\xff"].concat())
}

fn with(code: u8, body: &[u8]) -> Vec<u8> {
    [&[code], body].concat()
}

#[test]
fn listpacks_are_decoded() {
    let pair = b"\x81a\x02\x01\x01";
    assert_eq!(describe(&with(16, &listpack(2, pair))), "listpack a=1");
    assert_eq!(describe(&with(16, &listpack(u16::MAX, pair))), "listpack a=1");
    assert_eq!(describe(&with(16, &listpack(3, pair))), "a broken listpack");
    assert_eq!(describe(&with(16, &listpack(1, b"\x81a\x02"))), "an unpaired element");
    assert_eq!(describe(&with(16, &listpack(4, &pair.repeat(2)))), "a duplicate element");
    assert_eq!(describe(&with(16, &listpack(0, b""))), "an empty collection");
    // A backward length longer than necessary, whose first byte belongs to the entry; and a wrong one.
    let number = b"\x81a\x02\xd0\x00\x82";
    assert_eq!(describe(&with(16, &listpack(2, number))), "listpack a=-4096");
    assert_eq!(describe(&with(16, &listpack(2, b"\x81a\x02\xd0\x01\x82"))), "a broken listpack");
    // A number encoded as text decodes to the number.
    let text = b"\x8212\x03\x01\x01";
    assert_eq!(describe(&with(16, &listpack(2, text))), "listpack 12=1");
    let twice = [&text[..], b"\x0c\x01\x01\x01"].concat();
    assert_eq!(describe(&with(16, &listpack(4, &twice))), "a duplicate element");
    // Every encoding of an integer, with its limits.
    let ints = b"\x7f\x01\xdf\xff\x02\xd0\x00\x02\xf1\x00\x80\x03\xf2\x00\x00\x80\x04\xf3\x00\x00\x00\x80\x05\
                 \xf4\x00\x00\x00\x00\x00\x00\x00\x80\x09";
    let all = "127 -1 -4096 -32768 -8388608 -2147483648 -9223372036854775808";
    let list = [&[1, 2], &listpack(7, ints)[..]].concat();
    assert_eq!(describe(&with(18, &list)), format!("listpack {all}"));
    assert_eq!(describe(&with(20, &listpack(1, b"\x01\x01"))), "listpack 1");
    for broken in
        [&b"\x81a\x01"[..], b"\x81a", b"\x83a\x02", b"\xf5\x01", b"\xf0\xff\xff\xff\xff\x02"]
    {
        assert_eq!(describe(&with(20, &listpack(1, broken))), "a broken listpack", "{broken:?}");
    }
}

#[test]
fn ziplists_and_zipmaps_are_decoded() {
    let entries: [&[u8]; 6] = [
        b"\x01a",
        b"\xf2",
        b"\xfe\x80",
        b"\xc0\x00\x80",
        b"\xf0\x00\x00\x80",
        b"\xd0\x00\x00\x00\x80",
    ];
    let all = "a 1 -128 -32768 -8388608 -2147483648";
    assert_eq!(describe(&with(10, &ziplist(&entries))), format!("quicklist {all}"));
    assert_eq!(describe(&[&[14, 1][..], &ziplist(&entries)].concat()), format!("listpack {all}"));
    assert_eq!(describe(&with(13, &ziplist(&[b"\x01f", b"\x01v"]))), "listpack f=v");
    assert_eq!(describe(&with(12, &ziplist(&[b"\x01m", b"\x031.5"]))), "listpack m=1.5");
    let mut broken = ziplist(&entries);
    broken[6] += 1;
    assert_eq!(describe(&with(10, &broken)), "a broken ziplist", "the offset of the last one");
    let mut broken = ziplist(&entries);
    broken[15] += 1;
    assert_eq!(describe(&with(10, &broken)), "a broken ziplist", "a backward length");
    let zipmap = framed(b"\x02\x01a\x01\x00v\x01b\x01\x01wz\xff");
    assert_eq!(describe(&with(9, &zipmap)), "listpack a=v b=w");
    assert_eq!(describe(&with(9, &framed(b"\x03\x01a\x01\x00v\xff"))), "a broken zipmap");
    assert_eq!(describe(&with(9, &framed(b"\x00\xff"))), "an empty collection");
}

#[test]
fn collections_are_decoded_element_by_element() {
    assert_eq!(describe(b"\x01\x02\x01a\xc0\x05"), "listpack a 5");
    assert_eq!(describe(b"\x02\x02\xc0\x07\x011"), "intset 1 7");
    assert_eq!(describe(b"\x02\x03\xc0\x07\x011\x01x"), "listpack 1 7 x");
    assert_eq!(describe(b"\x04\x01\x01f\x01v"), "listpack f=v");
    assert_eq!(describe(b"\x03\x03\x01a\x031.5\x01b\xfe\x01c\xff"), "listpack c=-inf a=1.5 b=inf");
    assert_eq!(describe(b"\x05\x01\x01a\0\0\0\0\0\0\x04\x40"), "listpack a=2.5");
    for code in [1, 2, 3, 4, 5, 14, 18, 22] {
        assert_eq!(describe(&[code, 0]), "an empty collection", "{code}");
    }
    for twice in
        [&b"\x02\x02\x01a\x01a"[..], b"\x02\x02\xc0\x01\x011", b"\x04\x02\x01f\x01v\x01f\x01w"]
    {
        assert_eq!(describe(twice), "a duplicate element", "{twice:?}");
    }
    let nan = f64::NAN.to_le_bytes();
    for score in [&[5, 1, 1, b'a'][..], &nan].concat().chunks(12).chain([&b"\x03\x01\x01a\xfd"[..]])
    {
        assert_eq!(describe(score), "a score that is not a number");
    }
    for text in [&b"abc"[..], b"12abc", b"", b"1\x002"] {
        let zset = [&[3, 1, 1, b'a', text.len() as u8][..], text].concat();
        assert_eq!(describe(&zset), "a score that is not a number", "{text:?}");
    }
}

#[test]
fn list_nodes_are_decoded() {
    let (a, b) = (listpack(1, b"\x81a\x02"), listpack(1, b"\x81b\x02"));
    let nodes = |list: &[&[u8]]| describe(&[&[18, list.len() as u8][..], &list.concat()].concat());
    let packed = |node: &[u8]| [&[2][..], node].concat();
    assert_eq!(nodes(&[&packed(&a)]), "listpack a");
    assert_eq!(nodes(&[&packed(&a), &packed(&b)]), "quicklist a b");
    assert_eq!(nodes(&[b"\x01\x03abc"]), "quicklist abc");
    assert_eq!(nodes(&[b"\x01\x03abc", &packed(&a)]), "quicklist abc a");
    assert_eq!(nodes(&[&packed(&listpack(0, b"")), &packed(&a)]), "listpack a");
    assert_eq!(nodes(&[&packed(&listpack(0, b""))]), "an empty collection");
    assert_eq!(nodes(&[b"\x03\x03abc"]), "an unknown kind of node");
    assert_eq!(nodes(&[b"\x01\x00"]), "an empty element in a separate node");
}

#[test]
fn expiring_fields_are_decoded() {
    let forever = [0xff; 8];
    let hash = [&b"\x16\x02\x01f\x01v"[..], &9u64.to_le_bytes(), b"\x01g\x01w", &forever].concat();
    assert_eq!(describe(&hash), "hashtable f=v@9 g=w");
    assert_eq!(describe_as(&hash, Dialect::Common), "hashtable f=v@9 g=w");
    assert_eq!(describe_as(&hash, Dialect::Redis), "values of type 22 can't be read");
    let before = [&b"\x16\x01\x01f\x01v"[..], &(-2i64).to_le_bytes()].concat();
    assert_eq!(describe(&before), "an invalid expiry");
    let least = 1000u64.to_le_bytes();
    let redis = [&[24][..], &least, b"\x02\x00\x01f\x01v\x06\x01g\x01w"].concat();
    assert_eq!(describe_as(&redis, Dialect::Redis), "hashtable f=v g=w@1005");
    let entries = b"\x81f\x02\x81v\x02\x00\x01\x81g\x02\x81w\x02\xc3\xed\x02";
    let redis = [&[25][..], &least, &listpack(6, entries)].concat();
    assert_eq!(describe_as(&redis, Dialect::Redis), "hashtable f=v g=w@1005");
    let odd = [&[25][..], &least, &listpack(2, &entries[..6])].concat();
    assert_eq!(describe_as(&odd, Dialect::Redis), "an unpaired element");
    for (code, dialect) in [
        (24, Dialect::Valkey),
        (25, Dialect::Common),
        (6, Dialect::Redis),
        (7, Dialect::Common),
        (255, Dialect::Valkey),
    ] {
        assert_eq!(describe_as(&[code], dialect), format!("values of type {code} can't be read"));
    }
}

#[test]
fn intsets_must_be_ascending() {
    let intset = |width: u32, count: u32, ints: &[u8]| {
        let bytes = [&width.to_le_bytes()[..], &count.to_le_bytes(), ints].concat();
        describe(&with(11, &framed(&bytes)))
    };
    assert_eq!(intset(2, 3, b"\xff\xff\x01\0\x02\0"), "intset -1 1 2");
    assert_eq!(intset(8, 1, &i64::MIN.to_le_bytes()), format!("intset {}", i64::MIN));
    for (width, count, ints) in [
        (2, 2, &b"\x01\0\x01\0"[..]),
        (2, 2, b"\x02\0\x01\0"),
        (2, 0, b""),
        (3, 1, b"\0\0\0"),
        (2, 2, b"\0\0"),
        (4, u32::MAX, b"\0\0\0\0"),
    ] {
        assert_eq!(intset(width, count, ints), "a broken intset");
    }
}

#[test]
fn compressed_strings_count_toward_the_limit() {
    let limits = Limits::default();
    let bytes = b"\x00\xc3\x09\x40\x64\x01aa\xe0\x57\x00\x01aa";
    for (most, fits) in [(100, true), (99, false)] {
        let target = Target { plain_most: most, ..target(&limits) };
        let read = decode(&mut Slice(bytes), Dialect::Valkey, &target);
        assert_eq!(read.is_ok(), fits);
        assert!(fits || matches!(read, Err(Fault::Long)));
    }
}

#[test]
fn payload_checksum_and_version_are_verified() {
    let mut payload = b"\x00\x05hello".to_vec();
    seal(&mut payload, Code::String);
    assert_eq!(open(&payload).map(|opened| opened.value), Some(&payload[..]));
    for at in 0..payload.len() {
        let mut broken = payload.clone();
        broken[at] ^= 0x10;
        assert!(open(&broken).is_none(), "{at}");
        assert!(open(&payload[..at]).is_none());
    }
    for (version, dialect) in [
        (0, None),
        (1, Some(Dialect::Common)),
        (11, Some(Dialect::Common)),
        (12, Some(Dialect::Redis)),
        (13, None),
        (79, None),
        (80, Some(Dialect::Valkey)),
        (81, None),
        (u16::MAX, None),
    ] {
        let mut payload = [&b"\x00\x05hello"[..], &u16::to_le_bytes(version)].concat();
        payload.extend(crc64(&payload).to_le_bytes());
        assert_eq!(open(&payload).map(|opened| opened.dialect), dialect, "{version}");
    }
    // A payload of Valkey 8.
    let theirs = b"\x00\x05hello\x0b\x00\n\xadb\x05\x98\xab\xc9\x83";
    assert!(open(theirs).is_some());
}

/// Valkey 9.1 and Redis 6 encoded these streams with nodes, deleted entries, groups and consumers.
#[test]
fn streams_of_other_servers_are_decoded() {
    let from_valkey = read(VALKEY_STREAM, Dialect::Valkey).expect("a stream");
    let text = String::from_utf8_lossy(&content(&from_valkey)[0]).into_owned();
    for part in [
        "ms: 40, seq: 1 } [([97], [52]), ([98], [116, 101, 120, 116])]",
        "ms: 90, seq: 5 } [([111, 116, 104, 101, 114], [102, 105, 101, 108, 100])]",
        "StreamId { ms: 90, seq: 5 } StreamId { ms: 30, seq: 1 } 9",
        "StreamId { ms: 60, seq: 1 } Some(6)",
        "StreamId { ms: 40, seq: 1 } Some(4)",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(code_of(&from_valkey, 9), Code::Stream3, "nothing less says all of it");
    // Valkey keeps deleted entries with a mark, Weft drops them; the rest is the same.
    let mut bytes = Vec::new();
    encode(&from_valkey, Form { version: VERSION, compress: false }, &mut bytes).expect("memory");
    assert_eq!(content(&read(&bytes, Dialect::Valkey).expect("our own")), content(&from_valkey));
    let from_redis = read(REDIS6_STREAM, Dialect::Common).expect("a stream");
    let text = String::from_utf8_lossy(&content(&from_redis)[0]).into_owned();
    assert!(text.contains("StreamId { ms: 40, seq: 1 } StreamId { ms: 0, seq: 0 } 3"), "{text}");
    for stream in [VALKEY_STREAM, REDIS6_STREAM] {
        for end in 0..stream.len() {
            assert!(read(&stream[..end], Dialect::Valkey).is_err(), "{end}");
        }
        for at in 1..stream.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff, stream[at] ^ 1, stream[at].wrapping_add(1)] {
                let mut bytes = [&[2], stream].concat();
                bytes[1 + at] = byte;
                super::fuzz::run(&bytes);
            }
        }
    }
}

const VALKEY_STREAM: &[u8] =
    include_bytes!("../../../../fuzz/corpus/rdb_value/seed-valkey9-stream").split_at(1).1;
const REDIS6_STREAM: &[u8] =
    include_bytes!("../../../../fuzz/corpus/rdb_value/seed-redis6-stream").split_at(1).1;

/// A stream with nodes and groups is saved while entries are added and removed.
#[test]
fn shared_stream_is_encoded_as_at_sharing_time() {
    let forms = [9, 10, 11, 80].map(|version| Form { version, compress: false });
    for (bytes, dialect) in [(VALKEY_STREAM, Dialect::Valkey), (REDIS6_STREAM, Dialect::Common)] {
        let mut record = read(bytes, dialect).expect("a stream");
        let wanted = forms.map(|form| written(&record, form));
        let shared = Shared::of(&record);
        let stream = Stream::of_mut(&mut record).expect("a stream");
        for n in 0..300 {
            let id = StreamId::new(stream.log.last_id.ms + 1, n);
            let pairs = [&b"some field"[..], b"and its value"];
            stream.log.append(id, &pairs, &Limits::default()).expect("it is small");
        }
        let trim = Trim { keep: Keep::Newest(200), approximate: false, limit: None };
        stream.log.trim(&trim, &mut weft_types::stream::Waste::default());
        stream.groups = None;
        assert!(forms.map(|form| written(&record, form)) != wanted);
        drop(record);
        assert!(forms.map(|form| written(&shared, form)) == wanted);
    }
}
