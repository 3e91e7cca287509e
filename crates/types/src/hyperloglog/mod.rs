//! HyperLogLogs: how many different elements were seen, in 12 KB at most, within a percent or so.
//!
//! An element's hash names one of 16384 registers by its lower 14 bits; the register keeps the
//! highest *rank* seen, the place of the lowest bit set among the other 50 (Flajolet, Fusy,
//! Gandouet, Meunier, "HyperLogLog", 2007, with the 64-bit hash and the two representations of
//! Heule, Nunkesser, Hall, "HyperLogLog in practice", 2013). [`estimate`] makes a number of it.
//!
//! A HyperLogLog is a string, which clients may read, copy to another server and write back, so its
//! bytes are those of the reference, and any string may claim to be one:
//!
//! ```text
//!  bytes  0..4     4          5..8     8..16                         16..
//!         "HYLL"   encoding   unused   last estimate, little endian  registers
//!                  0 dense             top bit: out of date          packed six-bit registers
//!                  1 sparse                                          runs: see sparse.rs
//! ```
//!
//! [`View::of`] looks at the header alone. That the runs of a sparse one cover exactly all
//! registers is seen, or not, by who walks over all of them.

mod dense;
mod estimate;
mod hash;
mod header;
mod registers;
mod sparse;
#[cfg(test)]
mod tests;

pub use dense::{add as add_dense, is_higher};
pub use hash::Place;
pub use header::{EMPTY, HEADER, View, cache, cached, outdate};
pub use registers::Registers;
pub use sparse::{Added, Growing, Patch, Step, decode, step};

use weft_base::sixbit::PACKED;

/// A sparse one whose runs don't cover all registers, or more than all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupted;

/// Bytes of a dense one.
pub const DENSE: usize = HEADER + PACKED;

/// How many different elements have been seen. O(registers).
///
/// # Errors
///
/// [`Corrupted`], by a sparse one.
pub fn count(view: View<'_>) -> Result<u64, Corrupted> {
    match view {
        View::Dense(packed) => {
            let mut registers = Registers::new();
            registers.raise_dense(&[packed]);
            Ok(registers.count())
        }
        View::Sparse(runs) => Ok(estimate::cardinality(&sparse::histogram(runs)?)),
    }
}

/// The dense form of the sparse one that `bytes` are; the header stays but for the encoding.
///
/// # Errors
///
/// [`Corrupted`].
pub fn to_dense(bytes: &[u8]) -> Result<Vec<u8>, Corrupted> {
    let mut registers = Registers::new();
    registers.raise_sparse(&bytes[HEADER..])?;
    Ok(registers.under(bytes))
}
