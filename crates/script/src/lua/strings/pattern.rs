//! Lua 5.1's patterns, with a limit on nesting and a check for the end of the script.
//!
//! Lua's own matcher calls itself for each quantifier, without a limit: a pattern of 300,000 of them overflows a thread's
//! stack. And nothing interrupts it: `('a?'):rep(30) .. ('a'):rep(30)` takes 2^30 steps on a string of 30.

use crate::lua::convert::until_zero;
use smallvec::SmallVec;

/// Captures of a pattern.
const MOST_CAPTURES: usize = 32;

/// Quantifiers and captures that are open at once.
const MOST_DEPTH: u32 = 1000;

/// Steps between two calls of [`Matcher::tick`].
const STEPS: u32 = 4096;

/// Why a match has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The error's text.
    Error(&'static str),
    /// The script must end.
    Stopped,
}

use Failure::Error;

/// A part of the subject that a pattern captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// From a position on, without an end yet.
    Open(usize),
    /// A position.
    Position(usize),
    /// From a position to another.
    Part(usize, usize),
}

/// A successful match.
#[derive(Debug)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    captures: SmallVec<[Capture; 4]>,
}

impl Match {
    /// The captures; without any, `whole` for the whole match.
    pub(super) fn captures(&self, whole: bool) -> impl Iterator<Item = Result<Capture, Failure>> {
        let n = if self.captures.is_empty() { usize::from(whole) } else { self.captures.len() };
        (0..n).map(|n| self.capture(n))
    }

    /// Capture `n`, from 0. Without captures, 0 is the whole match.
    pub(super) fn capture(&self, n: usize) -> Result<Capture, Failure> {
        match self.captures.get(n) {
            Some(Capture::Open(_)) => Err(Error("unfinished capture")),
            Some(capture) => Ok(*capture),
            None if n == 0 => Ok(Capture::Part(self.start, self.end)),
            None => Err(Error("invalid capture index")),
        }
    }
}

