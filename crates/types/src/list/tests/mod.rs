//! Compares lists with `VecDeque`. Chunks are so small that every edge case occurs, and some
//! elements so large that they have chunks of their own.

mod nodes;
mod sizes;

use super::*;
use crate::Limits;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Step {
    Push(bool, Vec<String>),
    Pop(bool, usize),
    Set(usize, String),
    Insert(String, String, bool),
    Remove(bool, String, usize),
    Trim(usize, usize),
}

/// Few distinct texts, so that equal ones occur; some are long, some integers.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..6u8).prop_map(|n| n.to_string()),
        3 => "[a-c]{1,3}",
        1 => (30..120usize).prop_map(|n| "x".repeat(n)),
        1 => (2000..9000usize).prop_map(|n| "y".repeat(n)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (any::<bool>(), prop::collection::vec(text(), 1..12)).prop_map(|(l, v)| Step::Push(l, v)),
        3 => (any::<bool>(), 1..8usize).prop_map(|(l, n)| Step::Pop(l, n)),
        3 => (any::<usize>(), text()).prop_map(|(i, t)| Step::Set(i, t)),
        3 => (text(), text(), any::<bool>()).prop_map(|(p, t, a)| Step::Insert(p, t, a)),
        1 => (any::<bool>(), text(), 1..4usize).prop_map(|(l, t, n)| Step::Remove(l, t, n)),
        1 => (0..6usize, 0..6usize).prop_map(|(a, b)| Step::Trim(a, b)),
    ]
}

fn end(left: bool) -> End {
    if left { End::Left } else { End::Right }
}

/// Applies `step` to both; stops when the list becomes empty.
fn apply(record: Record, model: &mut VecDeque<String>, step: Step, limits: &Limits) -> Record {
    match step {
        Step::Push(left, texts) => {
            for text in &texts {
                if left { model.push_front(text.clone()) } else { model.push_back(text.clone()) }
            }
            let values: Vec<&[u8]> = texts.iter().map(|t| t.as_bytes()).collect();
            push(record, end(left), &values, limits)
        }
        Step::Pop(left, n) => {
            let mut popped = Vec::new();
            let record = pop(record, end(left), n, limits, &mut Waste::default(), |v| {
                popped.push(v.to_vec())
            });
            for value in popped {
                let expected = if left { model.pop_front() } else { model.pop_back() };
                assert_eq!(Some(value), expected.map(String::into_bytes));
            }
            record
        }
        Step::Set(index, text) => {
            let index = index % model.len();
            model[index] = text.clone();
            set(record, index, text.as_bytes(), limits, &mut Waste::default())
        }
        Step::Insert(pivot, text, after) => {
            let at = model.iter().position(|t| *t == pivot);
            if let Some(at) = at {
                model.insert(at + usize::from(after), text.clone());
            }
            let (record, found) = insert(record, pivot.as_bytes(), text.as_bytes(), after, limits);
            assert_eq!(found, at.is_some());
            record
        }
        Step::Remove(left, text, most) => {
            let mut expected = 0;
            while expected < most {
                let at = match left {
                    true => model.iter().position(|t| *t == text),
                    false => model.iter().rposition(|t| *t == text),
                };
                let Some(at) = at else { break };
                model.remove(at);
                expected += 1;
            }
            let (record, removed) =
                remove(record, end(left), text.as_bytes(), most, limits, &mut Waste::default());
            assert_eq!(removed, expected);
            record
        }
        Step::Trim(front, back) => {
            let front = front.min(model.len());
            let keep = model.len() - front - back.min(model.len() - front);
            model.drain(..front);
            model.truncate(keep);
            trim_or_empty(record, front, keep, limits)
        }
    }
}

/// Like LTRIM, which removes a list without reading it if nothing is kept.
fn trim_or_empty(record: Record, start: usize, keep: usize, limits: &Limits) -> Record {
    let mut waste = Waste::default();
    match keep {
        0 => pop(record, End::Left, usize::MAX, limits, &mut waste, |_| {}),
        keep => trim(record, start, keep, limits, &mut waste),
    }
}

fn from(list: List<'_>, index: usize) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    list.each_from(index, |value| {
        texts.push(value.to_vec());
        true
    });
    texts
}

fn back_from(list: List<'_>, back: usize) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    list.each_back_from(back, |value| {
        texts.push(value.to_vec());
        true
    });
    texts
}

