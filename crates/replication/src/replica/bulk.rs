//! The copy of the data on the wire: its head and its end.
//!
//! ```text
//! $1234\r\n            <1234 bytes>                                     from a file
//! $EOF:<40 bytes>\r\n  <any number of bytes> <the same 40 bytes>    while it is produced
//! ```
//!
//! After a mark the primary sends nothing until the replica has acknowledged the copy. So comparing
//! the last bytes received is enough, and no search is needed.

use weft_base::num::parse_i64;

/// Length of a mark in bytes.
const MARK: usize = 40;

/// The line before a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// A sign of life of the primary.
    Wait,
    Length(u64),
    Mark([u8; MARK]),
    /// The primary's error.
    Refused(String),
    /// An unexpected line.
    Unknown(String),
}

impl Head {
    #[must_use]
    pub fn parse(line: &[u8]) -> Head {
        let text = || String::from_utf8_lossy(line).into_owned();
        match line {
            [] => Head::Wait,
            [b'-', why @ ..] => Head::Refused(String::from_utf8_lossy(why).into_owned()),
            [b'$', b'E', b'O', b'F', b':', mark @ ..] => {
                mark.try_into().map_or_else(|_| Head::Unknown(text()), Head::Mark)
            }
            [b'$', length @ ..] => match parse_i64(length).and_then(|n| u64::try_from(n).ok()) {
                Some(length) => Head::Length(length),
                None => Head::Unknown(text()),
            },
            _ => Head::Unknown(text()),
        }
    }
}

/// The bytes after the head.
#[derive(Clone, Debug)]
pub enum Body {
    Length {
        left: u64,
    },
    /// The last bytes, which may be the mark, are held back.
    Mark {
        mark: [u8; MARK],
        tail: Vec<u8>,
    },
}

impl Body {
    /// Takes bytes. Returns how many, the bytes of the copy, and whether it is complete. O(bytes).
    pub fn take(&mut self, bytes: &[u8]) -> (usize, Vec<u8>, bool) {
        match self {
            Body::Length { left } => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= used as u64;
                (used, bytes[..used].to_vec(), *left == 0)
            }
            Body::Mark { mark, tail } => {
                tail.extend(bytes);
                let complete = tail.ends_with(mark);
                let held = tail.split_off(tail.len().saturating_sub(MARK));
                (bytes.len(), std::mem::replace(tail, held), complete)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_parsed() {
        let mark = [b'm'; 40];
        assert_eq!(Head::parse(b""), Head::Wait);
        assert_eq!(Head::parse(b"$0"), Head::Length(0));
        assert_eq!(Head::parse(b"$17"), Head::Length(17));
        assert_eq!(Head::parse(&[b"$EOF:", &mark[..]].concat()), Head::Mark(mark));
        assert_eq!(Head::parse(b"-ERR no"), Head::Refused("ERR no".to_string()));
        for wrong in ["$", "$-1", "$EOF:abc", "$x", "+OK", "x"] {
            assert_eq!(Head::parse(wrong.as_bytes()), Head::Unknown(wrong.to_string()));
        }
    }

    #[test]
    fn ends_of_bodies_are_found() {
        let mark = [b'm'; 40];
        let copy: Vec<u8> = (0..500u32).map(|n| if n % 90 < 39 { b'm' } else { n as u8 }).collect();
        for piece in 1..200 {
            for marked in [false, true] {
                let (mut body, wire) = match marked {
                    true => (Body::Mark { mark, tail: vec![] }, [&copy[..], &mark].concat()),
                    false => (Body::Length { left: 500 }, [&copy[..], b"next"].concat()),
                };
                let (mut got, mut used) = (Vec::new(), 0);
                for bytes in wire.chunks(piece) {
                    let (n, part, complete) = body.take(bytes);
                    got.extend(part);
                    used += n;
                    if complete {
                        break;
                    }
                    assert!(used < wire.len(), "the end was seen");
                }
                assert_eq!((&got, used), (&copy, wire.len() - if marked { 0 } else { 4 }));
            }
        }
    }
}
