//! Counted pieces: which holder copies and which one frees. Under Miri these tests also check the
//! `unsafe` blocks.

use super::*;
use std::sync::Arc;
use std::sync::atomic::AtomicIsize;

/// Counts its live instances.
struct Witness(Arc<AtomicIsize>, u32);

impl Witness {
    fn new(alive: &Arc<AtomicIsize>, n: u32) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Witness(alive.clone(), n)
    }
}

impl Clone for Witness {
    fn clone(&self) -> Self {
        Witness::new(&self.0, self.1)
    }
}

impl CopyOnWrite for Witness {
    fn owned_memory(&self) -> usize {
        0
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn sole_holder_changes_in_place_and_shared_pieces_are_copied() {
    let mut one = Counted::new(vec![1, 2]);
    let place = ptr::from_ref(&*one);
    one.push(3);
    assert_eq!(ptr::from_ref(&*one), place, "it was not shared");
    let kept = one.clone();
    one.push(4);
    assert_eq!((&kept[..], &one[..]), (&[1, 2, 3][..], &[1, 2, 3, 4][..]));
    let place = ptr::from_ref(&*kept);
    let mut kept = kept;
    kept.clear();
    assert_eq!(ptr::from_ref(&*kept), place, "the writer has its own copy");

    let mut row = CountedRow::from(vec![1u16, 2, 3]);
    let place = row.as_ptr();
    row[1] = 20;
    assert_eq!(row.as_ptr(), place);
    let kept = row.clone();
    row[2] = 30;
    assert_eq!((&*kept, &*row), (&[1, 20, 3][..], &[1, 20, 30][..]));
    drop(kept);
    let place = row.as_ptr();
    row[0] = 10;
    assert_eq!((row.as_ptr(), &*row), (place, &[10, 20, 30][..]));
}

#[test]
fn drops_every_element_once() {
    let alive = Arc::new(AtomicIsize::new(0));
    let left = || alive.load(Ordering::SeqCst);
    let row: CountedRow<Witness> =
        (0..5).map(|n| Witness::new(&alive, n)).collect::<Vec<_>>().into();
    let mut other = row.clone();
    assert_eq!(left(), 5);
    other[0].1 = 7;
    assert_eq!(left(), 10);
    let vec = row.into_vec();
    assert_eq!((vec[0].1, left()), (0, 10), "the elements moved");
    let again = other.clone();
    let copies = other.into_vec();
    assert_eq!((copies[0].1, left()), (7, 15), "the elements were copied");
    drop((vec, copies));
    assert_eq!(left(), 5);
    drop(again);
    assert_eq!(left(), 0);

    let one = Counted::new(Witness::new(&alive, 1));
    let other = one.clone();
    let copy = one.into_inner();
    assert_eq!(left(), 2);
    let last = other.into_inner();
    assert_eq!((copy.1, last.1, left()), (1, 1, 2));
    drop((copy, last));
    assert_eq!(left(), 0);
}

thread_local! {
    /// Bytes of copies that the hook allocated.
    static ASKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[test]
fn copies_use_memory_of_the_hook() {
    fn counted(layout: Layout, _: NonNull<u8>) -> *mut u8 {
        ASKED.set(ASKED.get() + layout.size());
        // SAFETY: the layout of a copy includes a count, so its size is not 0.
        unsafe { alloc(layout) }
    }
    // SAFETY: `counted` allocates with the global allocator.
    unsafe { allocate_copies_by(counted) };
    let mut row = CountedRow::from(vec![7u8; 100]);
    let mut one = Counted::new(vec![1u8]);
    row[0] = 1;
    one.push(2);
    assert_eq!(ASKED.get(), 0, "they are not shared");
    let kept = (row.clone(), one.clone());
    row[0] = 2;
    one.push(3);
    assert_eq!(ASKED.get(), HEADER + 100 + HEADER + size_of::<Vec<u8>>());
    assert_eq!((row[0], kept.0[0], one.len(), kept.1.len()), (2, 1, 3, 2));
    drop((row, one, kept));
}

#[test]
fn empty_rows_take_no_memory() {
    let mut empty: CountedRow<u64> = CountedRow::new();
    let mut other = empty.clone();
    assert!(empty.is_empty() && other.iter_mut().next().is_none() && empty.first_mut().is_none());
    assert_eq!((empty.memory(), empty.into_vec()), (0, Vec::new()));
    assert!(CountedRow::<u8>::from(Vec::new()).is_empty());
    assert!(CountedRow::from(&b""[..]).is_empty() && CountedRow::zeros(0).is_empty());
}

#[test]
fn of_ends_fills_both_ends() {
    assert_eq!(*CountedRow::from_ends(9, b"abc", b"yz"), *b"abc\0\0\0\0yz");
    assert_eq!(*CountedRow::from_ends(3, b"abc", b""), *b"abc");
    assert_eq!(*CountedRow::from_ends(2, b"", b"yz"), *b"yz");
    assert_eq!(*CountedRow::zeros(2), [0, 0]);
    assert_eq!(CountedRow::from(&b"abc"[..]).memory(), 3 + HEADER);
}

#[test]
fn copied_bytes_are_an_ordinary_vector() {
    let mut copy = copy_bytes(b"abc");
    assert_eq!((&copy[..], copy.capacity()), (&b"abc"[..], 3));
    copy.extend_from_slice(b"defgh");
    assert_eq!(copy, b"abcdefgh");
    drop(copy_bytes(&copy));
}

/// One thread keeps changing a row that others read. Each reader sees the state at the time it
/// received the row.
#[test]
fn threads_release_in_any_order() {
    let rounds = if cfg!(miri) { 20 } else { 2000 };
    let alive = Arc::new(AtomicIsize::new(0));
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel::<(u32, CountedRow<Counted<Witness>>)>();
        let receive = Arc::new(std::sync::Mutex::new(receive));
        for _ in 0..3 {
            let receive = receive.clone();
            scope.spawn(move || {
                loop {
                    let next = receive.lock().expect("no thread panics").recv();
                    let Ok((round, row)) = next else { break };
                    assert!(row.iter().all(|witness| witness.1 == round));
                    let mut mine = row.clone();
                    drop(row);
                    mine[0].1 = u32::MAX;
                    assert!(mine[1..].iter().all(|witness| witness.1 == round));
                }
            });
        }
        let mut row: CountedRow<_> =
            (0..4).map(|_| Counted::new(Witness::new(&alive, 0))).collect::<Vec<_>>().into();
        for round in 1..=rounds {
            row.iter_mut().for_each(|witness| witness.1 = round);
            send.send((round, row.clone())).expect("a thread receives");
        }
        drop(send);
    });
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}
