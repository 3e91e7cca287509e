//! Tests every limit of the encoding, and compares edits with a vector of texts.

use super::*;
use proptest::prelude::*;

/// Texts around every limit of the encoding.
fn texts() -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> =
        [0, 1, 63, 64, 125, 126, 127, 128, 4095, 4096, 16379, 16380, 70000]
            .map(|n| vec![b'x'; n])
            .to_vec();
    for bits in [0, 7, 12, 15, 23, 31, 63] {
        let limit = 1i128 << bits;
        for n in [limit - 1, limit, -limit, -limit - 1] {
            texts.push(n.to_string().into_bytes());
        }
    }
    for odd in ["007", "-0", "+1", "1.0", " 1"] {
        texts.push(odd.into());
    }
    texts
}

/// Entries in a plain vector.
struct Plain<F>(Vec<u8>, std::marker::PhantomData<F>);

impl<F: Form> EntryBuffer for Plain<F> {
    type Form = F;

    fn entries(&self) -> Entries<'_, F> {
        Entries::new(&self.0)
    }

    fn splice(&mut self, at: usize, old: usize, new: usize) -> &mut [u8] {
        self.0.splice(at..at + old, vec![0xee; new]);
        &mut self.0[at..at + new]
    }
}

fn pack<F: Form>(texts: &[Vec<u8>]) -> Plain<F> {
    let mut room = Plain(Vec::new(), std::marker::PhantomData);
    for text in texts {
        let end = room.0.len();
        replace(&mut room, end, 0, &[Encoded::of(text)]);
    }
    room
}

fn unpack<F: Form>(entries: Entries<'_, F>) -> Vec<Vec<u8>> {
    entries.iter().map(|(_, v)| v.to_vec()).collect()
}

/// Checks all queries on entries that must equal `texts`.
fn examine<F: Form>(entries: Entries<'_, F>, texts: &[Vec<u8>]) {
    assert_eq!(unpack(entries), texts);
    let offsets: Vec<usize> = entries.offsets().collect();
    assert!(entries.iter().map(|(at, _)| at).eq(offsets.iter().copied()));
    let back: Vec<_> = entries.back().map(|(at, v)| (at, v.to_vec())).collect();
    assert!(back.into_iter().rev().eq(offsets.iter().copied().zip(texts.iter().cloned())));
    let after = offsets.iter().copied().chain([entries.end()]);
    for (n, at) in after.enumerate() {
        assert_eq!(entries.offset_of(texts.len(), n), at);
        assert_eq!(unpack(entries.until(at)), texts[..n]);
        assert_eq!(unpack(entries.from(at)), texts[n..]);
    }
    for (text, at) in texts.iter().zip(&offsets) {
        let first = texts.iter().position(|t| t == text).map(|n| offsets[n]);
        assert_eq!(entries.find(&Encoded::of(text), 1), first);
        assert!(entries.holds(*at, &Encoded::of(text)));
    }
    let lengths = texts.iter().map(|text| Encoded::of(text).len::<F>());
    assert_eq!(entries.end(), lengths.sum());
}

/// Both forms have the same texts and convert to each other.
fn convert(texts: &[Vec<u8>]) {
    let (one, two) = (pack::<OneWay>(texts), pack::<TwoWay>(texts));
    assert_eq!(one.entries().in_form::<TwoWay>(), two.0);
    assert_eq!(two.entries().in_form::<OneWay>(), one.0);
    assert_eq!(one.entries().in_form::<OneWay>(), one.0);
    assert_eq!(one.entries().len_in::<TwoWay>(), two.0.len());
    assert_eq!(check(&two.0), Some(texts.len()));
}

#[test]
fn every_length_and_integer_is_read_in_both_directions() {
    let texts = texts();
    examine(pack::<OneWay>(&texts).entries(), &texts);
    examine(pack::<TwoWay>(&texts).entries(), &texts);
    convert(&texts);
}

#[test]
fn find_notices_a_difference_in_any_byte() {
    for len in 0..40 {
        let text = vec![b'x'; len];
        let room = pack::<OneWay>(std::slice::from_ref(&text));
        assert_eq!(room.entries().find(&Encoded::of(&text), 1), Some(0));
        for at in 0..len {
            let mut other = text.clone();
            other[at] = b'y';
            let found = room.entries().find(&Encoded::of(&other), 1);
            assert_eq!(found, None, "byte {at} of {len}");
        }
    }
}

