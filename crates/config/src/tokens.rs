//! Words of a line of a configuration file. [`split`] reads them.

pub use weft_base::words::split;

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

/// `word` in the form of a line: quoted only when it must be.
pub fn quote_if_needed(word: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !word.is_empty() && word.iter().all(plain) { word.to_vec() } else { quote(word) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
