//! Tests records: every field, form and move, with payloads that own memory.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::{Counted, PLAIN, TOKEN, Token};
use crate::allocation_len;
use crate::record::{CLOCK_MAX, Owner, Record};

/// The expected content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Model {
    key: Vec<u8>,
    expiry: Option<i64>,
    kind: u8,
    clock: u32,
    flags: u8,
    payload: Vec<u8>,
}

fn model_of(record: &Record<Counted>) -> Model {
    Model {
        key: record.key().to_vec(),
        expiry: record.expiry(),
        kind: record.kind(),
        clock: record.clock(),
        flags: record.owner_flags(),
        payload: record.payload().to_vec(),
    }
}

#[derive(Clone, Debug)]
enum Change {
    Kind(u8),
    Clock(u32),
    Flags(u8),
    Expiry(Option<i64>),
    ExpiryInPlace(i64),
    Key(Vec<u8>),
    Resize(usize),
    Splice(usize, usize, Vec<u8>),
    Write(u8),
    Replace(u8, Vec<u8>),
    Exchange(u8, Vec<u8>),
}

/// Lengths around each change of form.
fn length(limit: usize) -> impl Strategy<Value = usize> {
    let edges = [0, 1, 7, 8, 9, 16, 64, 253, 254, 255, 256, 4095, 4096, 65_535, 65_536, 70_000];
    let edges: Vec<_> = edges.into_iter().filter(|&n| n <= limit).collect();
    prop_oneof![0..limit.min(100), prop::sample::select(edges)]
}

fn bytes(limit: usize) -> impl Strategy<Value = Vec<u8>> {
    (length(limit), any::<u8>())
        .prop_map(|(len, seed)| (0..len).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect())
}

const LONG: usize = if cfg!(miri) { 256 } else { 70_000 };

fn change() -> impl Strategy<Value = Change> {
    // Kinds from 2 on: payloads of those own nothing.
    prop_oneof![
        (2..=u8::MAX).prop_map(Change::Kind),
        (0..=CLOCK_MAX).prop_map(Change::Clock),
        (0..16u8).prop_map(Change::Flags),
        any::<Option<i64>>().prop_map(Change::Expiry),
        any::<i64>().prop_map(Change::ExpiryInPlace),
        bytes(LONG).prop_map(Change::Key),
        length(LONG).prop_map(Change::Resize),
        (length(LONG), length(40), bytes(40)).prop_map(|(at, len, w)| Change::Splice(at, len, w)),
        any::<u8>().prop_map(Change::Write),
        (2..=u8::MAX, bytes(LONG)).prop_map(|(kind, bytes)| Change::Replace(kind, bytes)),
        (2..=u8::MAX, bytes(LONG)).prop_map(|(kind, bytes)| Change::Exchange(kind, bytes)),
    ]
}

fn apply(change: Change, mut record: Record<Counted>, model: &mut Model) -> Record<Counted> {
    match change {
        Change::Kind(kind) => {
            record.set_kind(kind);
            model.kind = kind;
        }
        Change::Clock(clock) => {
            record.set_clock(clock);
            model.clock = clock;
        }
        Change::Flags(flags) => {
            record.set_owner_flags(flags);
            model.flags = flags;
        }
        Change::Expiry(expiry) => {
            record = record.with_expiry(expiry);
            model.expiry = expiry;
        }
        Change::ExpiryInPlace(at) => {
            assert_eq!(record.set_expiry_in_place(at), model.expiry.is_some());
            model.expiry = model.expiry.map(|_| at);
        }
        Change::Key(key) => {
            record = record.with_key(&key);
            model.key = key;
        }
        Change::Resize(len) => {
            record = record.resize_payload(len);
            model.payload.resize(len, 0);
        }
        Change::Splice(at, len, with) => {
            let at = at.min(model.payload.len());
            let range = at..model.payload.len().min(at + len);
            let mut payload = model.payload.clone();
            drop(payload.splice(range.clone(), with.iter().copied()));
            let form = |len: usize| {
                let size = allocation_len(model.key.len(), len, model.expiry.is_some());
                (size, len < 1 << 16)
            };
            let fits = form(payload.len()) == form(model.payload.len());
            assert_eq!(record.splice_in_place(range, &with), fits);
            if fits {
                model.payload = payload;
            }
        }
        Change::Write(byte) => {
            record.payload_mut().fill(byte);
            model.payload.fill(byte);
        }
        Change::Replace(kind, payload) => {
            record = record.replace_payload(kind, &payload);
            (model.kind, model.payload) = (kind, payload);
        }
        Change::Exchange(kind, payload) => {
            record = record.exchange_payload(kind, &payload);
            (model.kind, model.payload) = (kind, payload);
        }
    }
    record
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 6 } else { 500 },
        failure_persistence: None,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    fn record_stores_its_parts(
        key in bytes(LONG),
        expiry: Option<i64>,
        kind in 2..=u8::MAX,
        clock in 0..=CLOCK_MAX,
        payload in bytes(LONG),
        changes in prop::collection::vec(change(), 0..12),
    ) {
        let filled = Record::<Counted>::new(&key, expiry, kind, clock, payload.len(), |to| {
            assert!(to.iter().all(|&byte| byte == 0));
            to.copy_from_slice(&payload);
        });
        let mut record = Record::from_bytes(&key, expiry, kind, clock, &payload);
        let mut model = Model { key, expiry, kind, clock, flags: 0, payload };
        prop_assert_eq!(&model_of(&filled), &model);
        prop_assert_eq!(&model_of(&record), &model);
        for change in changes {
            record = apply(change, record, &mut model);
            prop_assert_eq!(&model_of(&record), &model);
            let Model { key, payload, expiry, .. } = &model;
            let size = allocation_len(key.len(), payload.len(), expiry.is_some());
            prop_assert_eq!(record.alloc_size(), size);
        }
    }
}