/// Matches a pattern at positions of a subject.
pub(super) struct Matcher<'a> {
    pub(super) subject: &'a [u8],
    /// Ends at the first zero byte, as in C.
    pattern: &'a [u8],
    captures: SmallVec<[Capture; MOST_CAPTURES]>,
    depth: u32,
    steps: u32,
    /// Called now and then. Returns false if the script must end.
    tick: &'a mut dyn FnMut() -> bool,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(
        subject: &'a [u8],
        pattern: &'a [u8],
        tick: &'a mut dyn FnMut() -> bool,
    ) -> Self {
        Matcher {
            subject,
            pattern: until_zero(pattern),
            captures: SmallVec::new(),
            depth: 0,
            steps: STEPS,
            tick,
        }
    }

    /// Removes `^` from the beginning of the pattern. Returns whether it was there.
    pub(super) fn strip_anchor(&mut self) -> bool {
        let rest = self.pattern.strip_prefix(b"^");
        self.pattern = rest.unwrap_or(self.pattern);
        rest.is_some()
    }

    /// Matches at `start`.
    pub(super) fn match_at(&mut self, start: usize) -> Result<Option<Match>, Failure> {
        self.captures.clear();
        self.depth = 0;
        let end = self.run(start, 0)?;
        Ok(end.map(|end| {
            let captures = SmallVec::from_slice(&self.captures);
            Match { start, end, captures }
        }))
    }

    /// Matches at the first position from `start` on.
    pub(super) fn find(&mut self, mut start: usize) -> Result<Option<Match>, Failure> {
        let first = self.first_byte();
        while start <= self.subject.len() {
            if let Some(first) = first {
                let Some(skipped) = memchr::memchr(first, &self.subject[start..]) else { break };
                start += skipped;
            }
            let found = self.match_at(start)?;
            if found.is_some() {
                return Ok(found);
            }
            start += 1;
        }
        Ok(None)
    }

    /// The byte with which each match begins, if the pattern names it.
    fn first_byte(&self) -> Option<u8> {
        let first = self.byte(0);
        let is_plain = !b"\0^$*+?.([%-)".contains(&first);
        (is_plain && !b"*?-".contains(&self.byte(1))).then_some(first)
    }

    /// Counts work on so many bytes as steps.
    pub(super) fn count(&mut self, bytes: usize) -> Result<(), Failure> {
        (0..bytes / 64).try_for_each(|_| self.step())
    }

    fn step(&mut self) -> Result<(), Failure> {
        self.steps -= 1;
        if self.steps == 0 {
            self.steps = STEPS;
            if !(self.tick)() {
                return Err(Failure::Stopped);
            }
        }
        Ok(())
    }

    /// The pattern's byte at `at`; 0 after its end.
    fn byte(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// [`Matcher::run_here`], one level deeper.
    fn run(&mut self, s: usize, p: usize) -> Result<Option<usize>, Failure> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(Error("pattern too complex"));
        }
        let end = self.run_here(s, p);
        self.depth -= 1;
        end
    }

    /// Matches the pattern from `p` on at `s`, and returns the end of the match.
    fn run_here(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>, Failure> {
        loop {
            self.step()?;
            match (self.byte(p), self.byte(p + 1)) {
                (0, _) => return Ok(Some(s)),
                (b'(', b')') => return self.open_capture(s, p + 2, Capture::Position(s)),
                (b'(', _) => return self.open_capture(s, p + 1, Capture::Open(s)),
                (b')', _) => return self.close_capture(s, p + 1),
                (b'$', 0) => return Ok((s == self.subject.len()).then_some(s)),
                (b'%', b'b') => match self.balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', b'f') => match self.frontier(s, p + 2)? {
                    Some(next) => p = next,
                    None => return Ok(None),
                },
                (b'%', digit @ b'0'..=b'9') => match self.back_reference(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let next = self.item_end(p)?;
                    let matches = self.matches_item(s, p, next);
                    match self.byte(next) {
                        b'?' => {
                            if matches && let Some(end) = self.run(s + 1, next + 1)? {
                                return Ok(Some(end));
                            }
                            p = next + 1;
                        }
                        b'*' => return self.expand(s, s, p, next),
                        b'+' if matches => return self.expand(s + 1, s + 1, p, next),
                        b'-' => return self.expand_least(s, p, next),
                        _ if matches => (s, p) = (s + 1, next),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// The position after the item at `p`.
    fn item_end(&self, p: usize) -> Result<usize, Failure> {
        match self.byte(p) {
            b'%' if self.byte(p + 1) == 0 => Err(Error("malformed pattern (ends with '%')")),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1 + usize::from(self.byte(p + 1) == b'^');
                loop {
                    let byte = self.byte(at);
                    if byte == 0 {
                        return Err(Error("malformed pattern (missing ']')"));
                    }
                    at += 1;
                    at += usize::from(byte == b'%' && self.byte(at) != 0);
                    if self.byte(at) == b']' {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the byte at `s` exists and matches the item from `p` to `next`.
    fn matches_item(&self, s: usize, p: usize, next: usize) -> bool {
        let Some(byte) = self.subject.get(s).copied() else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => matches_class(byte, self.pattern[p + 1]),
            b'[' => matches_set(byte, &self.pattern[p + 1..next - 1]),
            same => same == byte,
        }
    }

    /// As many repetitions of the item at `p` as possible; fewer, if the rest doesn't match then.
    fn expand(
        &mut self,
        least: usize,
        s: usize,
        p: usize,
        next: usize,
    ) -> Result<Option<usize>, Failure> {
        let mut end = s;
        while self.matches_item(end, p, next) {
            self.step()?;
            end += 1;
        }
        for s in (least..=end).rev() {
            if let Some(end) = self.run(s, next + 1)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// As few repetitions as possible.
    fn expand_least(
        &mut self,
        mut s: usize,
        p: usize,
        next: usize,
    ) -> Result<Option<usize>, Failure> {
        loop {
            if let Some(end) = self.run(s, next + 1)? {
                return Ok(Some(end));
            }
            if !self.matches_item(s, p, next) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open_capture(
        &mut self,
        s: usize,
        p: usize,
        capture: Capture,
    ) -> Result<Option<usize>, Failure> {
        if self.captures.len() >= MOST_CAPTURES {
            return Err(Error("too many captures"));
        }
        self.captures.push(capture);
        let end = self.run(s, p)?;
        if end.is_none() {
            self.captures.pop();
        }
        Ok(end)
    }

    fn close_capture(&mut self, s: usize, p: usize) -> Result<Option<usize>, Failure> {
        let open = |capture: &Capture| matches!(capture, Capture::Open(_));
        let Some(n) = self.captures.iter().rposition(open) else {
            return Err(Error("invalid pattern capture"));
        };
        let before = self.captures[n];
        if let Capture::Open(start) = before {
            self.captures[n] = Capture::Part(start, s);
        }
        let end = self.run(s, p)?;
        if end.is_none() {
            self.captures[n] = before;
        }
        Ok(end)
    }

    /// `%bxy` at `s`, with x and y at `p`.
    fn balance(&mut self, s: usize, p: usize) -> Result<Option<usize>, Failure> {
        let (open, close) = (self.byte(p), self.byte(p + 1));
        if open == 0 || close == 0 {
            return Err(Error("unbalanced pattern"));
        }
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for at in s + 1..self.subject.len() {
            self.step()?;
            let byte = self.subject[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]` at `s`, with the set at `p`. Returns the position after the set.
    fn frontier(&mut self, s: usize, p: usize) -> Result<Option<usize>, Failure> {
        if self.byte(p) != b'[' {
            return Err(Error("missing '[' after '%f' in pattern"));
        }
        let next = self.item_end(p)?;
        let set = &self.pattern[p + 1..next - 1];
        let before = s.checked_sub(1).map_or(0, |at| self.subject[at]);
        let after = self.subject.get(s).copied().unwrap_or(0);
        Ok((!matches_set(before, set) && matches_set(after, set)).then_some(next))
    }

    /// `%1` to `%9`: the text of a capture again.
    fn back_reference(&mut self, s: usize, digit: u8) -> Result<Option<usize>, Failure> {
        let n = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let (from, to) = match self.captures.get(n) {
            Some(Capture::Part(from, to)) => (*from, *to),
            Some(Capture::Position(_)) => return Ok(None),
            Some(Capture::Open(_)) | None => return Err(Error("invalid capture index")),
        };
        self.count(to - from)?;
        let text = &self.subject[from..to];
        Ok(self.subject[s..].starts_with(text).then_some(s + text.len()))
    }
}

/// Whether `byte` is in a class such as `%a`, in the locale "C".
fn matches_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in == class.is_ascii_lowercase()
}

/// Whether `byte` is in the set between two brackets.
fn matches_set(byte: u8, set: &[u8]) -> bool {
    let (set, is_inverse) = match set {
        [b'^', set @ ..] => (set, true),
        set => (set, false),
    };
    let mut at = 0;
    while at < set.len() {
        match (set[at], set.get(at + 1), set.get(at + 2)) {
            (b'%', Some(class), _) => {
                if matches_class(byte, *class) {
                    return !is_inverse;
                }
                at += 2;
            }
            (low, Some(b'-'), Some(high)) => {
                if (low..=*high).contains(&byte) {
                    return !is_inverse;
                }
                at += 3;
            }
            (same, ..) => {
                if same == byte {
                    return !is_inverse;
                }
                at += 1;
            }
        }
    }
    is_inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(subject: &str, pattern: &str) -> Result<Option<(usize, usize)>, Failure> {
        let found = Matcher::new(subject.as_bytes(), pattern.as_bytes(), &mut || true).find(0)?;
        Ok(found.map(|found| (found.start, found.end)))
    }

    #[test]
    fn items() {
        for (subject, pattern, want) in [
            ("abc", "b", Some((1, 2))),
            ("abc", "x", None),
            ("aaa", "a-b", None),
            ("aaab", "a-b", Some((0, 4))),
            ("aaab", "a*", Some((0, 3))),
            ("b", "a*", Some((0, 0))),
            ("b", "a+", None),
            ("ab", "a?b$", Some((0, 2))),
            ("f(a(b)c)d", "%b()", Some((1, 8))),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", Some((0, 3))),
            ("abcabc", "(abc)%1", Some((0, 6))),
            ("a]b", "[]]", Some((1, 2))),
            ("a-b", "[a-]-b", Some((0, 3))),
            ("x5", "[^%a]", Some((1, 2))),
            ("a.b", "%.", Some((1, 2))),
            // The search begins at the first byte of the pattern.
            ("xxaxab", "ab", Some((4, 6))),
            ("xxaab", "a+b", Some((2, 5))),
            ("xxb", "a?b", Some((2, 3))),
            ("xx", "y", None),
            ("x]", "]", Some((1, 2))),
            ("", "a", None),
        ] {
            assert_eq!(find(subject, pattern), Ok(want), "{pattern}");
        }
    }

    #[test]
    fn malformed_patterns() {
        for (pattern, error) in [
            ("%", "malformed pattern (ends with '%')"),
            ("[a", "malformed pattern (missing ']')"),
            ("[]", "malformed pattern (missing ']')"),
            ("%b", "unbalanced pattern"),
            ("%fa", "missing '[' after '%f' in pattern"),
            ("%1", "invalid capture index"),
            (")", "invalid pattern capture"),
        ] {
            assert_eq!(find("a", pattern), Err(Error(error)), "{pattern}");
        }
        assert_eq!(find("a", &"(".repeat(33)), Err(Error("too many captures")));
        assert_eq!(find(&"a".repeat(9000), &"a?".repeat(5000)), Err(Error("pattern too complex")));
    }

    #[test]
    fn endless_matches_are_stopped() {
        let pattern = ["a?".repeat(40), "a".repeat(40)].concat();
        let subject = "a".repeat(39);
        let mut left = 10;
        let mut tick = || {
            left -= 1;
            left > 0
        };
        let mut matcher = Matcher::new(subject.as_bytes(), pattern.as_bytes(), &mut tick);
        assert!(matches!(matcher.find(0), Err(Failure::Stopped)));
    }
}
