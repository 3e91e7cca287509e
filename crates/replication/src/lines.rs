//! Collects lines of text that arrive in pieces.

/// Maximum length of a line in bytes.
const MOST: usize = 64 << 10;

/// Collects one line.
#[derive(Debug, Default)]
pub struct Lines {
    begun: Vec<u8>,
}

/// The result of [`Lines::take`].
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, without its line end.
    Complete(Vec<u8>),
    More,
    /// No line end within 64 KiB.
    TooLong,
}

impl Lines {
    /// Drops the incomplete line.
    pub fn clear(&mut self) {
        self.begun.clear();
    }

    /// Takes bytes up to the end of a line. Returns how many, and the line. O(bytes).
    pub fn take(&mut self, bytes: &[u8]) -> (usize, Line) {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        self.begun.extend(&bytes[..used]);
        if self.begun.len() > MOST {
            return (used, Line::TooLong);
        }
        if end.is_none() {
            return (used, Line::More);
        }
        let mut line = std::mem::take(&mut self.begun);
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        (used, Line::Complete(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_for_any_split_of_the_bytes() {
        let text = b"+PONG\r\n\n+FULLRESYNC x 1\r\n$5";
        for piece in 1..text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for mut bytes in text.chunks(piece) {
                while !bytes.is_empty() {
                    let (used, line) = lines.take(bytes);
                    bytes = &bytes[used..];
                    if let Line::Complete(line) = line {
                        seen.push(String::from_utf8(line).expect("text"));
                    }
                }
            }
            assert_eq!(seen, ["+PONG", "", "+FULLRESYNC x 1"]);
            assert_eq!(lines.begun, b"$5");
        }
        let (used, line) = Lines::default().take(&[b'x'; MOST + 1]);
        assert_eq!((used, line), (MOST + 1, Line::TooLong));
    }
}
