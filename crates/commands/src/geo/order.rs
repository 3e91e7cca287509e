//! Sorts the results of a search, or only the first few of them.
//!
//! Clients can see the order of places at equal distance. If all results are wanted, it is the
//! order in which they were found. If only some are wanted, the reference uses a quicksort that
//! skips the partitions beyond the wanted part. Which of several equally distant places come first,
//! and which are returned at all, depends on the steps of that quicksort: Bentley and McIlroy,
//! "Engineering a Sort Function" (Software: Practice and Experience 23, 1993), with its choice of
//! the pivot and its swaps. This module follows the paper exactly, to give the same replies.
//!
//! Its worst case is quadratic, and a client could choose such places. So the depth is bounded:
//! beyond it a merge sort takes over.

use std::cmp::Ordering;

/// Fewer elements than this are sorted by insertion.
const SMALL: usize = 7;
/// Above this size, the pivot is the median of three medians.
const LARGE: usize = 40;

/// Sorts `items` by `compare` so far that the first `wanted` are the smallest, in order.
pub fn sort_first<T: Copy>(
    items: &mut [T],
    wanted: usize,
    compare: impl Fn(&T, &T) -> Ordering + Copy,
) {
    if wanted >= items.len() {
        return items.sort_by(compare);
    }
    let depth = 4 * (usize::BITS - items.len().leading_zeros());
    sort_partially(items, wanted, depth, compare);
}

fn sort_partially<T: Copy>(
    mut items: &mut [T],
    mut wanted: usize,
    mut depth: u32,
    compare: impl Fn(&T, &T) -> Ordering + Copy,
) {
    loop {
        let len = items.len();
        if len < SMALL {
            return sort_by_insertion(items, compare);
        }
        if depth == 0 {
            return items.sort_by(compare);
        }
        depth -= 1;
        items.swap(0, pivot(items, compare));
        let (less, greater) = partition(items, compare);
        if less > 1 {
            sort_partially(&mut items[..less], wanted, depth, compare);
        }
        let from = len - greater;
        if greater <= 1 || wanted <= from {
            return;
        }
        wanted -= from;
        items = &mut items[from..];
    }
}

fn sort_by_insertion<T: Copy>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && compare(&items[at - 1], &items[at]).is_gt() {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// The position of the pivot.
fn pivot<T>(items: &[T], compare: impl Fn(&T, &T) -> Ordering) -> usize {
    let median = |a: usize, b: usize, c: usize| {
        let cmp = |x: usize, y: usize| compare(&items[x], &items[y]);
        match (cmp(a, b).is_lt(), cmp(b, c)) {
            (true, Ordering::Less) | (false, Ordering::Greater) => b,
            (true, _) => {
                if cmp(a, c).is_lt() {
                    c
                } else {
                    a
                }
            }
            (false, _) => {
                if cmp(a, c).is_lt() {
                    a
                } else {
                    c
                }
            }
        }
    };
    let len = items.len();
    let (first, middle, last) = (0, len / 2, len - 1);
    if len == SMALL {
        return middle;
    }
    if len <= LARGE {
        return median(first, middle, last);
    }
    let part = len / 8;
    median(
        median(first, part, 2 * part),
        median(middle - part, middle, middle + part),
        median(last - 2 * part, last - part, last),
    )
}

/// Moves elements less than the first one to the front and greater ones to the back. Returns the
/// number of each. Equal elements collect at both ends first, and then move to the middle.
fn partition<T: Copy>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) -> (usize, usize) {
    let len = items.len();
    let pivot = items[0];
    // Equal | less | unseen | greater | equal; the unseen part ends before `right`.
    let (mut equal_left, mut left) = (1, 1);
    let (mut right, mut equal_right) = (len, len);
    loop {
        while left < right {
            let order = compare(&items[left], &pivot);
            if order.is_gt() {
                break;
            }
            if order.is_eq() {
                items.swap(equal_left, left);
                equal_left += 1;
            }
            left += 1;
        }
        while left < right {
            let order = compare(&items[right - 1], &pivot);
            if order.is_lt() {
                break;
            }
            if order.is_eq() {
                equal_right -= 1;
                items.swap(right - 1, equal_right);
            }
            right -= 1;
        }
        if left >= right {
            break;
        }
        right -= 1;
        items.swap(left, right);
        left += 1;
    }
    let (less, greater) = (left - equal_left, equal_right - right);
    swap_ranges(items, 0, left, equal_left.min(less));
    swap_ranges(items, left, len, greater.min(len - equal_right));
    (less, greater)
}

/// Swaps the `count` elements from `front` on with the `count` elements before `end`, one by one.
fn swap_ranges<T>(items: &mut [T], front: usize, end: usize, count: usize) {
    for i in 0..count {
        items.swap(front + i, end - count + i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_base::rng::Rng;

    fn random_items(rng: &mut Rng, len: usize, kinds: u64) -> Vec<(u64, usize)> {
        (0..len).map(|at| (rng.next_u64() % kinds, at)).collect()
    }

    #[test]
    fn a_partial_sort_matches_a_full_sort() {
        let mut rng = Rng::new(5);
        for round in 0..3000 {
            let len = round % 130;
            let kinds = [2, 10, 1 << 40][round % 3];
            let items = random_items(&mut rng, len, kinds);
            let wanted = if len == 0 { 0 } else { round * 7 % (len + 1) };
            let mut sorted = items.clone();
            sorted.sort();
            let mut some = items.clone();
            sort_first(&mut some, wanted, |a, b| a.0.cmp(&b.0));
            let values = |items: &[(u64, usize)]| items.iter().map(|i| i.0).collect::<Vec<_>>();
            assert_eq!(values(&some[..wanted]), values(&sorted[..wanted]), "{len} {wanted}");
            some.sort();
            assert_eq!(some, sorted, "no element is lost");
            if wanted == len {
                let mut all = items.clone();
                sort_first(&mut all, wanted, |a, b| a.0.cmp(&b.0));
                assert_eq!(all, sorted, "the sort is stable");
            }
        }
    }

    #[test]
    fn the_depth_is_bounded() {
        let mut items: Vec<(u64, usize)> =
            (0..1000).map(|at| (at as u64 / 3 * 7 % 50, at)).collect();
        let mut sorted = items.clone();
        sorted.sort();
        sort_partially(&mut items, 900, 0, |a, b| a.0.cmp(&b.0));
        assert_eq!(items, sorted);
    }
}
