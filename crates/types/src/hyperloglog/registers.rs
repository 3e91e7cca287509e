//! All registers with one byte each, for merging HyperLogLogs.

use super::estimate::{Histogram, cardinality};
use super::header::dense_with_header;
use super::{Corrupted, HEADER, Place, View, sparse};
use weft_base::sixbit::{self, Open, Packed, REGISTERS};

/// The maximum of each register over the merged HyperLogLogs.
#[derive(Debug)]
pub struct Registers(Box<Open>);

impl Default for Registers {
    fn default() -> Self {
        Registers::new()
    }
}

impl Registers {
    /// All zero.
    pub fn new() -> Registers {
        Registers(Box::new([0; REGISTERS]))
    }

    /// Raises each register to that of `view` if it is lower. O(registers).
    ///
    /// # Errors
    ///
    /// [`Corrupted`]; some registers may already be raised then.
    pub fn raise(&mut self, view: View<'_>) -> Result<(), Corrupted> {
        match view {
            View::Dense(packed) => {
                self.raise_dense(&[packed]);
                Ok(())
            }
            View::Sparse(runs) => self.raise_sparse(runs),
        }
    }

    /// Raises the registers to those of all of `all`. Cheaper than one call for each.
    pub fn raise_dense(&mut self, all: &[&Packed]) {
        sixbit::raise(&mut self.0, all);
    }

    pub fn raise_sparse(&mut self, runs: &[u8]) -> Result<(), Corrupted> {
        sparse::each_run(runs, |from, len, value| {
            if value > 0 {
                for register in &mut self.0[from..from + len] {
                    *register = value.max(*register);
                }
            }
        })
    }

    /// The estimated number of distinct elements.
    pub fn count(&self) -> u64 {
        cardinality(&self.histogram())
    }

    fn histogram(&self) -> Histogram {
        // Neighbouring registers are often equal. With one array, each increment would wait for the
        // last.
        let mut counts: [Histogram; 4] = [[0; 64]; 4];
        for four in self.0.as_chunks::<4>().0 {
            for (counts, value) in counts.iter_mut().zip(four) {
                counts[usize::from(value & 63)] += 1;
            }
        }
        let [first, rest @ ..] = counts;
        let sum = |at: usize| first[at] + rest.iter().map(|counts| counts[at]).sum::<u32>();
        std::array::from_fn(sum)
    }

    /// The registers that are not zero, in order.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let words = self.0.as_chunks::<8>().0.iter().enumerate();
        let filled = words.filter(|(_, word)| u64::from_le_bytes(**word) != 0);
        filled.flat_map(|(at, word)| {
            let places = word.iter().enumerate().filter(|(_, rank)| **rank > 0);
            places.map(move |(n, rank)| Place { index: 8 * at + n, rank: *rank })
        })
    }

    /// All registers, in order.
    pub fn each(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().copied()
    }

    /// A dense HyperLogLog with these registers and the header of `bytes`.
    pub fn under(&self, bytes: &[u8]) -> Vec<u8> {
        let mut dense = dense_with_header(bytes);
        self.write(&mut dense);
        dense
    }

    /// Writes these registers into the dense HyperLogLog in `bytes`.
    ///
    /// # Panics
    ///
    /// If `bytes` are not a dense HyperLogLog.
    pub fn write(&self, bytes: &mut [u8]) {
        sixbit::pack(&self.0, (&mut bytes[HEADER..]).try_into().expect("a dense HyperLogLog"));
    }
}
