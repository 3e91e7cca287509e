//! Passwords: only their hashes are kept.

use sha2::{Digest, Sha256};

/// The most bits that ACL GENPASS generates.
pub const MAX_PASSWORD_BITS: usize = 4096;

/// The SHA-256 hash of a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Password([u8; 32]);

/// Shows nothing: a hash is enough to guess a weak password.
impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(redacted)")
    }
}

impl Password {
    /// Hashes a password. O(its length).
    pub fn hash(text: &[u8]) -> Password {
        Password(Sha256::digest(text).into())
    }

    /// Parses a hash: 64 hexadecimal digits in lower case.
    pub fn parse(hex: &[u8]) -> Option<Password> {
        let digit = |byte: &u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if hex.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(&pair[0])? << 4 | digit(&pair[1])?;
        }
        Some(Password(bytes))
    }

    /// The hash as 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// Compares in a time that does not depend on where the two differ.
    pub(crate) fn is_same(&self, other: &Password) -> bool {
        let differ = self.0.iter().zip(other.0).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A password for ACL GENPASS: the digits for `bits` bits of `random`, rounded up to a digit.
pub fn hex_password(random: &[u8], bits: usize) -> String {
    let mut text = hex(random);
    text.truncate(bits.div_ceil(4));
    text
}
