//! Compares large strings with a vector, while holders keep old images.

use super::pieces::PIECE;
use super::*;
use crate::{Shared, value};
use weft_base::rng::Rng;

/// A holder of a string; its bytes must not change.
enum Holder {
    Snapshot(Shared),
    /// As a reply holds it.
    Parts(Vec<(Blob, std::ops::Range<usize>)>),
    Copy(Record),
}

impl Holder {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Holder::Snapshot(shared) => whole(shared),
            Holder::Copy(record) => whole(record),
            Holder::Parts(parts) => {
                parts.iter().flat_map(|(blob, part)| blob[part.clone()].to_vec()).collect()
            }
        }
    }
}

fn whole(record: &Record) -> Vec<u8> {
    Str::of(record).expect("a string").bytes(&mut Digits::new()).into_owned()
}

fn parts(record: &Record) -> Vec<(Blob, std::ops::Range<usize>)> {
    let mut all = Vec::new();
    match Str::of(record).expect("a string") {
        Str::Pieces(pieces) => pieces.share(|blob, part| all.push((blob.clone(), part))),
        Str::Blob(_) => all.extend(share(record).map(|blob| (blob.clone(), 0..blob.len()))),
        short @ (Str::Bytes(_) | Str::Int(_)) => {
            let bytes = short.bytes(&mut Digits::new()).into_owned();
            all.push((Blob::new(bytes.clone()), 0..bytes.len()));
        }
    }
    all
}

fn large(len: usize, rng: &mut Rng) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// Half of the time near an end of a piece.
fn place(rng: &mut Rng, len: usize) -> usize {
    let any = rng.below(len as u64 + 1) as usize;
    match rng.below(3) {
        0 => any,
        _ => ((any / PIECE * PIECE) + rng.below(5) as usize).saturating_sub(2),
    }
}

/// Makes one edit to the string and to its model.
fn edit_both(record: Record, want: &mut Vec<u8>, rng: &mut Rng) -> Record {
    let (at, len) = (place(rng, want.len()), place(rng, 2 * PIECE));
    match rng.below(5) {
        0 => {
            let tail = large(len.min(PIECE + 9), rng);
            want.extend_from_slice(&tail);
            append(record, &tail)
        }
        1 | 2 => {
            let part = large(1 + rng.below(40) as usize, rng);
            write_both(record, want, at, &part)
        }
        3 => write_both(record, want, at, &large(len, rng)),
        _ if rng.below(8) == 0 => {
            // After the end.
            let far = want.len() + place(rng, 3 * PIECE);
            write_both(record, want, far, b"far")
        }
        _ => write_both(record, want, at, b""),
    }
}

fn write_both(record: Record, want: &mut Vec<u8>, at: usize, part: &[u8]) -> Record {
    let end = if part.is_empty() { 0 } else { at + part.len() };
    want.resize(want.len().max(end), 0);
    if !part.is_empty() {
        want[at..end].copy_from_slice(part);
    }
    edit_text(record, end, |mut text| {
        if !part.is_empty() {
            text.write(at, part);
        }
    })
}

fn check(record: &Record, want: &[u8]) {
    let mut room = Digits::new();
    let text = Str::of(record).expect("a string").text(&mut room);
    assert_eq!(text.len(), want.len());
    assert!(
        text.equals(want),
        "{:?}",
        text.all().zip(want.chunks(PIECE)).position(|(a, b)| a != b)
    );
    assert!(Holder::Parts(parts(record)).bytes() == want, "the parts for a reply");
    assert_eq!(text.get(want.len()), None);
}

/// Random edits, starting from various strings, while holders are added and dropped.
#[test]
#[cfg_attr(miri, ignore = "no unsafe code of its own, and megabytes")]
fn edits_match_a_vector_and_held_strings_are_stable() {
    let mut formed = [0; 2];
    for seed in 0..32 {
        let mut rng = Rng::new(seed);
        let len = match seed % 4 {
            0 => rng.below(9000) as usize,
            1 => PIECED_FROM + place(&mut rng, PIECE),
            2 => PIECED_FROM + PIECE * (seed as usize % 3),
            _ => PIECED_FROM + 3 * PIECE + place(&mut rng, 2 * PIECE),
        };
        let mut want = large(len, &mut rng);
        let mut record = super::record(b"k", New::Bytes(&want), Some(9), 3);
        let mut holders: Vec<(Holder, Vec<u8>)> = Vec::new();
        for _ in 0..60 {
            match rng.below(4) {
                0 => {
                    let holder = match rng.below(3) {
                        0 => Holder::Snapshot(Shared::of(&record)),
                        1 => Holder::Parts(parts(&record)),
                        _ => Holder::Copy(duplicate(&record, b"other", None, 0)),
                    };
                    holders.push((holder, want.clone()));
                }
                1 if !holders.is_empty() => {
                    let at = rng.below(holders.len() as u64) as usize;
                    match holders.swap_remove(at) {
                        // The copy is edited and the original is kept.
                        (Holder::Copy(copy), mut old) => {
                            let copy = edit_both(copy, &mut old, &mut rng);
                            check(&copy, &old);
                        }
                        (other, old) => assert!(other.bytes() == old),
                    }
                }
                _ => record = edit_both(record, &mut want, &mut rng),
            }
            check(&record, &want);
            formed[usize::from(Kind::of(record.kind()) == Kind::StrPieces)] += 1;
        }
        holders.iter().for_each(|(holder, old)| assert!(holder.bytes() == *old, "{seed}"));
        assert_eq!((record.expiry(), record.clock()), (Some(9), 3));
        assert!(value::memory(&record, 0) < 3 * want.len() + 3 * PIECE + 9000, "{seed}");
        let all = gathered(record);
        check(&all, &want);
    }
    assert!(formed.iter().all(|n| *n > 250), "both forms must occur: {formed:?}");
}

