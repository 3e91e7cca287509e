//! Splitting one line into arguments, with the quoting of inline commands.
//!
//! The rules are those of a Redis command line: arguments are separated by white space;
//! `"..."` understands `\n \r \t \b \a \xHH` and a backslash before any other byte; `'...'`
//! understands only `\'`. A closing quote must be followed by white space or the end.

/// Splits `line` into arguments. `None` when quotes are unbalanced or a closing quote is
/// directly followed by another byte. Linear in the length of the line.
pub fn split_args(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        while at < line.len() && is_space(line[at]) {
            at += 1;
        }
        // A NUL ends the line, as it does for a C string.
        if at >= line.len() || line[at] == 0 {
            return Some(out);
        }
        let (arg, next) = one_arg(line, at)?;
        out.push(arg);
        at = next;
    }
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn at_end(line: &[u8], at: usize) -> bool {
    at >= line.len() || line[at] == 0 || is_space(line[at])
}

/// Reads the argument that starts at `at`; answers it and the position after it.
fn one_arg(line: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut arg = Vec::new();
    loop {
        match line.get(at).copied() {
            None | Some(0) => return Some((arg, at)),
            Some(b) if is_space(b) => return Some((arg, at)),
            Some(b'"') => {
                at = double_quoted(line, at + 1, &mut arg)?;
                return at_end(line, at).then_some((arg, at));
            }
            Some(b'\'') => {
                at = single_quoted(line, at + 1, &mut arg)?;
                return at_end(line, at).then_some((arg, at));
            }
            Some(b) => {
                arg.push(b);
                at += 1;
            }
        }
    }
}

fn double_quoted(line: &[u8], mut at: usize, arg: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            0 => return None,
            b'"' => return Some(at + 1),
            b'\\' => match *line.get(at + 1)? {
                b'x' if hex(line, at + 2).is_some() && hex(line, at + 3).is_some() => {
                    arg.push(hex(line, at + 2)? * 16 + hex(line, at + 3)?);
                    at += 4;
                }
                0 => return None,
                b => {
                    arg.push(unescape(b));
                    at += 2;
                }
            },
            b => {
                arg.push(b);
                at += 1;
            }
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, arg: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            0 => return None,
            b'\'' => return Some(at + 1),
            b'\\' if line.get(at + 1) == Some(&b'\'') => {
                arg.push(b'\'');
                at += 2;
            }
            b => {
                arg.push(b);
                at += 1;
            }
        }
    }
}

fn unescape(b: u8) -> u8 {
    match b {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn hex(line: &[u8], at: usize) -> Option<u8> {
    line.get(at).and_then(|b| (*b as char).to_digit(16)).map(|d| d as u8)
}

#[cfg(test)]
mod tests {
    use super::split_args;

    fn split(s: &str) -> Option<Vec<String>> {
        split_args(s.as_bytes())
            .map(|v| v.iter().map(|a| a.iter().map(|b| *b as char).collect()).collect())
    }

    #[test]
    fn plain_and_quoted() {
        assert_eq!(split("  set a  b ").unwrap(), ["set", "a", "b"]);
        assert_eq!(split(r#"set "a b" 'c d'"#).unwrap(), ["set", "a b", "c d"]);
        assert_eq!(split(r#"x "\x41\n\"" '\''"#).unwrap(), ["x", "A\n\"", "'"]);
        assert_eq!(split(r#"x "\xzz""#).unwrap(), ["x", "xzz"]);
        assert_eq!(split("a\"b\" c").unwrap(), ["ab", "c"]);
        assert_eq!(split("").unwrap(), Vec::<String>::new());
        assert_eq!(split("''").unwrap(), [""]);
    }

    #[test]
    fn unbalanced() {
        for s in [r#""a"#, "'a", r#""a"b"#, "'a'b", r#"a "\"#] {
            assert_eq!(split(s), None, "{s}");
        }
    }
}
