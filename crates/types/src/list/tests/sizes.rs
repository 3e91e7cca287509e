//! The memory of lists, how much a change can move, and the chunks that it hands over for freeing.

use super::*;

/// Small elements.
fn small(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("element {n}")).collect()
}

fn chunks_of(record: &Record) -> &Chunks {
    match List::of(record) {
        Some(List::Chunks(chunks)) => chunks,
        other => panic!("no chunks: {other:?}"),
    }
}

/// The most bytes that a change of an element moves, without the element itself: those of the
/// largest chunk that has several elements.
fn most_moved(record: &Record) -> usize {
    let shared = chunks_of(record).row.iter().filter(|chunk| chunk.count() > 1);
    shared.map(|chunk| chunk.memory()).max().unwrap_or(0)
}

fn set_all(record: Record, places: impl Iterator<Item = usize>, text: &[u8]) -> Record {
    let (limits, waste) = (Limits::default(), &mut Waste::default());
    places.fold(record, |record, place| set(record, place, text, &limits, waste))
}

#[test]
fn large_element_is_alone_in_its_chunk() {
    let large = vec![b'x'; 100_000];
    let texts = small(3000);
    let mut record = of_texts(&texts, &Limits::default());
    record = set_all(record, (0..650).map(|n| n * 7 % 3000), &large);
    assert!(most_moved(&record) <= 16 * 1024 + 64, "{}", most_moved(&record));
    let wanted = 650 * large.len() + texts.iter().map(String::len).sum::<usize>();
    let memory = memory(&record, 0);
    assert!(memory < wanted + wanted / 100 + 300 * 1024, "{memory} for {wanted}");

    let limits = Limits::default();
    for place in [End::Left, End::Right] {
        record = push(record, place, &[b"a", &large, b"b"], &limits);
    }
    let pivot = texts[1500].as_bytes();
    (record, _) = insert(record, pivot, &large, true, &limits);
    (record, _) = insert(record, pivot, &large, false, &limits);
    let alone = chunks_of(&record).row.iter().filter(|chunk| chunk.is_alone());
    assert_eq!(alone.count(), 654);
    assert!(most_moved(&record) <= 16 * 1024 + 64, "{}", most_moved(&record));
}

/// Valkey has them all in one node, since none is too large for one, and OBJECT ENCODING shows
/// that.
#[test]
fn node_of_many_long_elements_has_many_chunks() {
    let texts: Vec<String> = (0..2600).map(|n| (n % 10).to_string()).collect();
    let record = of_texts(&texts, &Limits::default());
    let record = set_all(record, (0..2600).map(|n| n * 7 % 2600), &[b'x'; 4000]);
    assert!(most_moved(&record) <= 16 * 1024 + 64, "{}", most_moved(&record));
    let nodes = chunks_of(&record).row.iter().filter(|chunk| !chunk.follows).count();
    assert_eq!(nodes, 1);
    check(&record, &vec!["x".repeat(4000); 2600].into());
}

#[test]
fn chunk_frees_memory_after_shorter_elements() {
    let record = of_texts(&vec!["v".repeat(1000); 10_000], &Limits::default());
    let record = set_all(record, 0..10_000, b"1");
    let memory = memory(&record, 0);
    // Valkey takes 196 KB.
    assert!(memory < 190_000, "{memory}");
}

#[test]
fn chunks_free_memory_after_removing_equal_elements() {
    let texts: Vec<String> = (0..100_000)
        .map(|n| if n % 500 == 0 { format!("kept {n}") } else { "removed".to_string() })
        .collect();
    let (limits, waste) = (Limits::default(), &mut Waste::default());
    let (record, removed) =
        remove(of_texts(&texts, &limits), End::Left, b"removed", usize::MAX, &limits, waste);
    assert_eq!((removed, len(&record)), (99_800, 200));
    let kept: Vec<String> = texts.into_iter().filter(|text| text != "removed").collect();
    check(&record, &kept.into());
    let memory = memory(&record, 0);
    // Valkey takes 19 KB.
    assert!(memory < 15_000, "{memory}");
}

#[test]
fn chunks_free_memory_after_trimming() {
    let limits = Limits::default();
    let whole = of_texts(&small(1000), &limits);
    let least = |record: &Record| {
        from(List::of(record).unwrap(), 0).iter().map(|text| text.len() + 2).sum::<usize>()
    };
    let trimmed = trim(duplicate(&whole, b"k", None, 0), 350, 300, &limits, &mut Waste::default());
    let (memory_of, wanted) = (memory(&trimmed, 0), least(&trimmed));
    assert!(memory_of < wanted + wanted / 8 + 512, "{memory_of} for {wanted}");
    let mut popped = whole;
    for n in 0..600 {
        let end = end(n % 2 == 0);
        popped = pop(popped, end, 1, &limits, &mut Waste::default(), |_| {});
    }
    let (memory_of, wanted) = (memory(&popped, 0), least(&popped));
    assert!(memory_of < wanted * 2 + 1024, "{memory_of} for {wanted}");
}

