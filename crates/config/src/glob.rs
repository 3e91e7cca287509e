//! Glob patterns over bytes, as KEYS and CONFIG GET understand them.
//!
//! `*` matches any run of bytes, `?` any byte, `[a-z]` a byte of the class,
//! `[^...]` a byte outside it, and a backslash makes the next byte literal. A
//! class that is not closed extends to the end of the pattern.
//!
//! Every element but `*` consumes exactly one byte, so that it is enough to remember the last `*`:
//! when a later element fails, that star takes one byte more and matching resumes after it. An
//! earlier star never needs a second chance. The time is O(pattern × text) for any pattern,
//! `a*a*a*a*b` included, and nothing recurses.

/// Whether `pattern` matches the whole of `text`.
///
/// With `nocase`, ASCII letters match in either case, except those after a backslash inside a
/// class. Time is O(pattern × text), no allocation.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to resume: the pattern after the last star, and the text it was tried on.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() {
            // Only stars may be left, and those are consumed above.
            return p == pattern.len();
        }
        if p < pattern.len() {
            let (hit, next) = element(&pattern[p..], text[t], nocase);
            if hit {
                p += next;
                t += 1;
                continue;
            }
        }
        match star {
            Some((behind, tried)) => {
                (p, t) = (behind, tried + 1);
                star = Some((behind, tried + 1));
            }
            None => return false,
        }
    }
}

/// Whether `text` contains a byte that makes it a pattern for CONFIG GET.
pub fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Matches the first element of a pattern (not a star) against one byte: the
/// outcome and the length of the element.
fn element(pattern: &[u8], byte: u8, nocase: bool) -> (bool, usize) {
    match pattern {
        [b'?', ..] => (true, 1),
        [b'[', class @ ..] => {
            let (hit, length) = in_class(class, byte, nocase);
            (hit, 1 + length)
        }
        [b'\\', literal, ..] => (same(*literal, byte, nocase), 2),
        [literal, ..] => (same(*literal, byte, nocase), 1),
        [] => (false, 0),
    }
}

/// Matches one byte against a class; `class` begins after its `[`. Returns the outcome and how many
/// bytes the class takes, `]` included.
fn in_class(class: &[u8], byte: u8, nocase: bool) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut hit = false;
    loop {
        match &class[at..] {
            [] => break,
            [b'\\', literal, ..] => {
                hit |= *literal == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                hit |= in_range(*from, *to, byte, nocase);
                at += 3;
            }
            [literal, ..] => {
                hit |= same(*literal, byte, nocase);
                at += 1;
            }
        }
    }
    (hit != negated, at)
}

fn in_range(from: u8, to: u8, byte: u8, nocase: bool) -> bool {
    let (low, high) = (from.min(to), from.max(to));
    if nocase {
        let (low, high) = (low.to_ascii_lowercase(), high.to_ascii_lowercase());
        (low..=high).contains(&byte.to_ascii_lowercase())
    } else {
        (low..=high).contains(&byte)
    }
}

fn same(a: u8, b: u8, nocase: bool) -> bool {
    a == b || nocase && a.eq_ignore_ascii_case(&b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "abc", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hbllo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("maxmemor[y", "maxmemory", true),
            ("[]a", "a", false),
            ("[a\\]]", "]", true),
            ("a\\*c", "a*c", true),
            ("a\\*c", "abc", false),
            ("a\\", "a\\", true),
            ("a\\", "a", false),
            ("[", "a", false),
            ("[^", "a", true),
            ("[a-]b", "^b", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes(), false),
                expected,
                "{pattern} {text}"
            );
        }
        assert!(matches(b"MAX*[N-P]RY", b"maxmemory", true));
        assert!(!matches(b"MAX*", b"maxmemory", false));
    }

    #[test]
    fn many_stars_stay_polynomial() {
        let pattern = "a*".repeat(60) + "b";
        let text = "a".repeat(5000);
        assert!(!matches(pattern.as_bytes(), text.as_bytes(), false));
    }

    /// The definition, with every split of a star tried.
    fn slow(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|cut| slow(rest, &text[cut..], nocase)),
            _ => text.split_first().is_some_and(|(&byte, after)| {
                let (hit, length) = element(pattern, byte, nocase);
                hit && slow(&pattern[length..], after, nocase)
            }),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(
            pattern in "[ab*?\\[\\]^\\\\-]{0,9}", text in "[abAB^\\-]{0,8}", nocase: bool,
        ) {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches(pattern, text, nocase), slow(pattern, text, nocase));
        }
    }
}
