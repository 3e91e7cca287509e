//! Every limit of the encoding, and edits against a vector of texts.

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

fn pack(texts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        let at = bytes.len();
        insert(&mut bytes, at, &[Encoded::of(text)]);
    }
    bytes
}

fn unpack(bytes: &[u8]) -> Vec<Vec<u8>> {
    iter(bytes).map(|(_, v)| v.to_vec()).collect()
}

#[test]
fn every_length_and_integer_comes_back_from_both_ends() {
    let texts = texts();
    let bytes = pack(&texts);
    assert_eq!(unpack(&bytes), texts);
    let mut back: Vec<_> = iter(&bytes).rev().map(|(_, v)| v.to_vec()).collect();
    back.reverse();
    assert_eq!(back, texts);
    assert_eq!(check(&bytes), Some(texts.len()));
    for (n, text) in texts.iter().enumerate() {
        assert_eq!(find(&bytes, text, 1), nth(&bytes, n), "{n}");
    }
}

#[test]
fn a_difference_is_seen_wherever_it_is() {
    for len in 0..40 {
        let text = vec![b'x'; len];
        let bytes = pack(std::slice::from_ref(&text));
        assert_eq!(find(&bytes, &text, 1), Some(0));
        for at in 0..len {
            let mut other = text.clone();
            other[at] = b'y';
            assert_eq!(find(&bytes, &other, 1), None, "byte {at} of {len}");
        }
    }
}

/// Entries as they stand in the RDB format; its description gives these examples.
#[test]
fn the_bytes_are_those_of_a_listpack() {
    assert_eq!(pack(&[b"0".to_vec()]), [0x00, 1]);
    assert_eq!(pack(&[b"127".to_vec()]), [0x7f, 1]);
    assert_eq!(pack(&[b"hello".to_vec()]), *b"\x85hello\x06");
    assert_eq!(pack(&[b"-1".to_vec()]), [0xdf, 0xff, 2]);
    assert_eq!(pack(&[b"4096".to_vec()]), [0xf1, 0x00, 0x10, 3]);
    let long = pack(&[vec![b'x'; 500]]);
    assert_eq!((&long[..2], &long[502..]), (&[0xe1, 0xf4][..], &[0x03, 0xf6][..]));
}

#[test]
fn nonsense_is_refused() {
    let good = pack(&[b"hello".to_vec(), b"4096".to_vec(), vec![b'x'; 500]]);
    for cut in 1..good.len() {
        let known = [0, 7, 11, good.len()];
        assert_eq!(check(&good[..cut]).is_some(), known.contains(&cut), "{cut}");
    }
    // Not the shortest encoding: 5 in two bytes, the text "5", a 64-bit 5.
    for bytes in [&[0xc0, 5, 2][..], b"\x815\x02", &[0xf4, 5, 0, 0, 0, 0, 0, 0, 0, 9]] {
        assert_eq!(check(bytes), None);
    }
    assert_eq!(check(&[0xff; 16]), None);
}

proptest! {
    #[test]
    fn edits_are_those_of_a_vector(
        start in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..12),
        edits in prop::collection::vec((0usize..12, 0usize..4, prop::collection::vec(
            prop::collection::vec(b'0'..=b'9', 0..4), 0..4)), 0..12),
    ) {
        let mut model = start.clone();
        let mut bytes = pack(&start);
        for (at, count, with) in edits {
            let at = at.min(model.len());
            let count = count.min(model.len() - at);
            let offset = nth(&bytes, at).unwrap_or(bytes.len());
            let entries: Vec<_> = with.iter().map(|t| Encoded::of(t)).collect();
            replace(&mut bytes, offset, count, &entries);
            model.splice(at..at + count, with);
        }
        prop_assert_eq!(unpack(&bytes), model);
    }

    #[test]
    fn checking_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some(n) = check(&bytes) {
            prop_assert_eq!(iter(&bytes).count(), n);
            prop_assert_eq!(iter(&bytes).rev().count(), n);
        }
    }
}
