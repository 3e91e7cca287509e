//! The payload of FUNCTION DUMP and RESTORE: libraries as in a file, the version of the format, a checksum.

use super::item::string;
use super::opcode;
use crate::rdb::write::Writer;
use crate::rdb::{Slice, VERSION, crc64, open};

/// Bytes of the version and the checksum.
const FOOTER: usize = 10;

/// The payload with these texts of libraries.
///
/// # Panics
/// Never: a vector takes all bytes.
pub fn dump_functions<'t>(texts: impl IntoIterator<Item = &'t [u8]>, compress: bool) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in texts {
        let mut out = Writer::new(&mut payload, compress);
        out.raw(&[opcode::FUNCTION]).expect("a vector takes all bytes");
        out.string(text).expect("a vector takes all bytes");
    }
    payload.extend(VERSION.to_le_bytes());
    let sum = crc64(&payload);
    payload.extend(sum.to_le_bytes());
    payload
}

/// The texts of the libraries in a payload.
///
/// # Errors
/// The text of the error reply, without its code.
pub fn restore_functions(payload: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    open(payload).ok_or("DUMP payload version or checksum are wrong")?;
    let mut texts = Vec::new();
    let mut from = Slice(payload);
    while from.0.len() > FOOTER {
        let code = from.0[0];
        from.0 = &from.0[1..];
        match code {
            opcode::FUNCTION => {}
            opcode::OLD_FUNCTION => return Err("Pre-GA function format not supported"),
            _ => return Err("given type is not a function"),
        }
        texts.push(string(&mut from).map_err(|_| "Failed loading library payload")?);
    }
    Ok(texts)
}
