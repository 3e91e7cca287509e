//! Lines of a configuration file as words, and words as they stand in a line.
//!
//! A line is words separated by white space. A word, or a part of one, may be
//! quoted: between double quotes a backslash introduces `\n`, `\r`, `\t`,
//! `\b`, `\a`, `\xHH` or a literal byte; between single quotes only `\'` is
//! special. A closing quote must end its word. This is the quoting of
//! `redis-cli` and of inline commands as well.

/// The words of `line`, or `None` when its quotes do not balance.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|byte| !is_space(*byte));
        rest = match start {
            Some(start) => &rest[start..],
            None => return Some(words),
        };
        let mut word = Vec::new();
        while let Some((&byte, after)) = rest.split_first() {
            rest = match byte {
                byte if is_space(byte) => break,
                b'"' => double_quoted(after, &mut word)?,
                b'\'' => single_quoted(after, &mut word)?,
                byte => {
                    word.push(byte);
                    after
                }
            };
        }
        words.push(word);
    }
}

/// White space in a configuration line; NUL counts, it cannot be in a word
/// unless quoted as `\x00`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | 0)
}

/// Appends the text after an opening double quote; returns what follows the
/// closing one.
fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return ends_word(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

/// As [`double_quoted`], for single quotes.
fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return ends_word(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

fn ends_word(after: &[u8]) -> Option<&[u8]> {
    match after {
        [] => Some(after),
        [byte, ..] if is_space(*byte) => Some(after),
        _ => None,
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// `word` between double quotes, with escapes: [`split`] gives it back.
pub fn quote(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len() + 2);
    out.push(b'"');
    for &byte in word {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x07 => out.extend(b"\\a"),
            0x08 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    out.push(b'"');
    out
}

/// `word` as it can stand in a line: quoted only when it must be.
pub fn quote_if_needed(word: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !word.is_empty() && word.iter().all(plain) { word.to_vec() } else { quote(word) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let as_text = |word| String::from_utf8(word).unwrap();
        Some(split(line.as_bytes())?.into_iter().map(as_text).collect())
    }

    #[test]
    fn words_and_quotes() {
        for (line, expected) in [
            ("", vec![]),
            ("  \t ", vec![]),
            ("port 6379", vec!["port", "6379"]),
            ("  a\tb\r", vec!["a", "b"]),
            (r#"save """#, vec!["save", ""]),
            (r#"a"b c" d"#, vec!["ab c", "d"]),
            (r#""\x41\n\t\q\\\"" x"#, vec!["A\n\tq\\\"", "x"]),
            (r#"'it\'s' '\n'"#, vec!["it's", r"\n"]),
            (r#""\x4""#, vec!["x4"]),
            ("a#b #c", vec!["a#b", "#c"]),
        ] {
            let expected = expected.into_iter().map(String::from).collect();
            assert_eq!(words(line), Some(expected), "{line}");
        }
        for line in [r#"a "b"#, "a 'b", r#""a"b"#, "'a'b", r#""a\"#, "'"] {
            assert_eq!(words(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn quoting_round_trips(word: Vec<u8>) {
            prop_assert_eq!(split(&quote(&word)), Some(vec![word.clone()]));
            prop_assert_eq!(split(&quote_if_needed(&word)), Some(vec![word]));
        }

        #[test]
        fn any_line_is_read_or_refused(line: Vec<u8>) {
            if let Some(words) = split(&line) {
                prop_assert!(words.iter().map(Vec::len).sum::<usize>() <= line.len());
            }
        }
    }
}
