//! The first nine bytes: which server wrote the file, in which version, and whether it can be read.
//!
//! Redis and Valkey share versions up to 11. Redis continues with 12. Valkey continues with 80
//! under its own name, and leaves the numbers between to others.

use crate::rdb::Dialect;
use std::fmt;

/// The name in the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    Redis,
    Valkey,
}

/// Signature and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub magic: Magic,
    pub version: u16,
}

/// `rdb-version-check`: how to treat versions that this code doesn't know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionCheck {
    /// Refuse the file.
    #[default]
    Strict,
    /// Read the file as far as the code understands it.
    Relaxed,
}

/// Why a file was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not an RDB file.
    Signature([u8; Header::LEN]),
    Version(u16),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Signature(bytes) => {
                write!(f, "Wrong signature trying to load DB from file: {}", bytes.escape_ascii())
            }
            Refusal::Version(version) => write!(f, "Can't handle RDB format version {version}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The first version under Valkey's name.
const VALKEY_FROM: u16 = 80;

impl Header {
    pub const LEN: usize = 9;

    /// The header of this version.
    #[must_use]
    pub fn of(version: u16) -> Header {
        let magic = if version < VALKEY_FROM { Magic::Redis } else { Magic::Valkey };
        Header { magic, version }
    }

    /// Prints the header.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Header::LEN] {
        let text = match self.magic {
            Magic::Redis => format!("REDIS{:04}", self.version),
            Magic::Valkey => format!("VALKEY{:03}", self.version),
        };
        text.into_bytes().try_into().expect("versions have few digits")
    }

    /// Parses the header.
    ///
    /// # Errors
    ///
    /// The file has another format.
    pub fn parse(bytes: [u8; Header::LEN]) -> Result<Header, Refusal> {
        let known = [(&b"REDIS"[..], Magic::Redis), (b"VALKEY", Magic::Valkey)];
        let (digits, magic) = known
            .into_iter()
            .find_map(|(name, magic)| Some((bytes.strip_prefix(name)?, magic)))
            .ok_or(Refusal::Signature(bytes))?;
        let version =
            std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
        let version = version.and_then(|digits| digits.parse().ok());
        Ok(Header { magic, version: version.ok_or(Refusal::Signature(bytes))? })
    }

    /// The dialect of the file's type codes.
    ///
    /// # Errors
    ///
    /// The version is unknown, or impossible.
    pub fn dialect(self, check: VersionCheck) -> Result<Dialect, Refusal> {
        let refused = Err(Refusal::Version(self.version));
        match (self.magic, Dialect::of(self.version)) {
            (Magic::Redis, Some(dialect)) if self.version < VALKEY_FROM => Ok(dialect),
            (Magic::Valkey, Some(Dialect::Valkey)) => Ok(Dialect::Valkey),
            (Magic::Redis, None) if (1..VALKEY_FROM).contains(&self.version) => match check {
                VersionCheck::Strict => refused,
                VersionCheck::Relaxed => Ok(Dialect::Redis),
            },
            (Magic::Valkey, None) if self.version >= VALKEY_FROM => match check {
                VersionCheck::Strict => refused,
                VersionCheck::Relaxed => Ok(Dialect::Valkey),
            },
            (Magic::Redis | Magic::Valkey, Some(_) | None) => refused,
        }
    }

    /// Whether the version is newer than this code, so that the file is read only as far as
    /// understood.
    #[must_use]
    pub fn is_unknown(self) -> bool {
        Dialect::of(self.version).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use VersionCheck::{Relaxed, Strict};

    fn read(text: &str, check: VersionCheck) -> Result<Dialect, Refusal> {
        let bytes = text.as_bytes().try_into().expect("nine bytes");
        Header::parse(bytes).and_then(|header| header.dialect(check))
    }

    #[test]
    fn headers_and_versions_are_checked() {
        for (text, dialect) in [
            ("REDIS0001", Dialect::Common),
            ("REDIS0011", Dialect::Common),
            ("REDIS0012", Dialect::Redis),
            ("VALKEY080", Dialect::Valkey),
        ] {
            assert_eq!((read(text, Strict), read(text, Relaxed)), (Ok(dialect), Ok(dialect)));
        }
        for (text, dialect) in [
            ("REDIS0013", Dialect::Redis),
            ("REDIS0079", Dialect::Redis),
            ("VALKEY081", Dialect::Valkey),
            ("VALKEY999", Dialect::Valkey),
        ] {
            assert!(matches!(read(text, Strict), Err(Refusal::Version(_))), "{text}");
            assert_eq!(read(text, Relaxed), Ok(dialect));
        }
        for text in ["REDIS0000", "REDIS0080", "REDIS9999", "VALKEY011", "VALKEY012", "VALKEY079"] {
            assert!(matches!(read(text, Relaxed), Err(Refusal::Version(_))), "{text}");
        }
        for text in ["NOTARDB80", "REDIS+001", "REDIS 011", "VALKEY0 1", "redis0011", "REDISxxxx"] {
            assert!(matches!(read(text, Relaxed), Err(Refusal::Signature(_))), "{text}");
        }
    }

    #[test]
    fn printed_header_parses_to_the_same() {
        for version in [9, 11, 80] {
            let header = Header::of(version);
            assert_eq!(Header::parse(header.to_bytes()), Ok(header));
            assert!(header.dialect(Strict).is_ok());
        }
        assert_eq!(&Header::of(9).to_bytes(), b"REDIS0009");
        assert_eq!(&Header::of(80).to_bytes(), b"VALKEY080");
    }
}
