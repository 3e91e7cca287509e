//! The pattern language of `KEYS`, `SCAN MATCH`, `PSUBSCRIBE`, ACL key patterns and
//! `CONFIG GET`.
//!
//! | pattern | matches |
//! |---|---|
//! | `*` | any bytes, also none |
//! | `?` | any one byte |
//! | `[abc]`, `[a-z]`, `[^a]` | one byte of the class, or not of it |
//! | `\x` | the byte `x` itself |
//!
//! The language has accidental corner cases that clients see, and they are kept:
//!
//! * An empty text is matched only by the empty pattern, not even by `*`. (`KEYS *` has its own
//!   shortcut.)
//! * An unclosed class ends with the pattern. `[` alone matches nothing, `[^` any byte.
//! * `[z-a]` is `[a-z]`. Inside a class a backslash quotes the next byte, which is then compared
//!   exactly even when case is ignored. As the last byte of the pattern it is an ordinary
//!   backslash, also outside a class.
//! * `]` ends a class at any position, so `[]` matches nothing; but `[a-]` is an unclosed class
//!   with the range `]` to `a`.
//! * The ends of a range are compared as signed bytes, so `[a-\xff]` is the range from
//!   -1 to `a`.
//! * With more than [`MAX_STARS`] groups of stars nothing matches.
//!
//! **Cost.** Only `*` matches a variable number of bytes. Once a later star is reached, earlier
//! ones need not be retried: extending an earlier star can only make the later one start further
//! right, which that one can do itself. So one saved position suffices instead of recursion, and
//! matching takes at most `pattern length * text length` steps even for a hostile pattern. The
//! stack does not grow either.

/// Groups of adjacent stars that a pattern may have before its last one.
pub const MAX_STARS: usize = 1_000;

/// A pattern for matching many texts, case-sensitively. Most texts differ from most patterns in the
/// leading plain bytes, and most patterns are such bytes and a star.
#[derive(Clone, Copy, Debug)]
pub struct Pattern<'a> {
    whole: &'a [u8],
    /// The leading plain bytes.
    prefix: &'a [u8],
    /// Whether only stars follow them, at least one.
    is_prefix: bool,
}

impl<'a> Pattern<'a> {
    pub fn new(whole: &'a [u8]) -> Self {
        let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        let plain = whole.iter().position(is_special).unwrap_or(whole.len());
        let (prefix, rest) = whole.split_at(plain);
        Pattern { whole, prefix, is_prefix: !prefix.is_empty() && rest == b"*" }
    }

    /// The pattern as given.
    pub fn text(&self) -> &'a [u8] {
        self.whole
    }

    /// Like `matches`.
    #[inline]
    pub fn matches(&self, text: &[u8]) -> bool {
        text.starts_with(self.prefix) && (self.is_prefix || matches(self.whole, text, false))
    }
}

/// Whether `text` as a whole matches `pattern`; `nocase` ignores the case of ASCII
/// letters. At most `pattern.len() * text.len()` steps.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // Where to continue after a mismatch: after the last star, one byte later in the text.
    let mut retry: Option<(usize, usize)> = None;
    let mut stars = 0;
    loop {
        if t == text.len() {
            // Only stars may be left. Otherwise a retry would leave even less text for the same
            // rest of the pattern, so it cannot succeed.
            return pattern[p..].iter().all(|&b| b == b'*');
        }
        if pattern.get(p) == Some(&b'*') {
            p += pattern[p..].iter().take_while(|&&b| b == b'*').count();
            if p == pattern.len() {
                return true;
            }
            stars += 1;
            if stars > MAX_STARS {
                return false;
            }
            retry = Some((p, t));
            continue;
        }
        let step = match pattern.get(p..) {
            Some(rest) if !rest.is_empty() => match_one(rest, text[t], nocase),
            Some(_) | None => Step::MISMATCH,
        };
        if step.matched {
            p += step.length;
            t += 1;
            continue;
        }
        let Some((after_star, from)) = retry else {
            return false;
        };
        retry = Some((after_star, from + 1));
        (p, t) = (after_star, from + 1);
    }
}

/// Whether a pattern has no special bytes, so that it matches only itself.
pub fn is_literal(pattern: &[u8]) -> bool {
    !pattern.iter().any(|b| matches!(b, b'*' | b'?' | b'[' | b'\\'))
}

/// The outcome of one pattern item against one byte.
struct Step {
    matched: bool,
    /// The number of pattern bytes of the item; only meaningful after a match.
    length: usize,
}

impl Step {
    const MISMATCH: Step = Step { matched: false, length: 0 };
}

/// Matches the item at the beginning of `pattern`, which must not be empty or a star.
fn match_one(pattern: &[u8], byte: u8, nocase: bool) -> Step {
    match (pattern[0], pattern.get(1)) {
        (b'?', _) => Step { matched: true, length: 1 },
        (b'[', _) => match_class(pattern, byte, nocase),
        (b'\\', Some(&quoted)) => Step { matched: same(quoted, byte, nocase), length: 2 },
        (plain, _) => Step { matched: same(plain, byte, nocase), length: 1 },
    }
}

