//! Files in the RDB format: a snapshot of the whole keyspace, which a server loads when it starts.
//!
//! ```text
//!  file = "REDIS" 4 digits | "VALKEY" 3 digits, item ..., FF, CRC-64 of all before (u64 LE; 0: none)
//!
//!  item = FA, name, value                     auxiliary field
//!       | F5, text                            a library of functions
//!       | FE, database                        of the following keys
//!       | FB, keys, keys that expire          approximate counts
//!       | [FC, ms (i64 LE) | FD, s (i32 LE)] [F8, seconds idle | F9, frequency (1 byte)]
//!         type code, key, body                a key
//!       | F4, 3 lengths | F3, slot ranges     cluster metadata, ignored
//! ```
//!
//! Names, texts and keys are strings, numbers are lengths, as in [values](super). Versions before 5
//! have no checksum.
//!
//! **Several threads write** a file ([`Saver`]). Each encodes keys into its own [`Lane`], and
//! appends a full lane to the file. The keys of a database need not be adjacent, because a file may
//! select a database repeatedly. A large value goes to the writer incrementally.
//!
//! **Several threads read** a file ([`Loader`]). An idle thread takes a block of complete entries,
//! which needs only their lengths, and decodes it while other threads take other blocks. The loader
//! trusts no input, as in [`decode`](super::decode()). It checks version and dialect before it
//! loads anything ([`Header`]).
//!
//! | file | holds |
//! |---|---|
//! | `header` | signature, version, accepted versions |
//! | `item` | the grammar, over any source; [`skip`]: skips bodies |
//! | `input` | bytes of a file: offset, checksum |
//! | `load` | blocks for several threads, records of them |
//! | `write` | the writer and its lanes; `place`: a file that replaces another atomically |
//! | `functions` | the payload of FUNCTION DUMP |
//! | `check` | finds damage in a file; `profile`: statistics of its content |

mod check;
mod functions;
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
pub use functions::{dump_functions, restore_functions};
pub use header::{Header, Magic, Refusal, VersionCheck};
pub use load::{Counts, Ended, Loader, Origin, Piece, Terms, Trouble, Wrong};
pub use place::Place;
pub use profile::{Layout, Profile};
pub use write::{Lane, Saver, Told, Used};

/// The first byte of an item other than a key; for a key it is the type code.
mod opcode {
    pub const SLOT_IMPORT: u8 = 243;
    pub const SLOT_INFO: u8 = 244;
    pub const FUNCTION: u8 = 245;
    /// Functions in a preview of Redis 7.0.
    pub const OLD_FUNCTION: u8 = 246;
    pub const MODULE: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const AUX: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const EXPIRY_MS: u8 = 252;
    pub const EXPIRY: u8 = 253;
    pub const DATABASE: u8 = 254;
    pub const END: u8 = 255;
}

/// The first version with a checksum.
const SUMMED_FROM: u16 = 5;
