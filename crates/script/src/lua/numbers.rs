//! Numbers among the arguments of a command that a script calls.

use super::convert;
use super::frame::{Frame, Kind};
use smallvec::SmallVec;

/// The numbers among the arguments of a command, as text: Lua doesn't make strings of them.
#[derive(Default)]
pub(super) struct Numbers {
    texts: SmallVec<[u8; 64]>,
    /// The position of each, and the end of its text.
    ends: SmallVec<[(i32, usize); 8]>,
}

impl Numbers {
    /// `None`: an argument is neither a string nor a number.
    pub fn of(frame: &Frame<'_>) -> Option<Numbers> {
        let mut numbers = Numbers::default();
        for at in 1..=frame.len() as i32 {
            match frame.kind(at) {
                Kind::String => {}
                Kind::Number => numbers.add(at, frame.number(at).unwrap_or_default()),
                _ => return None,
            }
        }
        Some(numbers)
    }

    fn add(&mut self, at: i32, number: f64) {
        let whole = number as i64;
        if whole as f64 == number && whole.unsigned_abs() < 1 << 53 {
            self.texts.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
        } else {
            self.texts.extend_from_slice(&number_text(number));
        }
        self.ends.push((at, self.texts.len()));
    }

    /// The arguments.
    pub fn words<'a>(&'a self, frame: &'a Frame<'_>) -> SmallVec<[&'a [u8]; 16]> {
        let (mut ends, mut from) = (self.ends.iter(), 0);
        let mut next = ends.next();
        let word = |at| match next {
            Some((number, end)) if *number == at => {
                let text = &self.texts[from..*end];
                (next, from) = (ends.next(), *end);
                text
            }
            _ => frame.bytes(at).unwrap_or_default(),
        };
        (1..=frame.len() as i32).map(word).collect()
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
