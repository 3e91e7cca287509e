//! Values in the RDB format.
//!
//! ```text
//!  value   = type code (1 byte), body
//!  payload = value, version (u16 LE), CRC-64 of all before (u64 LE)            the reply of DUMP
//!
//!  length  = 00xxxxxx | 01xxxxxx x | 80 u32 BE | 81 u64 BE
//!  string  = length, bytes
//!          | C0 i8 | C1 i16 LE | C2 i32 LE                                     a decimal number
//!          | C3, length of the block, length of the string, block              LZF
//! ```
//!
//! | code | value | body |
//! |---|---|---|
//! | 0 | string | string |
//! | 1 | list | count, strings |
//! | 2 | set | count, strings |
//! | 3, 5 | sorted set | count, (string, score as text, or as f64 LE) |
//! | 4 | hash | count, (field, value) |
//! | 9, 13, 16 | hash | one string: zipmap, ziplist, listpack |
//! | 10 | list | one string: ziplist |
//! | 11, 20 | set | one string: intset, listpack |
//! | 12, 17 | sorted set | one string: ziplist, listpack |
//! | 14 | list | count, strings of a ziplist each |
//! | 18 | list | count, (1, string: an element) or (2, string: listpack) |
//! | 15, 19, 21 | stream | see `decode/stream.rs` |
//! | 22 | hash | count, (field, value, expiry in ms as i64 LE or -1); Valkey 9 |
//! | 24 | hash | least expiry (u64 LE), count, (expiry, as a length, field, value); Redis 7.4 |
//! | 25 | hash | least expiry, string: listpack of field, value, expiry; Redis 7.4 |
//!
//! The writer chooses the codes that the reader's version supports ([`Form`]). The reader chooses
//! the in-memory encoding by the configured limits, whatever the encoding of the input. Input may
//! come from any source; [`decode()`] lists the guarantees.
//!
//! | file | holds |
//! |---|---|
//! | `code` | type codes, versions, dialects |
//! | `encode`, `write` | encode a record; write lengths and strings |
//! | `decode`, `read`, `source` | decode a record; read lengths and strings; input |
//! | `lzf`, `crc64` | compression, checksum |
//! | `payload` | value, version and checksum together |
//! | `file` | whole files |

mod code;
mod crc64;
mod decode;
mod encode;
mod encode_stream;
mod fault;
pub mod file;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod lzf;
mod payload;
mod read;
mod source;
#[cfg(test)]
mod tests;
mod write;

pub use code::{Code, Dialect, VERSION};
pub use crc64::{Crc64, crc64};
pub use decode::{Target, decode, decode_body};
pub use encode::{Form, code_of, encode, encode_body, encode_shared, encode_shared_body};
pub use fault::Fault;
pub use payload::{Opened, open, seal};
pub use source::{Reader, Slice, Source};
