//! Intsets: integers of one width, in ascending order.
//!
//! ```text
//!  width in bytes (u32 LE: 2, 4 or 8), count (u32 LE), integers (LE)
//! ```

use crate::rdb::Fault;

const BROKEN: Fault = Fault::Corrupt("a broken intset");
const HEAD: usize = 8;

/// Returns the integers: at least one, strictly ascending.
pub fn read(bytes: &[u8]) -> Result<impl ExactSizeIterator<Item = i64>, Fault> {
    let (head, ints) = bytes.split_first_chunk::<HEAD>().ok_or(BROKEN)?;
    let [a, b, c, d, e, f, g, h] = *head;
    let (width, count) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    let (width, count) = (width as usize, count as usize);
    let fits = matches!(width, 2 | 4 | 8) && count.checked_mul(width) == Some(ints.len());
    if !fits || count == 0 {
        return Err(BROKEN);
    }
    let all = ints.chunks_exact(width).map(int);
    match all.clone().zip(all.clone().skip(1)).all(|(a, b)| a < b) {
        true => Ok(all),
        false => Err(BROKEN),
    }
}

/// Decodes a little-endian integer of two, four or eight bytes.
fn int(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    let from = wide.len() - bytes.len();
    wide[from..].copy_from_slice(bytes);
    i64::from_le_bytes(wide) >> (8 * from)
}
