//! Compares sparse, dense and a plain array of registers.

use super::*;
use crate::hyperloglog::sparse::SparseBuilder;
use weft_base::rng::Rng;
use weft_base::sixbit::REGISTERS;

/// The value of each register.
fn registers(bytes: &[u8]) -> Vec<u8> {
    let mut registers = Registers::new();
    registers.raise(View::of(bytes).expect("a HyperLogLog")).expect("whole");
    registers.each().collect()
}

fn added(bytes: &[u8], places: &[Place], limit: usize) -> Vec<u8> {
    let mut growing = SparseBuilder::new(bytes);
    for place in places {
        growing.add(*place, limit).expect("whole");
    }
    growing.bytes().to_vec()
}

/// Like [`added`] for one place, but by a patch and without `SparseBuilder`.
fn patched(bytes: &[u8], place: Place, limit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Step::Raise(patch) = step(&bytes, place, limit).expect("whole") {
        drop(bytes.splice(patch.range.clone(), patch.bytes().iter().copied()));
    }
    bytes
}

fn place(index: usize, rank: u8) -> Place {
    Place { index, rank }
}

fn decoded(bytes: &[u8]) -> String {
    decode(&bytes[HEADER..])
}

#[test]
fn splits_and_joins_runs() {
    let all = usize::MAX;
    let one = added(EMPTY, &[place(100, 2)], all);
    assert_eq!(decoded(&one), "Z:100 v:2,1 Z:16283");
    let edge = added(EMPTY, &[place(64, 3), place(16383, 1), place(0, 1)], all);
    assert_eq!(decoded(&edge), "v:1,1 z:63 v:3,1 Z:16318 v:1,1");
    let joined = added(&one, &[place(102, 2), place(101, 2), place(103, 2)], all);
    assert_eq!(decoded(&joined), "Z:100 v:2,4 Z:16280");
    let full = added(&joined, &[place(104, 2), place(102, 9)], all);
    assert_eq!(decoded(&full), "Z:100 v:2,2 v:9,1 v:2,2 Z:16279");
    assert_eq!(added(&full, &[place(102, 8), place(100, 1)], all), full, "no higher");
}

#[test]
fn exceeded_limits_require_dense_form() {
    let mut growing = SparseBuilder::new(EMPTY);
    assert_eq!(growing.add(place(5, 33), usize::MAX), Ok(Added::TooMuch));
    assert_eq!(growing.add(place(5, 1), EMPTY.len()), Ok(Added::TooMuch));
    assert_eq!(growing.into_changed(), None);
    let grown = added(EMPTY, &[place(5, 1), place(6, 2)], usize::MAX);
    let mut growing = SparseBuilder::new(&grown);
    // A change that does not grow is allowed at any length.
    assert_eq!(growing.add(place(6, 3), 0), Ok(Added::Raised));
    assert_eq!(growing.add(place(9, 3), 0), Ok(Added::TooMuch));
}

/// The order of the places only affects where searches begin, never the registers.
#[test]
fn sparse_dense_and_plain_agree() {
    let mut rng = Rng::new(7);
    for round in 0..60 {
        let spread = [40, 700, REGISTERS][round % 3];
        let mut plain = vec![0; REGISTERS];
        let mut dense = to_dense(EMPTY).expect("whole");
        let mut bytes = EMPTY.to_vec();
        for _ in 0..8 {
            let mut places: Vec<Place> = (0..60)
                .map(|_| place(rng.below(spread as u64) as usize, 1 + rng.below(4) as u8))
                .collect();
            if rng.below(2) == 0 {
                places.sort_by_key(|place| place.index);
            }
            // A search from the beginning each time gives the same runs.
            let mut slowly = bytes.clone();
            for one in &places {
                let patched = patched(&slowly, *one, usize::MAX);
                slowly = added(&slowly, &[*one], usize::MAX);
                assert_eq!(decoded(&patched), decoded(&slowly));
                let higher = plain[one.index] < one.rank;
                assert_eq!(add_dense(&mut dense, *one), higher);
                plain[one.index] = one.rank.max(plain[one.index]);
            }
            bytes = added(&bytes, &places, usize::MAX);
            assert_eq!(decoded(&bytes), decoded(&slowly));
        }
        assert_eq!(registers(&bytes), plain);
        assert_eq!(registers(&dense), plain);
        assert_eq!(to_dense(&bytes).expect("whole"), dense);
        let views = [&bytes, &dense].map(|bytes| count(View::of(bytes).expect("one")));
        assert_eq!(views[0], views[1]);
    }
}

