//! The checksum: CRC-64 with the polynomial of David T. Jones (ad93d23594c935a9), reflected, with
//! the initial value 0.

use crc_fast::{CrcAlgorithm, Digest};

/// Returns the checksum of `bytes`. O(bytes), with the widest instructions of the processor.
#[must_use]
pub fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Redis, bytes)
}

/// An incremental checksum.
pub struct Crc64(Digest);

impl Default for Crc64 {
    fn default() -> Self {
        Crc64(Digest::new(CrcAlgorithm::Crc64Redis))
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
    fn known_checksum_matches() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let mut pieces = Crc64::default();
        [&b"1234"[..], b"", b"56789"].into_iter().for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.finish(), crc64(b"123456789"));
    }

    /// The bitwise reference implementation.
    fn slowly(bytes: &[u8]) -> u64 {
        let step = |sum: u64| (sum >> 1) ^ if sum & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 };
        bytes.iter().fold(0, |sum, byte| (0..8).fold(sum ^ u64::from(*byte), |sum, _| step(sum)))
    }

    #[test]
    fn checksum_matches_for_every_length_and_split() {
        let bytes: Vec<u8> = (0..1500_u32).map(|n| (n * n / 7 + n) as u8).collect();
        for length in (0..300).chain([511, 512, 513, 1023, 1024, 1025, 1499]) {
            let want = slowly(&bytes[..length]);
            assert_eq!(crc64(&bytes[..length]), want, "{length} bytes");
            for part in [1, 7, 16, 100, 128, 256] {
                let mut pieces = Crc64::default();
                bytes[..length].chunks(part).for_each(|piece| pieces.update(piece));
                assert_eq!(pieces.finish(), want, "{length} bytes by {part}");
            }
        }
    }
}