/// An edit of a held string copies one piece, whatever its size. The holder's bytes stay.
#[test]
#[cfg_attr(miri, ignore = "megabytes")]
fn edit_of_shared_string_copies_one_piece() {
    let want = vec![b'a'; 64 * PIECE + 5];
    let mut record = super::record(b"k", New::Bytes(&want), None, 0);
    let held = share(&record).expect("a blob");
    let address = held.as_ptr();
    assert!(edit_work(&record, 1) <= PIECE);
    assert!(edit_work(&record, want.len() + 1) <= PIECE);
    for n in 0..20 {
        record = edit_text(record, 0, |mut text| text.write(3 * PIECE + n, b"b"));
        record = append(record, b"c");
    }
    let Some(Str::Pieces(pieces)) = Str::of(&record) else { panic!("in pieces") };
    let own = pieces.memory() - want.len();
    assert!(own < 4 * PIECE, "two own pieces and a page: {own}");
    let mut from_base = 0;
    pieces.share(|blob, part| from_base += if blob.as_ptr() == address { part.len() } else { 0 });
    assert_eq!(from_base, 63 * PIECE);
    assert!(*held == want);
}

/// While a snapshot holds a string, all pieces may be copied out. Then they are put back, and the
/// string is in its buffer again.
#[test]
#[cfg_attr(miri, ignore = "megabytes")]
fn pieces_are_put_back_into_the_base() {
    let len = 40 * PIECE;
    let mut record = super::record(b"k", New::Bytes(&vec![b'a'; len]), None, 0);
    let address = share(&record).expect("a blob").as_ptr();
    let shared = Shared::of(&record);
    assert!(shared.extra_memory() < 1000, "{}", shared.extra_memory());
    let before = Shared::copied_bytes();
    for n in 0..20 {
        record = edit_text(record, 0, |mut text| text.write(2 * n * PIECE, b"b"));
    }
    // Other tests copy at the same time.
    assert!(Shared::copied_bytes() - before >= 20 * PIECE as u64);
    assert!(value::memory(&record, 0) > len + 20 * PIECE);
    drop(shared);
    for n in 0..20 {
        record = edit_text(record, 0, |mut text| text.write(n, b"c"));
    }
    let back = share(&record).expect("a blob");
    assert_eq!(back.as_ptr(), address);
    let mut want = vec![b'a'; len];
    (0..20).for_each(|n| want[2 * n * PIECE] = b'b');
    want[..20].fill(b'c');
    assert!(*back == want);
    assert!(value::memory(&record, 0) < len + 1000);
}

/// When every piece was copied out, the last holder frees the base.
#[test]
#[cfg_attr(miri, ignore = "megabytes")]
fn fully_copied_base_is_released() {
    let len = 20 * PIECE;
    let mut record = super::record(b"k", New::Bytes(&vec![b'a'; len]), None, 0);
    let held = share(&record).expect("a blob");
    for n in 0..20 {
        record = edit_text(record, 0, |mut text| text.write(n * PIECE + 1, b"b"));
    }
    assert_eq!(std::sync::Arc::strong_count(&held), 1);
    assert!(value::memory(&record, 0) < len + 3000);
}

/// A write far beyond the end takes no memory for the gap.
#[test]
#[cfg_attr(miri, ignore = "megabytes")]
fn zeros_take_no_memory() {
    for old in [&b""[..], b"12", &[b'x'; 3000], &[b'x'; 9000], &[b'x'; 5 * PIECE + 3]] {
        let mut want = old.to_vec();
        let record = super::record(b"k", New::Bytes(old), None, 0);
        let record = write_both(record, &mut want, 300 * PIECE, b"far");
        check(&record, &want);
        assert!(value::memory(&record, 0) < old.len() + 5 * PIECE, "{}", old.len());
        let record = write_both(record, &mut want, 100 * PIECE - 1, b"between");
        check(&record, &want);
        assert!(value::is_long_to_free(&record) || want.len() < 4 << 20 || old.len() < 4 << 20);
    }
}

/// A string removed while it is shared counts as copied, since only its holder keeps it.
#[test]
#[cfg_attr(miri, ignore = "megabytes")]
fn removed_shared_string_counts_as_copied() {
    let len = 32 * PIECE;
    for edited in [false, true] {
        let mut record = super::record(b"k", New::Bytes(&vec![b'a'; len]), None, 0);
        if edited {
            record = append(record, &vec![b'b'; 4 * PIECE]);
        }
        let held = Shared::of(&record);
        let before = Shared::copied_bytes();
        Shared::note_removed(&record);
        assert!(Shared::copied_bytes() - before >= len as u64);
        drop(held);
    }
}

/// Writing a string to a file releases its pieces during the walk.
#[test]
#[cfg_attr(miri, ignore = "megabytes")]
fn pass_releases_pieces() {
    let mut record = super::record(b"k", New::Bytes(b""), None, 0);
    let mut want = Vec::new();
    for n in 0..300u32 {
        let part = vec![n as u8; PIECE - 1];
        want.extend_from_slice(&part);
        record = append(record, &part);
    }
    let shared = Shared::of(&record);
    let (mut all, held, mut least) = (Vec::new(), held_memory(&record), usize::MAX);
    assert!(held >= want.len());
    let flow = shared.drain_text(|slice| {
        all.extend_from_slice(slice);
        least = least.min(held_memory(&record));
        ControlFlow::<()>::Continue(())
    });
    assert!(flow.is_continue() && all == want);
    assert!(least <= held / 2, "{least} of {held}");
}