fn check(record: &Record, model: &VecDeque<String>) {
    let list = List::of(record).expect("a list");
    assert_eq!(list.len(), model.len());
    let forward = from(list, 0);
    assert!(forward.iter().map(|v| &v[..]).eq(model.iter().map(|t| t.as_bytes())), "{model:?}");
    let back = back_from(list, 0);
    assert!(back.iter().rev().eq(forward.iter()));
    for n in [0, model.len() / 3, model.len() / 2, model.len() - 1, model.len()] {
        let wanted = model.get(n).map(|t| t.as_bytes().to_vec());
        assert_eq!(list.get(n, |value| value.to_vec()), wanted);
        assert!(from(list, n).iter().eq(forward.iter().skip(n)));
        let from_back = model.len().checked_sub(n + 1).map(|i| model[i].as_bytes().to_vec());
        assert_eq!(back_from(list, n).first().cloned(), from_back);
    }
    if let List::Chunks(chunks) = list {
        check_chunks(chunks);
    }
}

/// Checks the invariants of a row of chunks.
fn check_chunks(chunks: &Chunks) {
    assert!(chunks.has_right_compression(), "{chunks:?}");
    chunks.row.check();
    assert_eq!(chunks.row.iter().map(|chunk| chunk.count()).sum::<usize>(), chunks.len);
    assert!(chunks.starts(0));
    let most = chunks.fill.most_bytes();
    for (at, chunk) in chunks.row.iter().enumerate() {
        let bytes = chunk.bytes();
        assert!(bytes <= 2 * most || chunk.count() == 1, "{bytes} bytes in chunk {at}");
        assert!(!chunk.is_alone() || chunk.count() == 1 && !chunk.follows);
        assert!(!chunk.follows || chunks.row[at - 1].bytes() + bytes > most, "chunk {at}");
    }
}