#[test]
fn find_compares_only_multiples_of_step() {
    let texts: Vec<Vec<u8>> = [&b"a"[..], b"1", b"b", b"a", b"1", b"b"].map(Into::into).to_vec();
    let room = pack::<OneWay>(&texts);
    let find = |text, step| room.entries().find(&Encoded::of(text), step);
    assert_eq!((find(b"a", 2), find(b"1", 2), find(b"b", 2)), (Some(0), Some(7), Some(3)));
    assert_eq!((find(b"1", 3), find(b"a", 4), find(b"b", 4)), (None, Some(0), None));
}

/// Examples from the description of the format.
#[test]
fn encodes_like_a_listpack() {
    assert_eq!(pack::<TwoWay>(&[b"0".to_vec()]).0, [0x00, 1]);
    assert_eq!(pack::<TwoWay>(&[b"127".to_vec()]).0, [0x7f, 1]);
    assert_eq!(pack::<TwoWay>(&[b"hello".to_vec()]).0, *b"\x85hello\x06");
    assert_eq!(pack::<TwoWay>(&[b"-1".to_vec()]).0, [0xdf, 0xff, 2]);
    assert_eq!(pack::<TwoWay>(&[b"4096".to_vec()]).0, [0xf1, 0x00, 0x10, 3]);
    let long = pack::<TwoWay>(&[vec![b'x'; 500]]).0;
    assert_eq!((&long[..2], &long[502..]), (&[0xe1, 0xf4][..], &[0x03, 0xf6][..]));
}

#[test]
fn check_rejects_malformed_entries() {
    let good = pack::<TwoWay>(&[b"hello".to_vec(), b"4096".to_vec(), vec![b'x'; 500]]).0;
    for cut in 1..good.len() {
        let known = [0, 7, 11, good.len()];
        assert_eq!(check(&good[..cut]).is_some(), known.contains(&cut), "{cut}");
    }
    // Longer than the shortest encoding: 5 in two bytes, the text "5", a 64-bit 5.
    for bytes in [&[0xc0, 5, 2][..], b"\x815\x02", &[0xf4, 5, 0, 0, 0, 0, 0, 0, 0, 9]] {
        assert_eq!(check(bytes), None);
    }
    assert_eq!(check(&[0xff; 16]), None);
}

/// Splices of entries: position, number of removed entries, new entries.
type Edits = Vec<(usize, usize, Vec<Vec<u8>>)>;

fn edited<F: Form>(start: &[Vec<u8>], edits: &Edits) {
    let mut model = start.to_vec();
    let mut room = pack::<F>(start);
    for (at, count, with) in edits {
        let at = *at.min(&model.len());
        let count = *count.min(&(model.len() - at));
        let offset = room.entries().offset_of(model.len(), at);
        let entries: Vec<_> = with.iter().map(|t| Encoded::of(t)).collect();
        replace(&mut room, offset, count, &entries);
        model.splice(at..at + count, with.iter().cloned());
        assert_eq!(unpack(room.entries()), model);
    }
    examine(room.entries(), &model);
    convert(&model);
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..80),
        1 => prop::collection::vec(any::<u8>(), 110..140),
        4 => any::<i64>().prop_map(|n| (n >> (n & 63)).to_string().into_bytes()),
    ]
}

proptest! {
    #[test]
    fn edits_match_a_vector(
        start in prop::collection::vec(text(), 0..40),
        edits in prop::collection::vec(
            (0usize..50, 0usize..4, prop::collection::vec(text(), 0..4)), 0..12),
    ) {
        edited::<OneWay>(&start, &edits);
        edited::<TwoWay>(&start, &edits);
    }

    #[test]
    fn check_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some(n) = check(&bytes) {
            let entries = Entries::<TwoWay>::new(&bytes);
            prop_assert_eq!(entries.iter().count(), n);
            prop_assert_eq!(entries.back().count(), n);
            prop_assert_eq!(unpack(entries), unpack(Entries::<OneWay>::new(&entries.in_form::<OneWay>())));
        }
    }
}