#[test]
fn rejects_bytes_with_invalid_header() {
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = EMPTY.to_vec();
        change(&mut bytes);
        View::of(&bytes).is_some()
    };
    assert!(with(|_| {}));
    assert!(with(|b| b.truncate(16)), "a header is enough");
    assert!(with(|b| b[5..8].fill(7)));
    assert!(!with(|b| b.truncate(15)));
    assert!(!with(|b| b[0] = b'h'));
    assert!(!with(|b| b[4] = 2));
    assert!(!with(|b| b[4] = 0));
    assert!(with(|b| {
        b[4] = 0;
        b.resize(DENSE, 0);
    }));
    assert!(!with(|b| {
        b[4] = 0;
        b.resize(DENSE + 1, 0);
    }));
}

#[test]
fn rejects_runs_with_wrong_total_length() {
    for runs in [&b""[..], b"\x7f\xfe", b"\x7f", b"\x7f\xff\x00", b"\x7f\xff\xff", &[0x83; 4097]] {
        let bytes = [&EMPTY[..HEADER], runs].concat();
        assert_eq!(count(View::Sparse(runs)), Err(Corrupted), "{runs:?}");
        assert_eq!(to_dense(&bytes), Err(Corrupted), "{runs:?}");
        assert_eq!(Registers::new().raise(View::Sparse(runs)), Err(Corrupted), "{runs:?}");
    }
    let short = [&EMPTY[..HEADER], b"\x7f\xfe"].concat();
    assert_eq!(SparseBuilder::new(&short).add(place(16383, 1), 3000), Err(Corrupted));
    assert_eq!(SparseBuilder::new(&short).add(place(16382, 1), 3000), Ok(Added::Raised));
    // As in Valkey: the missing second byte counts as present.
    let half = [&EMPTY[..HEADER], b"\x7f"].concat();
    assert_eq!(&added(&half, &[place(12711, 2)], 3000)[HEADER..], b"q\xa6\x84M");
    assert_eq!(&patched(&half, place(12711, 2), 3000)[HEADER..], b"q\xa6\x84M");
    assert_eq!(decode(b"\x7f"), "Z:16129");
    assert_eq!(count(View::Sparse(&[0x83; 4096])), Ok(23_637));
}

/// The estimate stays within five standard errors of the number of added elements.
#[test]
fn estimates_are_within_error_bounds() {
    let mut dense = to_dense(EMPTY).expect("whole");
    let mut next = 1;
    for n in 1..=300_000_u64 {
        add_dense(&mut dense, Place::of(&n.to_le_bytes()));
        if n == next {
            let estimate = count(View::of(&dense).expect("dense")).expect("dense") as f64;
            let error = (estimate - n as f64).abs() / n as f64;
            assert!(error <= 5.0 * 1.04 / (REGISTERS as f64).sqrt(), "{estimate} of {n}");
            next += next / 3 + 1;
        }
    }
}

#[test]
fn estimate_is_cached_until_outdated() {
    let mut bytes = EMPTY.to_vec();
    assert_eq!(cached(&bytes), None);
    cache(&mut bytes, 77);
    assert_eq!(cached(&bytes), Some(77));
    invalidate_cache(&mut bytes);
    assert_eq!(cached(&bytes), None);
    assert_eq!(&bytes[8..16], b"\x4d\0\0\0\0\0\0\x80", "only marked");
}
