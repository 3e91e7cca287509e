//! Writes lengths and strings.

use super::lzf;
use std::io::{self, Write};
use weft_types::string::{Digits, Text, canonical_int};

/// The shortest string that is compressed, in bytes.
const COMPRESS_MIN: usize = 21;

/// The longest string that is compressed, in bytes. The compressed block needs memory in addition
/// to the string, and saving must not double the memory of a value.
const COMPRESS_MAX: usize = 64 << 20;

/// Minimum saving of a compressed string in bytes.
const COMPRESS_WIN: usize = 4;

/// Writes the primitives of the format.
pub struct Writer<'w, W> {
    out: &'w mut W,
    compress: bool,
    block: Vec<u8>,
}

impl<'w, W: Write> Writer<'w, W> {
    pub fn new(out: &'w mut W, compress: bool) -> Self {
        Writer { out, compress, block: Vec::new() }
    }

    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    pub fn len(&mut self, n: usize) -> io::Result<()> {
        self.number(n as u64)
    }

    /// Writes a number in the encoding of a length.
    pub fn number(&mut self, n: u64) -> io::Result<()> {
        match n {
            0..=0x3f => self.raw(&[n as u8]),
            0x40..=0x3fff => self.raw(&[0x40 | (n >> 8) as u8, n as u8]),
            _ => match u32::try_from(n) {
                Ok(n) => {
                    self.raw(&[0x80])?;
                    self.raw(&n.to_be_bytes())
                }
                Err(_) => {
                    self.raw(&[0x81])?;
                    self.raw(&n.to_be_bytes())
                }
            },
        }
    }

    /// Writes `n` as a string with its decimal form.
    pub fn int(&mut self, n: i64) -> io::Result<()> {
        if let Ok(n) = i8::try_from(n) {
            return self.raw(&[0xc0, n as u8]);
        }
        if let Ok(n) = i16::try_from(n) {
            let [a, b] = n.to_le_bytes();
            return self.raw(&[0xc1, a, b]);
        }
        if let Ok(n) = i32::try_from(n) {
            self.raw(&[0xc2])?;
            return self.raw(&n.to_le_bytes());
        }
        self.plain(Digits::new().format(n).as_bytes())
    }

    /// Writes a string without conversion.
    pub fn plain(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.len(bytes.len())?;
        self.raw(bytes)
    }

    /// Writes a string that may consist of several pieces; see [`Writer::string`]. A string to
    /// compress is copied into one piece first.
    pub fn text(&mut self, text: Text<'_>) -> io::Result<()> {
        match text {
            Text::Whole(bytes) => self.string(bytes),
            Text::Pieces(pieces) if self.compresses(pieces.len()) => self.string(&pieces.to_vec()),
            Text::Pieces(pieces) => {
                self.len(pieces.len())?;
                text.all().try_for_each(|slice| self.raw(slice))
            }
        }
    }

    /// Whether to try compressing a string of this length.
    pub fn compresses(&self, len: usize) -> bool {
        self.compress && (COMPRESS_MIN..=COMPRESS_MAX).contains(&len)
    }

    /// Writes a string, as a number or compressed if that is shorter.
    pub fn string(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Longer texts exceed 32 bits.
        if bytes.len() <= 11
            && let Some(n) = canonical_int(bytes)
        {
            return self.int(n);
        }
        if !self.compresses(bytes.len()) {
            return self.plain(bytes);
        }
        let mut block = std::mem::take(&mut self.block);
        let done = match lzf::compress(bytes, bytes.len() - COMPRESS_WIN, &mut block) {
            true => self.compressed(&block, bytes.len()),
            false => self.plain(bytes),
        };
        self.block = block;
        done
    }

    fn compressed(&mut self, block: &[u8], len: usize) -> io::Result<()> {
        self.raw(&[0xc3])?;
        self.len(block.len())?;
        self.len(len)?;
        self.raw(block)
    }
}