/// The row of a long list shrinks with the list.
#[test]
fn row_frees_memory_of_removed_chunks() {
    let limits = Limits { list_size: 1, ..Limits::default() };
    let texts = small(10_000);
    let keep = |record: Record| memory(&record, 0);
    let record = || of_texts(&texts, &limits);
    let waste = &mut Waste::default();
    let trimmed = keep(trim(record(), 5000, 10, &limits, waste));
    let popped = keep(pop(record(), End::Left, 9990, &limits, waste, |_| {}));
    assert!(trimmed < 2048 && popped < 4096, "{trimmed}, {popped}");
}

/// A list with an element too large for a record stays in chunks while others are added and
/// removed.
#[test]
fn large_element_keeps_its_list_in_chunks() {
    let limits = Limits { list_size: 100, ..Limits::default() };
    let mut record = create(b"k", 0, End::Right, &[&[b'x'; 100_000]], &limits);
    for _ in 0..20 {
        assert_eq!(kind(&record), Kind::ListChunks);
        record = push(record, End::Right, &[b"a"], &limits);
        assert_eq!(kind(&record), Kind::ListChunks);
        record = pop(record, End::Right, 1, &limits, &mut Waste::default(), |_| {});
    }
    assert_eq!(encoding_name(&record), "quicklist");
}

/// With a limit of elements, a list of many bytes becomes a listpack again as soon as few elements
/// are left. It keeps its chunks, so that conversions don't copy it repeatedly.
#[test]
fn listpack_of_many_bytes_keeps_its_chunks() {
    let limits = Limits { list_size: 1000, ..Limits::default() };
    let mut record = of_texts(&small(300), &limits);
    record = (0..300)
        .fold(record, |record, n| set(record, n, &[b'x'; 8000], &limits, &mut Waste::default()));
    for _ in 0..20 {
        assert_eq!((kind(&record), encoding_name(&record)), (Kind::ListChunks, "listpack"));
        assert!(most_moved(&record) <= 16 * 1024 + 64, "{}", most_moved(&record));
        record = push(record, End::Left, &[b"a"], &limits);
        assert_eq!((kind(&record), encoding_name(&record)), (Kind::ListChunks, "quicklist"));
        record = pop(record, End::Left, 1, &limits, &mut Waste::default(), |_| {});
    }
    record = pop(record, End::Left, 299, &limits, &mut Waste::default(), |_| {});
    assert_eq!(kind(&record), Kind::ListChunks);
    record = set(record, 0, b"1", &limits, &mut Waste::default());
    assert_eq!(kind(&record), Kind::ListPacked);
    check(&record, &["1".to_string()].into());
}

/// A change of a long list frees only a few small chunks itself.
#[test]
fn removed_chunks_go_to_waste() {
    let limits = Limits { list_size: 1, ..Limits::default() };
    let texts: Vec<String> = (0..3000).map(|n| format!("{}", n % 3)).collect();
    let handed_over = |change: &dyn Fn(Record, &mut Waste) -> Record| {
        let mut waste = Waste::default();
        let kept = len(&change(of_texts(&texts, &limits), &mut waste));
        (kept, waste.into_record().map_or(0, |record| len(&record)))
    };
    let trimmed = handed_over(&|record, waste| trim(record, 1000, 500, &limits, waste));
    assert_eq!(trimmed, (500, 2500));
    let removed = handed_over(&|record, waste| {
        remove(record, End::Right, b"1", usize::MAX, &limits, waste).0
    });
    assert_eq!(removed, (2000, 992));
    let popped = handed_over(&|record, waste| pop(record, End::Left, 20, &limits, waste, |_| {}));
    assert_eq!(popped, (2980, 12));
    let few = handed_over(&|record, waste| pop(record, End::Left, 5, &limits, waste, |_| {}));
    assert_eq!(few, (2995, 0));
}

#[test]
fn large_element_goes_to_waste() {
    let limits = Limits::default();
    let large = vec![b'x'; 100_000];
    let record = create(b"k", 0, End::Right, &[b"a", &large, &large, b"b", &large], &limits);
    let waste = &mut Waste::default();
    let record = pop(record, End::Right, 1, &limits, waste, |_| {});
    let record = set(record, 1, b"c", &limits, waste);
    let (record, _) = remove(record, End::Left, &large, 1, &limits, waste);
    let waste = std::mem::take(waste).into_record().expect("something is left");
    assert_eq!((len(&record), len(&waste)), (3, 3));
    assert!(memory(&waste, 0) > 300_000);
    check(&record, &["a", "c", "b"].map(String::from).into());
}

/// The work on a list with compressed chunks includes decompressing them.
#[test]
fn work_includes_decompression() {
    let texts: Vec<String> = (0..1000).map(|n| format!("{n:0>2000}")).collect();
    let plain = of_texts(&texts, &Limits::default());
    let compressed = of_texts(&texts, &Limits { list_compress: 1, ..Limits::default() });
    let work = |record: &Record| List::of(record).unwrap().search_work(usize::MAX);
    assert!(work(&compressed) > 10 * work(&plain), "{} to {}", work(&compressed), work(&plain));
    let range = |n| List::of(&plain).unwrap().range_work(10, n);
    assert!(range(900) > 900 + 900 && range(1) < 20, "{} and {}", range(900), range(1));
}
