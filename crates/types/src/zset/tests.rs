//! Compares sorted sets in records, small and large, with a sorted vector.

use super::*;
use crate::string::Digits;
use crate::{Limits, value};
use proptest::prelude::*;

type Elements = Vec<(Vec<u8>, f64)>;

/// Elements of `view`, in order or in reverse.
fn walked(view: View<'_>, span: Span, reverse: bool) -> Elements {
    let mut all = Vec::new();
    view.walk(span, reverse, |member, score| {
        all.push((member.bytes(&mut Digits::new()).to_vec(), score));
    });
    all
}

fn contents(view: View<'_>) -> Elements {
    walked(view, Span { skip: 0, count: view.len() }, false)
}

fn kind(edit: &Edit) -> Kind {
    match edit.view() {
        View::Packed(..) => Kind::ZsetPacked,
        View::Tree(_) => Kind::ZsetTree,
    }
}

/// A record with these elements, in the large form if `large` is set.
fn set_of(elements: &[(Vec<u8>, f64)], large: bool) -> Record {
    let limits = Limits { zset_entries: if large { 0 } else { 1000 }, ..Limits::default() };
    build(b"key", None, 0, elements, &limits)
}

#[test]
fn grows_large_at_the_limits() {
    let limits = Limits { zset_entries: 3, zset_value: 5, ..Limits::default() };
    let mut edit = Edit::new(b"k", Some(9), 7);
    for (member, kind_then) in [
        ("a", Kind::ZsetPacked),
        ("bbbbb", Kind::ZsetPacked),
        ("c", Kind::ZsetPacked),
        ("d", Kind::ZsetTree),
    ] {
        assert_eq!(
            edit.change(member.as_bytes(), &limits, |old| {
                assert!(old.is_none());
                Some(1.0)
            }),
            Outcome::Added
        );
        assert_eq!(kind(&edit), kind_then, "{member}");
    }
    assert!(edit.remove(b"d") && !edit.remove(b"d"));
    assert_eq!(kind(&edit), Kind::ZsetTree);
    let record = edit.finish();
    assert_eq!((record.key(), record.expiry(), record.clock()), (&b"k"[..], Some(9), 7));

    let mut edit = Edit::new(b"k", None, 0);
    edit.change(b"bbbbbb", &limits, |_| Some(1.0));
    assert_eq!(kind(&edit), Kind::ZsetTree);

    let mut edit = Edit::new(b"k", None, 0);
    edit.announce(3, 5, &limits);
    assert_eq!(kind(&edit), Kind::ZsetPacked);
    edit.announce(4, 1, &limits);
    assert_eq!(kind(&edit), Kind::ZsetTree);
}

#[test]
fn packed_set_stays_within_its_count_limit() {
    let limits = Limits { zset_entries: usize::MAX, ..Limits::default() };
    let elements: Elements = (0..40_000).map(|i| (format!("{i:05}").into_bytes(), 0.0)).collect();
    let record = build(b"k", None, 0, &elements[..32_767], &limits);
    let mut edit = Edit::of(record).unwrap();
    assert_eq!(kind(&edit), Kind::ZsetPacked);
    edit.change(b"x", &limits, |_| Some(1.0));
    assert_eq!((kind(&edit), edit.len()), (Kind::ZsetTree, 32_768));
    assert_eq!(len(&build(b"k", None, 0, &elements, &limits)), 40_000);
}

#[test]
fn change_applies_the_decision() {
    for large in [false, true] {
        let mut edit = Edit::of(set_of(&[(b"a".to_vec(), 1.0)], large)).unwrap();
        let limits = Limits::default();
        assert_eq!(edit.change(b"a", &limits, |old| old), Outcome::Same);
        assert_eq!(edit.change(b"a", &limits, |_| None), Outcome::Same);
        assert_eq!(edit.change(b"b", &limits, |_| None), Outcome::Same);
        assert_eq!(edit.change(b"a", &limits, |old| old.map(|s| s + 1.0)), Outcome::Updated);
        assert_eq!(contents(edit.view()), [(b"a".to_vec(), 2.0)]);
        assert!(edit.remove(b"a") && edit.is_empty());
    }
}

#[test]
fn copies_have_the_same_form_and_are_independent() {
    let elements: Elements = (0..50).map(|i| (vec![b'a' + i], f64::from(i) / 2.0)).collect();
    for large in [false, true] {
        let record = set_of(&elements, large);
        let copy = value::duplicate(&record, b"other", Some(5), 3, 0);
        assert_eq!((copy.key(), copy.expiry(), copy.clock()), (&b"other"[..], Some(5), 3));
        assert_eq!(copy.kind(), record.kind());
        let mut edit = Edit::of(record).unwrap();
        edit.remove_span(Span { skip: 0, count: 49 }, false);
        assert_eq!(contents(View::of(&copy).unwrap()), elements);
        assert_eq!((len(&edit.finish()), value::elements(&copy)), (1, 50));
        assert!(value::memory(&copy, 0) >= 50 * 4 && value::memory(&copy, 3) >= 50 * 4);
    }
}

#[test]
fn other_types_are_returned() {
    let string = crate::string::record_text(b"k", b"v", None, 0);
    assert!(View::of(&string).is_none());
    assert_eq!(Edit::of(string).unwrap_err().key(), b"k");
}

