//! The text of JSON: numbers and strings written, tokens read.

/// Appends a number with `digits` significant digits, as C's `%.*g`.
pub(super) fn write_number(number: f64, digits: usize, out: &mut Vec<u8>) {
    if number.is_nan() {
        let sign: &[u8] = if number.is_sign_negative() { b"-" } else { b"" };
        out.extend_from_slice(&[sign, b"nan"].concat());
        return;
    }
    if number.is_infinite() {
        out.extend_from_slice(if number < 0.0 { b"-inf" } else { b"inf" });
        return;
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("Rust writes an exponent");
    let exponent: i32 = exponent.parse().expect("an integer");
    let strip = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    let text = match exponent {
        -4.. if exponent < digits as i32 => {
            strip(&format!("{number:.*}", (digits as i32 - 1 - exponent) as usize))
        }
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", strip(mantissa), exponent.abs())
        }
    };
    out.extend_from_slice(text.as_bytes());
}

/// Appends a string in quotes. Bytes from 128 on are copied: they are UTF-8, or whatever the script has.
pub(super) fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            b'/' => b'/',
            8 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            12 => b'f',
            b'\r' => b'r',
            0..32 | 127 => {
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                continue;
            }
            other => {
                out.push(*other);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.push(b'"');
}

/// A part of a JSON text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Colon,
    Comma,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    End,
    /// No token, with the reason.
    Invalid(&'static str),
}

impl Token {
    /// As error messages name it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::End => "T_END",
            Token::Invalid(reason) => reason,
        }
    }
}

/// Reads tokens.
pub(super) struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    /// Hexadecimal numbers, infinities and the like are numbers.
    allows_any_number: bool,
}

const BAD_ESCAPE: &str = "invalid escape code";
const BAD_UNICODE: &str = "invalid unicode escape code";

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a [u8], allows_any_number: bool) -> Self {
        Tokens { text, at: 0, allows_any_number }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The next token, and its position, counted from 1.
    pub(super) fn next(&mut self) -> (Token, usize) {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let position = self.at + 1;
        let single = match self.peek(0) {
            0 if self.at >= self.text.len() => return (Token::End, position),
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' if !self.allows_any_number && self.is_odd_number() => {
                Token::Invalid("invalid number")
            }
            b'-' | b'0'..=b'9' => return (self.number(), position),
            _ => return (self.word(), position),
        };
        self.at += 1;
        (single, position)
    }

    fn word(&mut self) -> Token {
        let rest = &self.text[self.at..];
        for (word, token) in [
            ("true", Token::Boolean(true)),
            ("false", Token::Boolean(false)),
            ("null", Token::Null),
        ] {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return token;
            }
        }
        match self.allows_any_number && self.is_odd_number() {
            true => self.number(),
            false => Token::Invalid("invalid token"),
        }
    }

    /// Whether C would read a number here that JSON doesn't have.
    fn is_odd_number(&self) -> bool {
        if self.peek(0) == b'+' {
            return true;
        }
        let sign = usize::from(self.peek(0) == b'-');
        let (first, second) = (self.peek(sign), self.peek(sign + 1));
        let rest = self.text.get(self.at + sign..).unwrap_or_default();
        let is_word = |word: &[u8]| rest.get(..3).is_some_and(|w| w.eq_ignore_ascii_case(word));
        match first {
            b'0' => second | 32 == b'x' || second.is_ascii_digit(),
            b'1'..=b'9' => false,
            _ => is_word(b"inf") || is_word(b"nan"),
        }
    }

    /// The longest number that C's `strtod` reads.
    fn number(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let (value, len) = read_double(rest);
        if len == 0 {
            return Token::Invalid("invalid number");
        }
        self.at += len;
        Token::Number(value)
    }

    fn string(&mut self) -> (Token, usize) {
        let position = self.at + 1;
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.text.get(self.at) {
                None => return (Token::Invalid("unexpected end of string"), self.at + 1),
                Some(b'"') => {
                    self.at += 1;
                    return (Token::String(out), position);
                }
                Some(b'\\') => {
                    let at = self.at + 1;
                    if let Err(reason) = self.escape(&mut out) {
                        return (Token::Invalid(reason), at);
                    }
                }
                Some(other) => {
                    out.push(*other);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let byte = match self.peek(1) {
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 12,
            b'r' => b'\r',
            same @ (b'"' | b'\\' | b'/') => same,
            b'u' => return self.unicode(out),
            _ => return Err(BAD_ESCAPE),
        };
        out.push(byte);
        self.at += 2;
        Ok(())
    }

    /// The four hexadecimal digits from `ahead` on.
    fn hex(&self, ahead: usize) -> Option<u32> {
        let digits = self.text.get(self.at + ahead..self.at + ahead + 4)?;
        digits.iter().try_fold(0, |n, digit| Some(n << 4 | char::from(*digit).to_digit(16)?))
    }

    fn unicode(&mut self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let first = self.hex(2).ok_or(BAD_UNICODE)?;
        let mut len = 6;
        let code = match first {
            0xd800..=0xdbff => {
                let second = Some(()).filter(|()| (self.peek(6), self.peek(7)) == (b'\\', b'u'));
                let second = second.and_then(|()| self.hex(8)).ok_or(BAD_UNICODE)?;
                if second & 0xfc00 != 0xdc00 {
                    return Err(BAD_UNICODE);
                }
                len = 12;
                0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff)
            }
            code => code,
        };
        let letter = char::from_u32(code).ok_or(BAD_UNICODE)?;
        out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += len;
        Ok(())
    }
}