/// Matches a class, `pattern[0]` being its opening bracket.
fn match_class(pattern: &[u8], byte: u8, nocase: bool) -> Step {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    while at < pattern.len() {
        match pattern[at..] {
            [b'\\', quoted, ..] => {
                found |= quoted == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                found |= in_range(low, high, byte, nocase);
                at += 3;
            }
            [plain, ..] => {
                found |= same(plain, byte, nocase);
                at += 1;
            }
            [] => break,
        }
    }
    Step { matched: found != negated, length: at }
}

fn same(a: u8, b: u8, nocase: bool) -> bool {
    a == b || (nocase && a.eq_ignore_ascii_case(&b))
}

/// The ends are ordered first and converted to lower case afterwards.
fn in_range(first: u8, last: u8, byte: u8, nocase: bool) -> bool {
    let (low, high) = if first as i8 > last as i8 { (last, first) } else { (first, last) };
    let fold = |b: u8| (if nocase { b.to_ascii_lowercase() } else { b }) as i8;
    (fold(low)..=fold(high)).contains(&fold(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes(), false)
    }

    #[test]
    fn prepared_pattern_matches_like_the_function() {
        let patterns: [&[u8]; 14] = [
            b"", b"*", b"a", b"a*", b"ab*", b"a**", b"a*b", b"a?", b"a[b]", b"a\\*", b"*a", b"a*?",
            b"[", b"\\a*",
        ];
        let texts: [&[u8]; 9] = [b"", b"a", b"ab", b"abc", b"b", b"a*", b"aab", b"*", b"["];
        for pattern in patterns {
            for text in texts {
                let wanted = matches(pattern, text, false);
                assert_eq!(Pattern::new(pattern).matches(text), wanted, "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn ordinary_patterns() {
        for (pattern, text) in [
            ("hello", "hello"),
            ("h?llo", "hallo"),
            ("h*llo", "hllo"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hello"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("*", "x"),
            ("**a**", "bab"),
            ("a*b*c", "axxbxxbxc"),
            ("\\*", "*"),
            ("a\\\\b", "a\\b"),
            ("*[0-9]", "key:7"),
        ] {
            assert!(m(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("hello", "hell"),
            ("hell", "hello"),
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("h[a-b]llo", "hcllo"),
            ("a*b*c", "axxbxxbx"),
            ("\\*", "x"),
            ("*a", "ab"),
            ("", "a"),
        ] {
            assert!(!m(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn corner_cases() {
        assert!(m("", ""));
        assert!(!m("*", "") && !m("**", "") && !m("[^a]", ""));
        assert!(!m("[", "[") && !m("[]", "]") && !m("[]", "x"));
        assert!(m("[^", "x") && m("[^]", "x") && m("a[^", "ax"));
        assert!(m("[abc", "b") && !m("[abc", "bx"));
        assert!(m("[z-a]", "m") && m("[a-]", "^") && !m("[a-]", "b"));
        assert!(m("[-a]", "-") && m("[-a]", "a"));
        assert!(m("[\\]]", "]") && m("[\\", "\\") && m("\\", "\\") && m("a\\", "a\\"));
        assert!(m("a*", "a") && m("a***", "a"));
    }

    #[test]
    fn bytes_are_signed_in_ranges() {
        assert!(matches(b"[a-\xff]", b"\xff", false));
        assert!(matches(b"[a-\xff]", b"A", false));
        assert!(!matches(b"[a-\xff]", b"b", false));
        assert!(matches(b"[\x80-\xff]", b"\xc0", false));
    }

    #[test]
    fn case() {
        let nocase = |pattern: &str, text: &str| matches(pattern.as_bytes(), text.as_bytes(), true);
        assert!(nocase("HeLLo*", "hEllO!") && nocase("[a-c]", "B") && nocase("[A-C]", "b"));
        assert!(nocase("[x]", "X") && nocase("\\X", "x"));
        assert!(!nocase("[\\x]", "X"), "a quoted byte of a class is exact");
        assert!(!nocase("\u{e9}", "\u{c9}"), "only ASCII has case");
        assert!(!m("a", "A"));
    }

    #[test]
    fn hostile_patterns_terminate() {
        let text = "a".repeat(5_000);
        let pattern = format!("{}b", "a*".repeat(900));
        assert!(!m(&pattern, &text));
        assert!(m(&pattern, &format!("{text}b")));
    }

    #[test]
    fn too_many_stars_match_nothing() {
        let text = "a".repeat(1_002);
        assert!(m(&"*a".repeat(MAX_STARS), &text));
        assert!(m(&format!("{}*", "*a".repeat(MAX_STARS)), &text));
        assert!(!m(&"*a".repeat(MAX_STARS + 1), &text));
    }

    #[test]
    fn literals() {
        assert!(is_literal(b"user:1000{x}^-]") && is_literal(b""));
        for special in ["a*", "?", "[a", "\\"] {
            assert!(!is_literal(special.as_bytes()));
        }
    }
}