#[test]
fn negative_offset_counts_from_the_other_end_of_a_large_range() {
    let elements: Elements = (0..10u8).map(|i| (vec![b'a' + i], f64::from(i))).collect();
    let end = |score| ScoreEnd { score, exclusive: false };
    let range = Range::Score { min: end(2.0), max: end(6.0) };
    let letters = |large, reverse, offset| {
        let record = set_of(&elements, large);
        let view = View::of(&record).unwrap();
        let span = view.select(&range, reverse, offset, Some(10));
        let letters = walked(view, span, reverse).into_iter().flat_map(|(member, _)| member);
        String::from_utf8(letters.collect()).unwrap()
    };
    for (offset, want, back) in [(0, "cdefg", "gfedc"), (3, "fg", "dc"), (5, "", ""), (99, "", "")]
    {
        for large in [false, true] {
            assert_eq!(letters(large, false, offset), want);
            assert_eq!(letters(large, true, offset), back);
        }
    }
    for (offset, want, back) in [(-1, "g", "c"), (-2, "fg", "dc"), (-6, "", ""), (i64::MIN, "", "")]
    {
        assert_eq!(
            (letters(false, false, offset), letters(false, true, offset)),
            Default::default()
        );
        assert_eq!(letters(true, false, offset), want);
        assert_eq!(letters(true, true, offset), back);
    }
}

fn ends() -> impl Strategy<Value = ((i32, bool), (i32, bool))> {
    ((-1i32..12, any::<bool>()), (-1i32..12, any::<bool>()))
}

proptest! {
    #[test]
    fn both_forms_match_a_sorted_map(
        entries in 0usize..40,
        steps in prop::collection::vec((0u8..6, 0u32..50, -20i32..20), 0..120),
    ) {
        let limits = Limits { zset_entries: entries, ..Limits::default() };
        let mut edit = Edit::new(b"k", None, 0);
        let mut model = Elements::new();
        let mut large = false;
        for (what, name, score) in steps {
            // Integers and texts are packed differently.
            let name = if name % 2 == 0 { name.to_string() } else { format!("m{name}") }.into_bytes();
            let score = f64::from(score) / 4.0;
            let found = model.iter().position(|(member, _)| *member == name);
            if what < 4 {
                let outcome = edit.change(&name, &limits, |old| {
                    assert_eq!(old, found.map(|at| model[at].1));
                    Some(score)
                });
                let want = match found.map(|at| model.remove(at)) {
                    None => Outcome::Added,
                    Some((_, old)) if old == score => Outcome::Same,
                    Some(_) => Outcome::Updated,
                };
                prop_assert_eq!(outcome, want);
                model.push((name, score));
                model.sort_by(|(a, x), (b, y)| x.total_cmp(y).then_with(|| a.cmp(b)));
                large |= model.len() > entries;
            } else if what == 4 {
                prop_assert_eq!(edit.remove(&name), found.is_some());
                found.map(|at| model.remove(at));
            } else {
                let count = (score.abs() as usize).min(model.len());
                let reverse = score < 0.0;
                let mut popped = Elements::new();
                edit.pop(count, reverse, |m, s| popped.push((m.to_vec(), s)));
                let gone = if reverse { model.len() - count..model.len() } else { 0..count };
                let mut want: Elements = model.drain(gone).collect();
                if reverse {
                    want.reverse();
                }
                prop_assert_eq!(popped, want);
            }
            prop_assert_eq!(kind(&edit) == Kind::ZsetTree, large);
            prop_assert_eq!(&contents(edit.view()), &model);
        }
        let view = edit.view();
        for (rank, (member, score)) in model.iter().enumerate() {
            prop_assert_eq!(view.rank(member), Some((rank, *score)));
            prop_assert_eq!(view.score(member), Some(*score));
        }
        prop_assert_eq!(view.rank(b"nobody"), None);
    }

    #[test]
    fn ranges_select_their_elements(
        n in 0usize..40,
        by_member in any::<bool>(),
        ((min, a), (max, b)) in ends(),
        offset in 0usize..12,
        limit in prop::option::of(0usize..8),
        reverse in any::<bool>(),
    ) {
        let elements: Elements = (0..n)
            .map(|i| match by_member {
                true => (format!("{:02}", i / 2 * 3 + i % 2).into_bytes(), 7.0),
                false => (format!("m{i:02}").into_bytes(), (i / 3) as f64),
            })
            .collect();
        let names = [min, max].map(|n| format!("{:02}", n.max(0)).into_bytes());
        let lex = |at: usize, exclusive| match [min, max][at] {
            -1 => LexEnd::Lowest,
            11 => LexEnd::Highest,
            _ => LexEnd::Member { member: &names[at], exclusive },
        };
        let range = match by_member {
            true => Range::Lex { min: lex(0, a), max: lex(1, b) },
            false => Range::Score {
                min: ScoreEnd { score: f64::from(min), exclusive: a },
                max: ScoreEnd { score: f64::from(max), exclusive: b },
            },
        };
        let mut inside: Elements = elements
            .iter()
            .filter(|(m, s)| range.is_above_min(*s, || m) && range.is_below_max(*s, || m))
            .cloned()
            .collect();
        let count = inside.len();
        if reverse {
            inside.reverse();
        }
        let want: Elements =
            inside.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX)).collect();
        for large in [false, true] {
            let record = set_of(&elements, large);
            let view = View::of(&record).unwrap();
            let span = view.select(&range, reverse, offset as i64, limit);
            prop_assert_eq!(&walked(view, span, reverse), &want);
            prop_assert_eq!(view.count(&range), count);
        }
    }
}
