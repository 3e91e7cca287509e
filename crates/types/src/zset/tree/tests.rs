//! Compares the tree with a sorted vector.

use super::{Place, Tree};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

type Elements = Vec<(Vec<u8>, f64)>;

fn sort(elements: &mut Elements) {
    elements.sort_by(|(a, x), (b, y)| x.total_cmp(y).then_with(|| a.cmp(b)));
}

/// Numbers in an order that looks random.
fn shuffled(n: u64) -> impl Iterator<Item = u64> {
    (0..n).map(move |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20)
}

fn member(n: u64) -> Vec<u8> {
    format!("member:{n}").into_bytes()
}

fn place(tree: &Tree, member: &[u8]) -> Place {
    tree.find(member).expect("the member is there")
}

#[test]
fn inserts_and_removes_in_every_order() {
    let n = 3000;
    let orders: [Vec<u64>; 3] = [(0..n).collect(), (0..n).rev().collect(), shuffled(n).collect()];
    for order in orders {
        let mut tree = Tree::new();
        let mut model = Elements::new();
        for i in &order {
            tree.insert(&member(*i), *i as f64);
            model.push((member(*i), *i as f64));
        }
        sort(&mut model);
        assert_eq!(tree.check(), model);
        assert!(tree.forward(0).eq(model.iter().map(|(m, s)| (&m[..], *s))));
        assert!(tree.backward(tree.len() - 1).eq(model.iter().rev().map(|(m, s)| (&m[..], *s))));
        // Remove them from the front, the back, and in between.
        for (step, i) in order.iter().enumerate() {
            let rank = match step % 3 {
                0 => 0,
                1 => tree.len() - 1,
                _ => *i as usize % tree.len(),
            };
            tree.remove(tree.nth(rank).unwrap());
            model.remove(rank);
            if step % 97 == 0 {
                assert_eq!(tree.check(), model);
            }
        }
        assert_eq!(tree.check(), model);
        assert!(tree.is_empty() && tree.memory(0) < 10_000, "{} bytes left", tree.memory(0));
    }
}

#[test]
fn pushing_in_order_fills_leaves() {
    let mut tree = Tree::new();
    let mut inserted = Tree::new();
    for i in 0..5000 {
        tree.push(&member(i), i as f64);
        inserted.insert(&member(i), i as f64);
    }
    assert_eq!(tree.check(), inserted.check());
    assert_eq!(tree.leaves.iter().count(), 5000usize.div_ceil(super::leaf::FULL));
}

/// Equal scores, and scores that change in one direction, are the worst case for separators.
#[test]
fn equal_scores_are_ordered_by_member() {
    let mut tree = Tree::new();
    let mut model = BTreeSet::new();
    for i in shuffled(2000) {
        tree.insert(&member(i), 0.0);
        model.insert(member(i));
    }
    let want: Vec<_> = model.iter().map(|m| (m.clone(), 0.0)).collect();
    assert_eq!(tree.check(), want);
    for bound in [&b"member:5"[..], b"", b"z", &want[700].0] {
        let count = model.iter().filter(|m| &m[..] < bound).count();
        assert_eq!(tree.count_before(|_, lazy| lazy.bytes() < bound), count);
    }
    assert_eq!(tree.count_before(|score, _| score < 0.0), 0);
    assert_eq!(tree.count_before(|score, _| score <= -0.0), 2000);
}

#[test]
fn scores_move_near_and_far() {
    let mut tree = Tree::new();
    let mut model: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    for i in 0..1500 {
        tree.insert(&member(i), i as f64);
        model.insert(member(i), i as f64);
    }
    for (step, i) in shuffled(6000).enumerate() {
        let name = member(i % 1500);
        let old = model[&name];
        let new = match step % 4 {
            0 => old + 0.25,
            1 => old - 1.25,
            2 => (i % 3000) as f64 - 700.0,
            _ => [0.0, f64::INFINITY, f64::NEG_INFINITY][i as usize % 3],
        };
        tree.set_score(place(&tree, &name), &name, new);
        model.insert(name, new);
        if step % 200 == 0 {
            let mut want: Elements = model.iter().map(|(m, s)| (m.clone(), *s)).collect();
            sort(&mut want);
            assert_eq!(tree.check(), want);
        }
    }
}

