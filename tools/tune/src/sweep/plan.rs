//! The order of the cells, and the remaining ones.

use std::collections::HashSet;
use weft_base::rng::Rng;

use crate::results::{Cell, Grid, Key};

/// All cells: repeats outermost, shuffled inside each repeat by the grid's seed.
pub fn order(grid: &Grid) -> Vec<Key> {
    let mut cells = grid.cells();
    for repeat in cells.chunk_by_mut(|a, b| a.repeat == b.repeat) {
        // A separate stream for each repeat, so that their orders differ.
        let mut rng = Rng::new(grid.seed.wrapping_mul(1_000_003) ^ u64::from(repeat[0].repeat));
        for i in (1..repeat.len()).rev() {
            repeat.swap(i, rng.below(i as u64 + 1) as usize);
        }
    }
    cells
}

/// The cells that are not recorded yet; failed ones stay as they are, or run again.
pub fn left(order: Vec<Key>, recorded: &[Cell], retry_failed: bool) -> Vec<Key> {
    let done: HashSet<&Key> = recorded
        .iter()
        .filter(|cell| !retry_failed || cell.measured().is_some())
        .map(|cell| &cell.key)
        .collect();
    order.into_iter().filter(|key| !done.contains(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Outcome;
    use crate::results::Threads;
    use crate::results::published;
    use proptest::prelude::*;

    fn grid(seed: u64, repeats: u32) -> Grid {
        let mut grid = published::sweeps().swap_remove(0).header.grid;
        grid.seed = seed;
        grid.repeats = repeats;
        grid.io_threads = [1, 2, 4].map(Threads::Count).to_vec();
        grid
    }

    fn cell(template: &Cell, key: &Key, failed: bool) -> Cell {
        let mut cell = template.clone();
        cell.key = key.clone();
        if failed {
            cell.outcome = Outcome::Failed { reason: "x".into(), log: vec![] };
        }
        cell
    }

    #[test]
    fn repeats_stay_outermost_and_have_orders_of_their_own() {
        let grid = grid(1, 2);
        let cells = order(&grid);
        let half = cells.len() / 2;
        assert!(cells[..half].iter().all(|key| key.repeat == 1));
        assert!(cells[half..].iter().all(|key| key.repeat == 2));
        let names = |cells: &[Key]| {
            cells.iter().map(|k| Key { repeat: 0, ..k.clone() }).collect::<Vec<_>>()
        };
        assert_ne!(names(&cells[..half]), names(&cells[half..]));
        assert_ne!(cells, grid.cells());
    }

    proptest! {
        /// Whatever was recorded before, the remaining cells complete the grid, each cell once.
        #[test]
        fn remaining_cells_complete_the_grid(
            seed: u64, done in prop::collection::vec(0usize..324, 0..200), failed in 0usize..5,
        ) {
            let grid = grid(seed, 3);
            let order = order(&grid);
            let template = published::sweeps()[0].cells[0].clone();
            prop_assert_eq!(&order, &super::order(&grid));
            let recorded: Vec<Cell> = done
                .iter()
                .enumerate()
                .map(|(i, &at)| cell(&template, &order[at], i < failed))
                .collect();
            for retry in [false, true] {
                let left = left(order.clone(), &recorded, retry);
                let counts = |cell: &&Cell| !retry || cell.measured().is_some();
                let kept: HashSet<&Key> = recorded.iter().filter(counts).map(|c| &c.key).collect();
                let all: HashSet<&Key> = kept.iter().copied().chain(&left).collect();
                prop_assert_eq!(all.len(), order.len());
                prop_assert_eq!(left.len() + kept.len(), order.len());
            }
        }
    }
}