#[test]
fn drops_payload_exactly_once() {
    let token = Token::default();
    let record = token.record(b"a key", None);
    assert_eq!(token.owned(), 1);
    let record = record.with_expiry(Some(1)).with_key(b"another key").with_expiry(None);
    let record = record.resize_payload(100_000).resize_payload(8);
    assert_eq!(token.owned(), 1, "moves neither drop nor copy the payload");

    let record = record.replace_payload(TOKEN, &token.payload());
    assert_eq!(token.owned(), 1, "the old payload was dropped");
    let record = record.replace_payload(PLAIN, &[0; 1000]);
    assert_eq!(token.owned(), 0);
    let record = record.exchange_payload(TOKEN, &token.payload());
    assert_eq!(token.owned(), 1);

    // SAFETY: the bytes came from `payload`. Ownership moves out of them, and `exchange_payload`
    // replaces them without dropping.
    let moved_out = unsafe { Token::from_payload(record.payload()) };
    let record = record.exchange_payload(PLAIN, b"");
    drop(moved_out);
    assert_eq!(token.owned(), 0);
    drop(record);
    assert_eq!(token.owned(), 0);

    drop(token.record(b"", Some(5)));
    assert_eq!(token.owned(), 0);
}

#[test]
fn changes_equal_sizes_in_place() {
    let record = Record::<Counted>::from_bytes(b"12345678", None, 7, 9, &[1; 17]);
    let at = record.address();
    let record = record.resize_payload(24);
    assert_eq!(record.address(), at);
    assert_eq!(record.payload()[..17], [1; 17]);
    assert_eq!(record.payload()[17..], [0; 7]);
    let record = record.exchange_payload(8, &[2; 20]).with_key(b"abcdefgh");
    assert_eq!(record.address(), at);
    assert_eq!((record.key(), record.payload()), (&b"abcdefgh"[..], &[2; 20][..]));
    assert_eq!((record.kind(), record.clock()), (8, 9));
}

#[test]
fn clock_is_taken_modulo_its_width() {
    let record = Record::<Counted>::from_bytes(b"k", None, 200, u32::MAX, b"");
    assert_eq!((record.kind(), record.clock()), (200, CLOCK_MAX));
    record.set_clock(CLOCK_MAX + 2);
    assert_eq!((record.kind(), record.clock()), (200, 1));
}

#[test]
fn panic_while_filling_does_not_call_the_owner() {
    struct Strict;
    impl Owner for Strict {
        unsafe fn drop_payload(_: u8, _: &mut [u8]) {
            unreachable!("there was no payload yet");
        }
    }
    let made = catch_unwind(|| Record::<Strict>::new(b"key", None, 1, 0, 10, |_| panic!("no")));
    assert!(made.is_err());
}

#[test]
fn panicking_owner_is_not_called_again() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    struct Fussy;
    impl Owner for Fussy {
        unsafe fn drop_payload(_: u8, _: &mut [u8]) {
            CALLS.fetch_add(1, Ordering::Relaxed);
            panic!("no");
        }
    }
    // The memory of this record leaks, as documented. Miri would report it, so skip it there.
    if !cfg!(miri) {
        let record = Record::<Fussy>::from_bytes(b"key", None, 1, 0, b"payload");
        let replaced = catch_unwind(AssertUnwindSafe(|| record.replace_payload(2, b"other")));
        assert!(replaced.is_err());
        assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    }
}

#[test]
#[should_panic(expected = "four bits")]
fn owner_flags_have_four_bits() {
    Record::<Counted>::from_bytes(b"k", None, 0, 0, b"").set_owner_flags(16);
}