#[test]
fn long_members_are_outside_the_leaves() {
    let mut tree = Tree::new();
    let name = |i: u64| vec![b'a' + (i % 26) as u8; 300 + 7 * i as usize];
    for i in shuffled(300).map(|i| i % 600).collect::<BTreeSet<_>>() {
        tree.insert(&name(i), (i % 7) as f64);
    }
    let elements = tree.check();
    assert!(tree.leaves.iter().all(|leaf| leaf.text_len() < 4096 + 512));
    for (n, (member, score)) in elements.iter().enumerate() {
        match n % 3 {
            0 => tree.remove(place(&tree, member)),
            1 => tree.set_score(place(&tree, member), member, score + 3.5),
            _ => {}
        }
    }
    assert_eq!(tree.check().len(), elements.len() - elements.len().div_ceil(3));
    tree.remove_ranks(0..usize::MAX);
    assert_eq!(tree.check(), []);
}

#[test]
fn removes_ranges_of_ranks() {
    for (n, ranges) in [
        (0, vec![0..0, 0..5]),
        (10, vec![3..7, 0..1, 4..9, 0..99]),
        (2000, vec![0..1, 1998..1999, 500..1500, 100..101, 0..64, 200..usize::MAX, 0..9999]),
    ] {
        let mut tree = Tree::new();
        let mut model = Elements::new();
        for i in 0..n {
            tree.push(&member(i), i as f64);
            model.push((member(i), i as f64));
        }
        for range in ranges {
            let end = range.end.min(model.len());
            tree.remove_ranks(range.clone());
            model.drain(range.start..end.max(range.start));
            assert_eq!(tree.check(), model);
        }
    }
}

#[test]
fn copy_is_independent() {
    let mut tree = Tree::new();
    (0..500).for_each(|i| tree.insert(&member(i), i as f64));
    let copy = tree.clone();
    tree.remove_ranks(0..400);
    assert_eq!(copy.check().len(), 500);
    assert_eq!(tree.check().len(), 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// All operations, with so few members and scores that they collide.
    #[test]
    fn matches_a_sorted_map(steps in prop::collection::vec((0u8..12, 0u64..400, 0u32..60), 0..700)) {
        let mut tree = Tree::new();
        let mut model: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        for (what, name, score) in steps {
            let mut name = member(name);
            if score % 9 == 0 {
                name.resize(name.len() + 40 * score as usize, b'.');
            }
            let score = f64::from(score) / 4.0;
            match (what, tree.find(&name)) {
                (0..9, None) => {
                    tree.insert(&name, score);
                    model.insert(name, score);
                }
                (0..9, Some(place)) => {
                    tree.set_score(place, &name, score);
                    model.insert(name, score);
                }
                (9, found) => {
                    prop_assert_eq!(found.is_some(), model.remove(&name).is_some());
                    found.into_iter().for_each(|place| tree.remove(place));
                }
                _ => {
                    let from = name.len() * 7 % (tree.len() + 1);
                    let gone: Elements = tree
                        .forward(from)
                        .take(score as usize)
                        .map(|(m, s)| (m.to_vec(), s))
                        .collect();
                    tree.remove_ranks(from..from + gone.len());
                    gone.iter().for_each(|(m, _)| { model.remove(m); });
                }
            }
        }
        let mut want: Elements = model.into_iter().collect();
        sort(&mut want);
        prop_assert_eq!(tree.check(), want);
    }

    /// A scan passes every member that exists from its beginning to its end, even if scores change
    /// and other members are added and removed between steps.
    #[test]
    fn scan_passes_lasting_members(stay in 1u64..1200, change in 0u64..400, step in 1usize..50) {
        let mut tree = Tree::new();
        for i in 0..stay {
            tree.insert(&member(i), (i % 10) as f64);
        }
        let mut shown = BTreeSet::new();
        let (mut cursor, mut calls) = (0, 0u64);
        loop {
            let mut left = step;
            cursor = tree.scan(cursor, |m, _| {
                shown.insert(m.to_vec());
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if cursor == 0 {
                break;
            }
            calls += 1;
            for i in 0..change {
                let other = member(1_000_000 + i);
                match tree.find(&other) {
                    Some(place) if calls % 3 == 0 => tree.remove(place),
                    Some(_) => {}
                    None => tree.insert(&other, calls as f64),
                }
            }
            let moving = member(calls % stay);
            tree.set_score(place(&tree, &moving), &moving, calls as f64);
            prop_assert!(calls < 5000, "the scan must end");
        }
        prop_assert!((0..stay).all(|i| shown.contains(&member(i))));
    }
}
