//! Replies and messages that a link receives, in RESP3.

use weft_pubsub::registry::Kind;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// `+OK`
    Done,
    /// An error, without `-`.
    Refused(&'a [u8]),
    Message { kind: Kind, channel: &'a [u8], message: &'a [u8] },
    /// A push that means nothing here.
    Other,
}

/// The bytes are no frame of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// The longest line.
const MAX_LINE: usize = 4096;
/// The most words of a push.
const MAX_WORDS: usize = 16;

/// The first frame of `bytes` and its length; `None` if it is incomplete. `longest`: the longest text of a message.
///
/// # Errors
/// See [`Broken`].
pub fn parse(bytes: &[u8], longest: usize) -> Result<Option<(Frame<'_>, usize)>, Broken> {
    let mut at = 0;
    let Some(line) = take_line(bytes, &mut at)? else { return Ok(None) };
    let frame = match line.split_first() {
        Some((b'+', _)) => Frame::Done,
        Some((b'-', text)) => Frame::Refused(text),
        Some((b'>', count)) => {
            let count = number(count).filter(|count| *count <= MAX_WORDS).ok_or(Broken)?;
            let mut words: [&[u8]; 3] = [b""; 3];
            for n in 0..count {
                let Some(word) = take_text(bytes, &mut at, longest)? else { return Ok(None) };
                if let Some(place) = words.get_mut(n) {
                    *place = word;
                }
            }
            let [name, channel, message] = words;
            match (name, count) {
                (b"message", 3) => Frame::Message { kind: Kind::Channel, channel, message },
                (b"smessage", 3) => Frame::Message { kind: Kind::Shard, channel, message },
                _ => Frame::Other,
            }
        }
        _ => return Err(Broken),
    };
    Ok(Some((frame, at)))
}

/// A line without its end.
fn take_line<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, Broken> {
    let rest = &bytes[*at..];
    let searched = &rest[..rest.len().min(MAX_LINE)];
    match searched.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            *at += end + 1;
            rest[..end].strip_suffix(b"\r").map(Some).ok_or(Broken)
        }
        None if rest.len() >= MAX_LINE => Err(Broken),
        None => Ok(None),
    }
}

/// A bulk string; of a number, its digits.
fn take_text<'a>(
    bytes: &'a [u8],
    at: &mut usize,
    longest: usize,
) -> Result<Option<&'a [u8]>, Broken> {
    let Some(line) = take_line(bytes, at)? else { return Ok(None) };
    let length = match line.split_first() {
        Some((b'$', length)) => number(length).filter(|length| *length <= longest).ok_or(Broken)?,
        Some((b':' | b'_', text)) => return Ok(Some(text)),
        _ => return Err(Broken),
    };
    let rest = &bytes[*at..];
    let Some(text) = rest.get(..length + 2) else { return Ok(None) };
    *at += length + 2;
    text.strip_suffix(b"\r\n").map(Some).ok_or(Broken)
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n\r\n\r\n";

    fn all(mut bytes: &[u8]) -> Vec<Frame<'_>> {
        let mut found = Vec::new();
        while let Some((frame, length)) = parse(bytes, 100).expect("whole frames") {
            found.push(frame);
            bytes = &bytes[length..];
        }
        assert!(bytes.is_empty());
        found
    }

    #[test]
    fn replies_and_messages() {
        let bytes = [b"+OK\r\n-ERR no\r\n", MESSAGE, b">2\r\n$1\r\nx\r\n:1\r\n"].concat();
        let message = Frame::Message { kind: Kind::Channel, channel: b"c", message: b"\r\n" };
        assert_eq!(all(&bytes), [Frame::Done, Frame::Refused(b"ERR no"), message, Frame::Other]);
        let shard = b">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$0\r\n\r\n";
        let message = Frame::Message { kind: Kind::Shard, channel: b"c", message: b"" };
        assert_eq!(all(shard), [message]);
    }

    #[test]
    fn prefix_is_incomplete() {
        for end in 0..MESSAGE.len() {
            assert_eq!(parse(&MESSAGE[..end], 100), Ok(None));
        }
    }

    #[test]
    fn other_bytes_are_broken() {
        let long = [b'+'; MAX_LINE];
        let all: [&[u8]; 7] = [
            b"*1\r\n",
            b">1\r\n+x\r\n",
            b">1\r\n$101\r\n",
            b">17\r\n",
            b">-1\r\n",
            b">1\r\n$1\r\nxyz",
            &long,
        ];
        for bytes in all {
            assert_eq!(parse(bytes, 100), Err(Broken), "{}", bytes.escape_ascii());
        }
    }
}
