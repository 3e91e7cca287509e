//! The content of replies, for `--verify`.
//!
//! A reply of the right type can still be wrong: another key's value, a truncated value, or the
//! reply to an earlier request. With `--verify`, written values name their key: they begin with the
//! twelve digits of the key's number, and the same filler follows up to their size. Replies are
//! compared while they arrive.
//!
//! | test | checked |
//! |---|---|
//! | PING, SET, MSET | the text is PONG, OK |
//! | GET, MGET | each value is null, or that of its key, with a written size |
//! | LPOP, RPOP, LRANGE | each element is filler with a written size |
//! | all others | the type only |

use std::collections::VecDeque;

use crate::skipper::{Leaves, Types};
use crate::template::{DIGITS, write_digits};

/// The right values of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Anything.
    Nothing,
    /// This text.
    Text(&'static [u8]),
    /// Nulls, or values that belong to the requested keys.
    OfKeys,
    /// Nulls, or filler.
    Filler,
}

/// The form of the written values.
#[derive(Clone, Debug)]
pub struct Content {
    /// As long as the largest value.
    pub filler: Vec<u8>,
    /// Smallest and largest written size.
    pub sizes: (u64, u64),
    /// Whether values begin with their key's digits. All values are equal if they are too short for
    /// that, or if there is only one key.
    pub keyed: bool,
}

/// The position of a connection in the value that it is reading.
#[derive(Debug, Default)]
pub struct Progress {
    at: usize,
    key: [u8; DIGITS],
    null: bool,
    /// A part of the current reply is wrong.
    wrong: bool,
    /// Keys that the current reply has answered so far.
    taken: usize,
}

impl Progress {
    /// Whether the reply that ended was wrong; then prepares for the next one. It answers `asked`
    /// keys, also if it is an error.
    pub fn finish(&mut self, asked: usize, keys: &mut VecDeque<u64>) -> bool {
        let taken = std::mem::take(&mut self.taken);
        keys.drain(..asked.saturating_sub(taken).min(keys.len()));
        std::mem::take(&mut self.wrong) || taken != asked
    }
}

/// Compares the values of one reply with the expected ones.
#[derive(Debug)]
pub struct Verifier<'a> {
    pub check: Check,
    pub content: &'a Content,
    pub progress: &'a mut Progress,
    /// The numbers of the requested and unanswered keys, in their order.
    pub keys: &'a mut VecDeque<u64>,
}

impl Leaves for Verifier<'_> {
    fn begin(&mut self, of: Types, len: Option<u64>) {
        self.progress.at = 0;
        self.progress.null = of == Types::NULL;
        match self.check {
            Check::Nothing | Check::Text(_) => return,
            Check::OfKeys => match self.keys.pop_front() {
                Some(key) => {
                    self.progress.taken += 1;
                    write_digits(&mut self.progress.key, key);
                }
                None => self.progress.wrong = true,
            },
            Check::Filler => {}
        }
        let (low, high) = self.content.sizes;
        let fits = len.is_some_and(|len| (low..=high).contains(&len));
        self.progress.wrong |= !self.progress.null && !fits;
    }

    fn text(&mut self, piece: &[u8]) {
        let progress = &mut *self.progress;
        let (at, end) = (progress.at, progress.at + piece.len());
        progress.at = end;
        let same = match self.check {
            Check::Nothing => true,
            Check::Text(text) => text.get(at..end).is_some_and(|text| text == piece),
            _ if progress.null => true,
            Check::OfKeys if self.content.keyed => {
                let head = piece.len().min(DIGITS.saturating_sub(at));
                let rest = at + head..end;
                progress.key.get(at..at + head).is_none_or(|digits| digits == &piece[..head])
                    && self.content.filler.get(rest).is_some_and(|text| text == &piece[head..])
            }
            Check::OfKeys | Check::Filler => {
                self.content.filler.get(at..end).is_some_and(|text| text == piece)
            }
        };
        progress.wrong |= !same;
    }

    fn end(&mut self) {
        if let Check::Text(text) = self.check {
            self.progress.wrong |= self.progress.at != text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipper::Skipper;

    fn content(keyed: bool) -> Content {
        Content { filler: vec![b'x'; 20], sizes: (14, 20), keyed }
    }

    /// Whether the reply is right, both as a whole and in single bytes.
    fn is_right(check: Check, content: &Content, asked: &[u64], reply: &str) -> bool {
        let mut results = [1, reply.len()].map(|piece| {
            let mut keys: VecDeque<u64> = asked.iter().copied().collect();
            let (mut progress, mut skipper) = (Progress::default(), Skipper::default());
            for mut piece in reply.as_bytes().chunks(piece) {
                let mut verifier =
                    Verifier { check, content, progress: &mut progress, keys: &mut keys };
                while skipper.next(&mut piece, &mut verifier).unwrap().is_some() {}
            }
            !progress.finish(asked.len(), &mut keys) && keys.is_empty()
        });
        results.sort();
        assert_eq!(results[0], results[1], "{reply:?}");
        results[0]
    }

    #[test]
    fn values_belong_to_their_keys() {
        let of = |reply: &str| is_right(Check::OfKeys, &content(true), &[7], reply);
        assert!(of("$14\r\n000000000007xx\r\n"));
        assert!(of("$20\r\n000000000007xxxxxxxx\r\n"));
        assert!(of("$-1\r\n") && of("_\r\n"));
        assert!(!of("$14\r\n000000000008xx\r\n"), "another key's");
        assert!(!of("$14\r\n000000000007xy\r\n"), "other content");
        assert!(!of("$13\r\n000000000007x\r\n"), "cut short");
    }

    #[test]
    fn elements_answer_keys_in_their_order() {
        let of = |reply: &str| is_right(Check::OfKeys, &content(true), &[1, 2, 3], reply);
        assert!(of("*3\r\n$14\r\n000000000001xx\r\n$-1\r\n$14\r\n000000000003xx\r\n"));
        assert!(!of("*3\r\n$14\r\n000000000001xx\r\n$14\r\n000000000003xx\r\n$-1\r\n"));
        assert!(!of("*4\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n"), "more than was asked for");
    }

    #[test]
    fn an_error_answers_all_keys() {
        let mut keys: VecDeque<u64> = [1, 2, 3].into();
        let mut progress = Progress { taken: 1, ..Progress::default() };
        assert!(progress.finish(3, &mut keys));
        assert_eq!(keys, [3]);
    }

    #[test]
    fn texts_and_filler() {
        let pong = |reply: &str| is_right(Check::Text(b"PONG\r\n"), &content(false), &[], reply);
        assert!(pong("+PONG\r\n"));
        assert!(!pong("+PON\r\n") && !pong("+PONGS\r\n") && !pong("+PANG\r\n"));
        let filler = |reply: &str| is_right(Check::Filler, &content(false), &[], reply);
        assert!(filler("*2\r\n$14\r\nxxxxxxxxxxxxxx\r\n$15\r\nxxxxxxxxxxxxxxx\r\n"));
        assert!(!filler("*1\r\n$14\r\nxxxxxxxxxxxxxy\r\n"));
        assert!(!filler("*1\r\n$21\r\nxxxxxxxxxxxxxxxxxxxxx\r\n"), "longer than any");
        assert!(is_right(Check::OfKeys, &content(false), &[3], "$14\r\nxxxxxxxxxxxxxx\r\n"));
    }
}
