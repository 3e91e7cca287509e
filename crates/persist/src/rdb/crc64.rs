//! The checksum: CRC-64 with the polynomial of David T. Jones (ad93d23594c935a9), reflected,
//! beginning with 0.

use crc::{Crc, Digest, Table};

static REDIS: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&crc::CRC_64_REDIS);

/// The checksum of `bytes`.
#[must_use]
pub fn crc64(bytes: &[u8]) -> u64 {
    REDIS.checksum(bytes)
}

/// A checksum of bytes that come piece by piece.
pub struct Crc64(Digest<'static, u64, Table<16>>);

impl Default for Crc64 {
    fn default() -> Self {
        Crc64(REDIS.digest())
    }
}

impl Crc64 {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    #[must_use]
    pub fn finish(self) -> u64 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_everybody_computes_it() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let mut pieces = Crc64::default();
        [&b"1234"[..], b"", b"56789"].into_iter().for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.finish(), crc64(b"123456789"));
    }
}
