//! Numbers among the arguments of a command that a script calls.

use super::convert;
use super::frame::{Frame, Word};
use smallvec::SmallVec;

/// The arguments of a command.
pub(super) type Words<'a> = SmallVec<[&'a [u8]; 16]>;

/// The numbers among the arguments of a command, as text: Lua doesn't make strings of them.
#[derive(Default)]
pub(super) struct Numbers {
    texts: SmallVec<[u8; 64]>,
    /// The position of each, and the end of its text.
    ends: SmallVec<[(usize, usize); 8]>,
}

impl Numbers {
    /// Appends the values of `frame` to `words`. Returns false if one is neither a string nor a number.
    #[inline]
    pub fn read<'a>(&'a mut self, frame: &'a Frame<'_>, words: &mut Words<'a>) -> bool {
        let is_complete = frame.each_word(|word| match word {
            Word::Text(text) => words.push(text),
            Word::Number(number) => {
                self.add(words.len(), number);
                words.push(b"");
            }
        });
        let mut from = 0;
        for (at, end) in &self.ends {
            words[*at] = &self.texts[from..*end];
            from = *end;
        }
        is_complete
    }

    fn add(&mut self, at: usize, number: f64) {
        let whole = number as i64;
        if whole as f64 == number && whole.unsigned_abs() < 1 << 53 {
            self.texts.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
        } else {
            self.texts.extend_from_slice(&number_text(number));
        }
        self.ends.push((at, self.texts.len()));
    }
}

/// A number as an argument of a command: an integer, or the shortest digits that are the same number.
fn number_text(number: f64) -> Vec<u8> {
    if number.is_nan() {
        // C writes the sign of the bits.
        return if number.is_sign_negative() { b"-nan".to_vec() } else { b"nan".to_vec() };
    }
    if number == 0.0 {
        return b"0".to_vec();
    }
    convert::number_text(number)
}
