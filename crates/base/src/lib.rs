//! The foundation of all other crates, independent of the server.
//!
//! There are no sockets here, no configuration and no global state. Each module covers one small
//! fact about the machine or about the protocol:
//!
//! | module | holds |
//! |---|---|
//! | [`clock`] | monotonic and wall time, real or set by a test |
//! | [`timeline`] | Unix time that never goes back |
//! | [`rng`] | a small seeded generator, and the system's entropy |
//! | [`bits`] | counting and finding bits in long byte strings |
//! | [`cpulist`] | sets of CPUs and their text form |
//! | [`cgroup`], [`topology`] | how many CPUs this process may really use |
//! | [`machine`] | cores, sockets and memory nodes, and which CPUs threads should take |
//! | [`glob`] | the pattern language of `KEYS`, `SCAN MATCH`, `PSUBSCRIBE` |
//! | [`num`], [`num_format`], [`long_double`] | numbers as text, exactly as clients expect them |
//! | [`sixbit`] | packed arrays of six-bit registers, with wide instructions where there are any |
//! | [`slot`], [`crc16`] | hash slots, and the checksum that they are made from |
//! | [`share`] | the paths of man pages and completions |
//! | [`words`] | the words of an inline command or a configuration line |
//! | [`limits`] | the constants that several crates must agree on |
//!
//! `unsafe` appears only in [`topology`], for five system calls, and in [`bits`], [`crc16`],
//! [`runs`] and [`sixbit`], which call functions compiled for the detected processor.

pub mod bits;
pub mod cgroup;
pub mod clock;
pub mod cpulist;
pub mod crc16;
pub mod glob;
pub mod limits;
pub mod long_double;
pub mod machine;
mod natural;
pub mod num;
pub mod num_format;
pub mod rng;
pub mod runs;
pub mod share;
pub mod sixbit;
pub mod slot;
pub mod timeline;
pub mod topology;
pub mod words;
