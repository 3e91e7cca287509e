//! HyperLogLogs: estimate the number of distinct elements within about a percent, in 12 KB at most.
//!
//! The lower 14 bits of an element's hash select one of 16384 registers. The register keeps the
//! highest *rank* seen, the position of the lowest bit set among the other 50 bits (Flajolet, Fusy,
//! Gandouet, Meunier, "HyperLogLog", 2007, with the 64-bit hash and the two representations of
//! Heule, Nunkesser, Hall, "HyperLogLog in practice", 2013). [`estimate`] computes the number of
//! elements.
//!
//! A HyperLogLog is a string, which clients may read, copy to another server and write back. So its
//! bytes are those of Valkey, and any string may claim to be one:
//!
//! ```text
//!  bytes  0..4     4          5..8     8..16                         16..
//!         "HYLL"   encoding   unused   last estimate, little endian  registers
//!                  0 dense             top bit: out of date          packed six-bit registers
//!                  1 sparse                                          runs: see sparse.rs
//! ```
//!
//! [`View::of`] checks only the header. Whether the runs of a sparse HyperLogLog cover exactly all
//! registers is checked only by functions that walk all runs.

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
pub use header::{EMPTY, HEADER, View, cache, cached, invalidate_cache};
pub use registers::Registers;
pub use sparse::{Added, Patch, SparseBuilder, Step, decode, step};

use weft_base::sixbit::PACKED;

/// The runs of a sparse HyperLogLog don't cover exactly all registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupted;

/// Bytes of a dense HyperLogLog.
pub const DENSE: usize = HEADER + PACKED;

/// The estimated number of distinct elements. O(registers).
///
/// # Errors
///
/// [`Corrupted`] if the runs of a sparse one don't cover exactly all registers.
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

/// The dense form of a sparse HyperLogLog. The header is copied except for the encoding.
///
/// # Errors
///
/// [`Corrupted`] if the runs don't cover exactly all registers.
pub fn to_dense(bytes: &[u8]) -> Result<Vec<u8>, Corrupted> {
    let mut registers = Registers::new();
    registers.raise_sparse(&bytes[HEADER..])?;
    Ok(registers.under(bytes))
}
