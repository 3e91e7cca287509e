//! What the kernel's files say about a host: the part that several commands need.
//!
//! Everything is read below a root folder, which tests replace by a machine of their own.

mod files;
pub mod limits;
pub mod net;

pub use files::Host;
