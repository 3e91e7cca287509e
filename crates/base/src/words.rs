//! Splitting a line into words: inline commands and configuration lines.
//!
//! White space separates words. A word is a run of parts without white space between them. A part
//! is plain or quoted, so `a"b c"'d'` is the one word `ab cd`. In double quotes a backslash
//! introduces `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH` or a literal byte. In single quotes it
//! introduces only `'`. Outside of quotes it is a byte like any other.
//!
//! These are the rules of Valkey 9.1. Older servers refuse a closing quote inside a word.

/// The words of `line`; `None` if a quote is not closed. O(length of the line).
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.iter().position(|byte| !is_leading_space(*byte)) {
        let (word, after) = one_word(&rest[start..])?;
        words.push(word);
        rest = after;
    }
    Some(words)
}

/// Reads the word at the beginning of `rest`. Returns it and the rest.
fn one_word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            _ if ends_word(byte) => break,
            b'"' => double_quoted(after, &mut word)?,
            b'\'' => single_quoted(after, &mut word)?,
            _ => {
                word.push(byte);
                after
            }
        };
    }
    Some((word, rest))
}

/// NUL can't be in a word unless it is quoted as `\x00`.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0)
}

/// Before a word, Valkey also skips a vertical tab and a form feed (`isspace`).
fn is_leading_space(byte: u8) -> bool {
    ends_word(byte) || matches!(byte, 0x0b | 0x0c)
}

/// Appends the text after an opening double quote. Returns the rest after the closing one.
fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(unescape(*escaped));
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

/// Like [`double_quoted`], for single quotes.
fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return Some(after),
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

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
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

#[cfg(test)]
mod tests {
    use super::split;

    fn words(line: &str) -> Option<Vec<String>> {
        let as_text = |word| String::from_utf8(word).expect("the tests' words are text");
        Some(split(line.as_bytes())?.into_iter().map(as_text).collect())
    }

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(words(line), Some(expected), "{line:?}");
    }

    #[test]
    fn white_space_separates_words() {
        check("", &[]);
        check("  \t ", &[]);
        check("  set a\tb \r", &["set", "a", "b"]);
        check("PI\rNG", &["PI", "NG"]);
        check("a\0b", &["a", "b"]);
        // Before a word only.
        check("\x0b\x0cPING", &["PING"]);
        check("PING\x0bx\x0c", &["PING\x0bx\x0c"]);
        check("a \x0bb", &["a", "b"]);
    }

    #[test]
    fn quotes_and_escapes() {
        check(r#"set "a b" 'c d'"#, &["set", "a b", "c d"]);
        check(r#""\x41\n\t\q\\\"" '\'' '\n'"#, &["A\n\tq\\\"", "'", "\\n"]);
        check(r#""\xzz" "\x4""#, &["xzz", "x4"]);
        check(r#"save """#, &["save", ""]);
        check("''", &[""]);
        check(r#"a\"b" \n"#, &["a\\b", "\\n"]);
        check("a#b #c", &["a#b", "#c"]);
    }

    /// The words of these lines in Valkey 9.1. Redis refuses the lines.
    #[test]
    fn quotes_may_open_and_close_inside_a_word() {
        check(r#"foo"bar"baz"#, &["foobarbaz"]);
        check(r#""foo"bar 'foo'bar"#, &["foobar", "foobar"]);
        check(r#"a"b c"'d e'f"#, &["ab cd ef"]);
        check(r#""a""b" '''' """""#, &["ab", "", ""]);
        check(r#""\x41"b 'a\'b'c"#, &["Ab", "a'bc"]);
        check(r#""SET"'k'"#, &["SETk"]);
    }

    #[test]
    fn unclosed_quote_is_refused() {
        for line in [r#""a"#, "'a", r#"a""#, "a'", r#""a"b"c"#, r#"a "\"#, r#""a\""#, r"'a\'", "'"]
        {
            assert_eq!(words(line), None, "{line}");
        }
    }
}