proptest! {
    #[test]
    fn lists_match_a_deque(
        size in prop_oneof![Just(-1i64), Just(-2i64), 1..6i64, 30..100i64],
        start in prop_oneof![Just(1usize), 20..80usize],
        depth in prop_oneof![Just(0usize), 1..4usize, Just(usize::MAX)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let limits = Limits { list_size: size, list_compress: depth, ..Limits::default() };
        let mut model: VecDeque<String> = VecDeque::from(vec!["0".to_string(); start]);
        let mut record = create(b"key", 7, End::Right, &vec![&b"0"[..]; start], &limits);
        for step in steps {
            record = apply(record, &mut model, step, &limits);
            if model.is_empty() {
                prop_assert_eq!(len(&record), 0);
                model.push_back("0".into());
                record = create(b"key", 7, End::Right, &[b"0"], &limits);
            }
            check(&record, &model);
        }
        let copy = duplicate(&record, b"copy", None, 0);
        prop_assert_eq!(copy.kind(), record.kind());
        check(&copy, &model);
    }
}

fn kind(record: &Record) -> Kind {
    Kind::of(record.kind())
}

fn of_texts(texts: &[String], limits: &Limits) -> Record {
    let values: Vec<&[u8]> = texts.iter().map(|t| t.as_bytes()).collect();
    create(b"k", 0, End::Right, &values, limits)
}

#[test]
fn backward_lengths_depend_on_the_number_of_elements() {
    let limits = Limits::default();
    let mut model: VecDeque<String> = VecDeque::new();
    let mut record = create(b"k", 0, End::Right, &[], &limits);
    let mut kinds = Vec::new();
    for n in (1..=70).chain((1..70).rev()).chain(2..=70) {
        let grows = n > model.len();
        let step = match grows {
            true => Step::Push(n % 2 == 0, vec![n.to_string()]),
            false => Step::Pop(n % 2 == 0, 1),
        };
        record = apply(record, &mut model, step, &limits);
        check(&record, &model);
        if kinds.last().is_none_or(|(_, last)| *last != kind(&record)) {
            kinds.push((n, kind(&record)));
        }
    }
    let (one_way, two_way) = (Kind::ListPacked, Kind::ListTwoWay);
    assert_eq!(kinds, [(1, one_way), (25, two_way), (12, one_way), (25, two_way)]);
}

#[test]
fn backward_lengths_depend_on_the_bytes() {
    let limits = Limits::default();
    for (bytes, wanted) in [(500, Kind::ListPacked), (510, Kind::ListTwoWay)] {
        let texts = ["a".to_string(), "b".repeat(bytes), "c".to_string()];
        let mut record = of_texts(&texts[..2], &limits);
        assert_eq!(kind(&record), wanted, "{bytes}");
        record = push(record, End::Right, &[b"c"], &limits);
        check(&record, &texts.clone().into());
        record = set(record, 1, &vec![b'd'; 509], &limits, &mut Waste::default());
        assert_eq!(kind(&record), Kind::ListTwoWay);
        record = set(record, 1, b"d", &limits, &mut Waste::default());
        assert_eq!(kind(&record), Kind::ListPacked);
        check(&record, &["a", "d", "c"].map(String::from).into());
    }
}

/// A list leaves its record when Valkey's listpack is full, and all entries of that have backward
/// lengths.
#[test]
fn size_limit_includes_omitted_backward_lengths() {
    let text = "x".repeat(126);
    // In Valkey, an entry of 2 + 126 + 2 bytes, and 7 for the frame.
    for (more, wanted) in [(4096 - 7 - 130, Kind::ListTwoWay), (4096 - 6 - 130, Kind::ListChunks)] {
        let limits = Limits { list_size: -1, ..Limits::default() };
        let record = of_texts(std::slice::from_ref(&text), &limits);
        assert_eq!(kind(&record), Kind::ListPacked);
        let record = push(record, End::Left, &[&vec![b'y'; more]], &limits);
        assert_eq!(kind(&record), wanted, "{more}");
    }
    let limits = Limits { list_size: 3, ..Limits::default() };
    let mut record = of_texts(&["1", "2", "3"].map(String::from), &limits);
    assert_eq!(kind(&record), Kind::ListPacked);
    record = push(record, End::Left, &[b"0"], &limits);
    assert_eq!(kind(&record), Kind::ListChunks);
    (record, _) = remove(record, End::Right, b"0", 1, &limits, &mut Waste::default());
    record = pop(record, End::Right, 2, &limits, &mut Waste::default(), |_| {});
    assert_eq!(kind(&record), Kind::ListPacked);
    check(&record, &["1".to_string()].into());
}

#[test]
fn list_of_one_chunk_returns_to_its_record() {
    let texts: Vec<String> = (0..500).map(|n| format!("element {n}")).collect();
    for (kept, wanted) in [(100, Kind::ListTwoWay), (10, Kind::ListPacked)] {
        let limits = Limits { list_size: -1, ..Limits::default() };
        let record = of_texts(&texts, &limits);
        assert_eq!(kind(&record), Kind::ListChunks);
        let record = trim(record, 5, kept, &limits, &mut Waste::default());
        assert_eq!(kind(&record), wanted);
        check(&record, &texts[5..5 + kept].to_vec().into());
    }
}

#[test]
fn long_list_is_chunked_and_packed_again() {
    let limits = Limits::default();
    let mut record = create(b"k", 0, End::Right, &[b"start"], &limits);
    for n in 0..20_000 {
        let text = format!("element {n}");
        let side = if n % 3 == 0 { End::Left } else { End::Right };
        record = push(record, side, &[text.as_bytes()], &limits);
    }
    assert_eq!(Kind::of(record.kind()), Kind::ListChunks);
    let bytes: usize = from(List::of(&record).unwrap(), 0).iter().map(|v| v.len() + 2).sum();
    let memory = memory(&record, 5);
    assert!(memory < bytes + bytes / 20 + 16 * 1024, "{memory} for {bytes}");
    record = pop(record, End::Left, 19_900, &limits, &mut Waste::default(), |_| {});
    assert_eq!((len(&record), Kind::of(record.kind())), (101, Kind::ListTwoWay));
}

#[test]
fn compresses_inner_chunks() {
    let plain = Limits::default();
    let compressed = Limits { list_compress: 1, ..plain };
    let texts: Vec<String> =
        (0..20_000).map(|n| format!("a text that is like others {n}")).collect();
    let (large, small) = (of_texts(&texts, &plain), of_texts(&texts, &compressed));
    let (small_size, large_size) = (memory(&small, 0), memory(&large, 0));
    assert!(small_size * 2 < large_size, "{small_size} of {large_size}");
    check(&small, &texts.clone().into());
    let copy = duplicate(&small, b"copy", None, 0);
    assert!(memory(&copy, 0) <= small_size);
    check(&copy, &texts.into());
}
