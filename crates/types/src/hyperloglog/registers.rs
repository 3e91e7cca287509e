//! All registers with a byte for each: where HyperLogLogs are merged.

use super::estimate::{Histogram, cardinality};
use super::header::dense_under;
use super::{Corrupted, HEADER, Place, View, sparse};
use weft_base::sixbit::{self, Open, Packed, REGISTERS};

/// The highest of the registers that were merged.
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

    /// Takes the registers of `view` where they are higher. O(registers).
    ///
    /// # Errors
    ///
    /// [`Corrupted`]; some registers may have been taken then.
    pub fn raise(&mut self, view: View<'_>) -> Result<(), Corrupted> {
        match view {
            View::Dense(packed) => {
                self.raise_dense(&[packed]);
                Ok(())
            }
            View::Sparse(runs) => self.raise_sparse(runs),
        }
    }

    /// Takes the registers of all these; cheaper than of one after the other.
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

    /// How many different elements these registers have seen.
    pub fn count(&self) -> u64 {
        cardinality(&self.histogram())
    }

    fn histogram(&self) -> Histogram {
        // Neighbours are often equal. Counted in one array, each would wait for the one before.
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

    /// All of them, in order.
    pub fn each(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().copied()
    }

    /// A dense one with these registers and the header of `bytes`.
    pub fn under(&self, bytes: &[u8]) -> Vec<u8> {
        let mut dense = dense_under(bytes);
        self.write(&mut dense);
        dense
    }

    /// Puts these registers into the dense one that `bytes` are.
    ///
    /// # Panics
    ///
    /// If they are none.
    pub fn write(&self, bytes: &mut [u8]) {
        sixbit::pack(&self.0, (&mut bytes[HEADER..]).try_into().expect("a dense one"));
    }
}
