//! Rust source without its comments and strings.
//!
//! Words in prose must not trigger rules about code. This is the part of a lexer that separates
//! them: nested comments, strings with escapes, raw strings, and characters, which lifetimes
//! resemble.

/// The text with everything in comments, strings and characters replaced by blanks. Line breaks
/// stay, so line numbers stay right.
pub fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match token(&chars[at..], chars[..at].last().copied()) {
            Token::Prose(len) => at + len,
            Token::Code => {
                out.push(chars[at]);
                at += 1;
                continue;
            }
        };
        out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    out
}

/// A comment, a string or a character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its first line, from 1.
    pub line: usize,
    /// Whether it is the first thing on its line.
    pub alone: bool,
    /// With its slashes or quotes.
    pub text: String,
}

/// The comments, strings and characters of a text: the parts that [`code_only`] removes.
pub fn pieces(text: &str) -> Vec<Piece> {
    let chars: Vec<char> = text.chars().collect();
    let (mut at, mut line, mut alone) = (0, 1, true);
    let mut pieces = Vec::new();
    while at < chars.len() {
        match token(&chars[at..], chars[..at].last().copied()) {
            Token::Prose(len) => {
                let text: String = chars[at..(at + len).min(chars.len())].iter().collect();
                let breaks = text.matches('\n').count();
                pieces.push(Piece { line, alone, text });
                (at, line, alone) = (at + len, line + breaks, false);
            }
            Token::Code => {
                match chars[at] {
                    '\n' => (line, alone) = (line + 1, true),
                    c => alone &= c.is_whitespace(),
                }
                at += 1;
            }
        }
    }
    pieces
}

enum Token {
    /// One character of code.
    Code,
    /// That many characters of a comment, a string or a character literal.
    Prose(usize),
}

fn token(rest: &[char], before: Option<char>) -> Token {
    match rest {
        ['/', '/', ..] => Token::Prose(rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())),
        ['/', '*', ..] => Token::Prose(block_comment(rest)),
        ['"', ..] => Token::Prose(string(rest)),
        ['r', '"' | '#', ..] if !before.is_some_and(is_word) || before == Some('b') => {
            match raw_string(rest) {
                Some(len) => Token::Prose(len),
                None => Token::Code,
            }
        }
        // a quote right after a character ends it; otherwise it is a lifetime
        ['\'', '\\', ..] => Token::Prose(quoted_until(rest, '\'')),
        ['\'', _, '\'', ..] => Token::Prose(3),
        _ => Token::Code,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[char]) -> usize {
    quoted_until(rest, '"')
}

/// Length of a literal in quotes with backslash escapes.
fn quoted_until(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of `r"..."`, `r#"..."#` and so on; none if it is an identifier such as `r#type`.
fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&c| c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let body = 2 + hashes;
    let end = (body..rest.len()).find(|&i| {
        rest[i] == '"' && rest[i + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes
    });
    Some(end.map_or(rest.len(), |i| i + 1 + hashes))
}

#[cfg(test)]
mod tests {
    use super::{Piece, code_only, pieces};

    fn squeezed(text: &str) -> String {
        code_only(text).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn prose_goes_and_code_stays() {
        assert_eq!(squeezed("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(squeezed(r#"a("b \" c", 'd', '\'', '"') e"#), "a( , , , ) e");
        assert_eq!(squeezed("a(r\"b\\\", r#\"c\" d\"#, br\"e\") f"), "a( , , b ) f");
        assert_eq!(
            squeezed("fn f<'a>(x: &'a str) -> r#type {}"),
            "fn f<'a>(x: &'a str) -> r#type {}"
        );
    }

    #[test]
    fn pieces_have_their_lines() {
        let piece = |line, alone, text: &str| Piece { line, alone, text: text.to_string() };
        assert_eq!(
            pieces("a // b\n  // c\n\"d\ne\" /* f\n */ 'g'\n"),
            [
                piece(1, false, "// b"),
                piece(2, true, "// c"),
                piece(3, true, "\"d\ne\""),
                piece(4, false, "/* f\n */"),
                piece(5, false, "'g'"),
            ]
        );
    }

    #[test]
    fn lines_stay_where_they_are() {
        let text = "a\n/* b\nc */ d\n\"e\nf\" g\n";
        let code = code_only(text);
        assert_eq!(code.lines().count(), text.lines().count());
        assert!(
            code.lines().nth(2).unwrap().contains('d')
                && code.lines().nth(4).unwrap().contains('g')
        );
    }

    #[test]
    fn unterminated_piece_ends_with_the_text() {
        for text in ["\"a", "/* a", "r#\"a\"", "'\\", "// a"] {
            assert_eq!(code_only(text).trim(), "", "{text}");
        }
    }
}
