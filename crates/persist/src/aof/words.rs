//! Splits a line of the manifest into words, and quotes a file name for it.
//!
//! White space separates words. Between double quotes a backslash introduces `\n`, `\r`, `\t`,
//! `\b`, `\a`, `\xHH` or a literal byte; between single quotes only `\'`. A closing quote ends its
//! word.

/// The words of `line`; `None` if its quotes are not balanced.
pub(super) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut bytes = line.iter().copied().peekable();
    loop {
        while bytes.next_if(|b| b.is_ascii_whitespace()).is_some() {}
        if bytes.peek().is_none() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some(byte) = bytes.next_if(|b| !b.is_ascii_whitespace()) {
            match byte {
                b'"' | b'\'' => {
                    quoted(byte, &mut bytes, &mut word)?;
                    if bytes.peek().is_some_and(|b| !b.is_ascii_whitespace()) {
                        return None;
                    }
                }
                byte => word.push(byte),
            }
        }
        words.push(word);
    }
}

/// Appends the bytes up to the closing `quote`.
fn quoted(quote: u8, bytes: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> Option<()> {
    loop {
        match bytes.next()? {
            byte if byte == quote => return Some(()),
            b'\\' if quote == b'"' => escaped(bytes, word)?,
            b'\\' => match bytes.next()? {
                b'\'' => word.push(b'\''),
                other => word.extend([b'\\', other]),
            },
            byte => word.push(byte),
        }
    }
}

fn escaped(bytes: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> Option<()> {
    let byte = match bytes.next()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        b'x' => {
            let mut digit = || (bytes.next()? as char).to_digit(16);
            (digit()? << 4 | digit()?) as u8
        }
        other => other,
    };
    word.push(byte);
    Some(())
}

/// Appends `name` as one word, quoted if necessary.
pub(super) fn write(name: &[u8], out: &mut Vec<u8>) {
    if !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic() && !b"\"'\\#".contains(b)) {
        return out.extend(name);
    }
    out.push(b'"');
    for byte in name {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            other => out.extend(format!("\\x{other:02x}").bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let words = split(line.as_bytes())?;
        Some(words.into_iter().map(|w| String::from_utf8_lossy(&w).into_owned()).collect())
    }

    #[test]
    fn quotes_and_escapes_are_parsed() {
        assert_eq!(words(" a  b\t").unwrap(), ["a", "b"]);
        assert_eq!(words(r#""a b" 'c\'d' "\x41\n""#).unwrap(), ["a b", "c'd", "A\n"]);
        assert_eq!(words(r#"'a\b'"#).unwrap(), [r"a\b"]);
        for wrong in [r#""a"#, "'a", r#""a"b"#, r#""\x4"#, "\"\\"] {
            assert_eq!(words(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn written_names_split_to_the_same() {
        for name in [&b"appendonly.aof"[..], b"a b", b"\"", b"\\", b"", b"\xff\x00", b"#x", b"'"] {
            let mut line = Vec::new();
            write(name, &mut line);
            assert_eq!(split(&line).unwrap(), [name]);
        }
    }
}
