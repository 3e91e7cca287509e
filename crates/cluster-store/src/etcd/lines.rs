//! Divides a stream of bytes into lines.

/// A longer message than etcd sends: one of its transactions has at most 128 changes of 1.5 MB in all, and a member
/// sends up to 1,000 revisions at once to a watch that lags.
const MAX_LINE: usize = 1 << 31;

/// Bytes that have arrived, and where a line ends.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Without a newline before it.
    searched: usize,
}

impl Lines {
    /// Adds bytes.
    ///
    /// # Errors
    /// A line is too long to be a message.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.bytes.len() + bytes.len() > MAX_LINE {
            return Err(format!("a line of more than {MAX_LINE} bytes"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole line with something in it, without its end.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        loop {
            let Some(end) = self.bytes[self.searched..].iter().position(|b| *b == b'\n') else {
                self.searched = self.bytes.len();
                return None;
            };
            let rest = self.bytes.split_off(self.searched + end + 1);
            let mut line = std::mem::replace(&mut self.bytes, rest);
            self.searched = 0;
            line.pop();
            if !line.is_empty() {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_in_pieces() {
        let mut lines = Lines::default();
        for byte in b"a\n\nbc\nd" {
            lines.add(&[*byte]).unwrap();
        }
        let all: Vec<Vec<u8>> = std::iter::from_fn(|| lines.take()).collect();
        assert_eq!(all, [b"a".to_vec(), b"bc".to_vec()]);
        lines.add(b"e\n").unwrap();
        assert_eq!(lines.take(), Some(b"de".to_vec()));
        assert_eq!(lines.take(), None);
    }
}
