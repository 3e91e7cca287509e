//! Files in the RDB format: what a server saves of its whole keyspace, and loads when it starts.
//!
//! ```text
//!  file = "REDIS" 4 digits | "VALKEY" 3 digits, item ..., FF, CRC-64 of all before (u64 LE; 0: none)
//!
//!  item = FA, name, value                     what the writer tells of itself
//!       | F5, text                            a library of functions
//!       | FE, database                        whose keys follow
//!       | FB, keys, keys that expire          how many will follow, about
//!       | [FC, ms (i64 LE) | FD, s (i32 LE)] [F8, seconds idle | F9, frequency (1 byte)]
//!         type code, key, body                a key
//!       | F4, 3 lengths | F3, slot ranges     of clusters; nothing here
//! ```
//!
//! Names, texts and keys are strings, numbers lengths, as in [values](super). Versions before 5 have
//! no checksum.
//!
//! **Written** by several threads ([`Saver`]): each encodes keys into a [`Lane`] of its own, and a
//! full lane is put behind what is there; keys of a database need not stand together, since a
//! database may be chosen again. A large value goes to the writer piece by piece.
//!
//! **Read** by several threads ([`Loader`]): whoever has nothing to do takes a block of whole
//! entries, for which one look at every entry's lengths is enough, and makes records of them while
//! others take theirs. Nothing is believed, as in [`decode`](super::decode()); whether version and
//! dialect are known is seen before anything is loaded ([`Header`]).
//!
//! | file | holds |
//! |---|---|
//! | `header` | signature, version, what may be read |
//! | `item` | the grammar, over any source; [`skip`]: bodies that are only gone past |
//! | `input` | bytes of a file: offset, checksum |
//! | `load` | blocks for several threads, records of them |
//! | `write` | the writer and its lanes; `place`: a file that takes the place of another |
//! | `check` | what is wrong with a file, and where; `profile`: what is in it, in numbers |

mod check;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod header;
mod input;
mod item;
mod load;
mod place;
mod profile;
mod skip;
#[cfg(test)]
mod tests;
mod write;

pub use check::{Checked, Report, check, check_front};
pub use header::{Header, Magic, Refusal, VersionCheck};
pub use load::{Counts, Ended, Loader, Origin, Piece, Terms, Trouble, Wrong};
pub use place::Place;
pub use profile::{Layout, Profile};
pub use write::{Lane, Saver, Told, Used};

/// What an item begins with, where it is not a key's type code.
mod opcode {
    pub const SLOT_IMPORT: u8 = 243;
    pub const SLOT_INFO: u8 = 244;
    pub const FUNCTION: u8 = 245;
    /// Functions of a preview of Redis 7.0.
    pub const OLD_FUNCTION: u8 = 246;
    pub const MODULE: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const TOLD: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const EXPIRY_MS: u8 = 252;
    pub const EXPIRY: u8 = 253;
    pub const DATABASE: u8 = 254;
    pub const END: u8 = 255;
}

/// The first version that ends with a checksum.
const SUMMED_FROM: u16 = 5;