/// The length of `(...)` after `nan`.
fn nan_payload(text: &[u8]) -> usize {
    let is_letter = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
    let letters = text.iter().skip(1).take_while(is_letter).count();
    match (text.first(), text.get(letters + 1)) {
        (Some(b'('), Some(b')')) => letters + 2,
        _ => 0,
    }
}

/// The number at the beginning of `text` as C's `strtod` reads it, and its length; 0 if there is none.
fn read_double(text: &[u8]) -> (f64, usize) {
    let is_signed = matches!(text.first(), Some(b'-' | b'+'));
    let negative = text.first() == Some(&b'-');
    let rest = &text[usize::from(is_signed)..];
    let signed = |value: f64| if negative { -value } else { value };
    let starts = |word: &[u8]| rest.get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word));
    let from = usize::from(is_signed);
    for (word, value) in
        [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)]
    {
        if starts(word) {
            let payload = if value.is_nan() { nan_payload(&rest[word.len()..]) } else { 0 };
            return (signed(value), from + word.len() + payload);
        }
    }
    if starts(b"0x") && rest.get(2).is_some_and(u8::is_ascii_hexdigit) {
        let digits = rest[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let value = rest[2..2 + digits].iter().fold(0.0, |n, digit| {
            n * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or(0))
        });
        return (signed(value), from + 2 + digits);
    }
    let digits =
        |at: usize| rest[at.min(rest.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(0);
    let mut end = whole;
    let mut has_digits = whole > 0;
    if rest.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        if has_digits || fraction > 0 {
            end += 1 + fraction;
            has_digits = true;
        }
    }
    if !has_digits {
        return (0.0, 0);
    }
    if matches!(rest.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(end + 1), Some(b'-' | b'+')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    let number = std::str::from_utf8(&rest[..end]).ok().and_then(|text| text.parse().ok());
    (signed(number.unwrap_or(0.0)), from + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: f64, digits: usize) -> String {
        let mut out = Vec::new();
        write_number(value, digits, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn numbers_are_written_as_by_c() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.0 / 3.0, "0.33333333333333"),
            (1e20, "1e+20"),
            (12_345_678_901_234.0, "12345678901234"),
            (123_456_789_012_345.0, "1.2345678901234e+14"),
            (1e14, "1e+14"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e300, "1.5e+300"),
            (-2.5, "-2.5"),
            (0.1 + 0.2, "0.3"),
            (99_999_999_999_999.9, "1e+14"),
        ] {
            assert_eq!(number(value, 14), text);
        }
        assert_eq!(number(1.0 / 3.0, 3), "0.333");
    }

    #[test]
    fn numbers_are_read_as_by_c() {
        for (text, value, len) in [
            ("1", 1.0, 1),
            ("-1.5e3x", -1500.0, 6),
            ("1e", 1.0, 1),
            ("1.", 1.0, 2),
            ("0x1Fz", 31.0, 4),
            ("0x", 0.0, 1),
            ("-inf", f64::NEG_INFINITY, 4),
            ("Infinity", f64::INFINITY, 8),
            ("-", 0.0, 0),
            (".5", 0.5, 2),
        ] {
            assert_eq!(read_double(text.as_bytes()), (value, len), "{text}");
        }
    }
}
