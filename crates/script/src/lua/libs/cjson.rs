//! `cjson`: values as JSON.

use super::json_text::{Token, Tokens, write_number, write_string};
use super::{integer, string};
use crate::lua::frame::{Frame, Kind, Native, Raised};
use crate::lua::json_settings::{InvalidNumbers, JsonSettings};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("decode", decode),
    ("decode_invalid_numbers", decode_invalid_numbers),
    ("decode_max_depth", decode_max_depth),
    ("encode", encode),
    ("encode_invalid_numbers", encode_invalid_numbers),
    ("encode_keep_buffer", encode_keep_buffer),
    ("encode_max_depth", encode_max_depth),
    ("encode_number_precision", encode_number_precision),
    ("encode_sparse_array", encode_sparse_array),
    ("new", new),
];

/// A thread's stack of 2 MB has room for this many nested values.
const MOST_DEPTH: usize = 2000;

/// Adds the fields that are no functions to the table that is the last value.
pub(super) fn add_fields(frame: &mut Frame<'_>) {
    frame.push_null();
    frame.set_field(-2, b"null");
    frame.push_bytes(b"cjson");
    frame.set_field(-2, b"_NAME");
    frame.push_bytes(b"2.1.0");
    frame.set_field(-2, b"_VERSION");
}

/// Returns another table with the same functions and settings.
fn new(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    frame.push_table(0, 16);
    super::add(frame, FUNCTIONS);
    add_fields(frame);
    Ok(1)
}

fn check_one(frame: &mut Frame<'_>) -> Result<(), Raised> {
    match frame.len() {
        1 => Ok(()),
        _ => Err(frame.bad_argument(1, "expected 1 argument")),
    }
}

fn encode(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_one(frame)?;
    let settings = frame.context().json.get();
    let mut out = Vec::new();
    append(frame, &settings, &mut out, 0)?;
    frame.push_bytes(&out);
    Ok(1)
}

fn refuse(frame: &mut Frame<'_>, what: &str, why: &str) -> Raised {
    frame.error(format!("Cannot serialise {what}: {why}"))
}

/// Appends the last value, and keeps it.
fn append(
    frame: &mut Frame<'_>,
    settings: &JsonSettings,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Raised> {
    match frame.kind(-1) {
        Kind::String => write_string(frame.bytes(-1).unwrap_or_default(), out),
        Kind::Number => append_number(frame, settings, out)?,
        Kind::Boolean if frame.is_true(-1) => out.extend_from_slice(b"true"),
        Kind::Boolean => out.extend_from_slice(b"false"),
        Kind::Nil => out.extend_from_slice(b"null"),
        Kind::LightUserdata if frame.address(-1) == 0 => out.extend_from_slice(b"null"),
        Kind::Table => return append_table(frame, settings, out, depth + 1),
        kind => return Err(refuse(frame, kind.name(), "type not supported")),
    }
    Ok(())
}

fn append_number(
    frame: &mut Frame<'_>,
    settings: &JsonSettings,
    out: &mut Vec<u8>,
) -> Result<(), Raised> {
    let number = frame.number(-1).unwrap_or_default();
    if !number.is_finite() {
        match settings.encode_invalid {
            InvalidNumbers::Error => return Err(refuse(frame, "number", "must not be NaN or Inf")),
            InvalidNumbers::Null => {
                out.extend_from_slice(b"null");
                return Ok(());
            }
            InvalidNumbers::Text if number.is_nan() => {
                out.extend_from_slice(b"nan");
                return Ok(());
            }
            InvalidNumbers::Text => {}
        }
    }
    write_number(number, settings.digits, out);
    Ok(())
}

fn append_table(
    frame: &mut Frame<'_>,
    settings: &JsonSettings,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Raised> {
    if depth > settings.encode_depth || depth > MOST_DEPTH || !frame.reserve(4) {
        return Err(frame.error(format!("Cannot serialise, excessive nesting ({depth})")));
    }
    match array_length(frame, settings)? {
        Some(len) => append_array(frame, settings, out, depth, len),
        None => append_object(frame, settings, out, depth),
    }
}

/// The length of the array that is the last value; `None`: it is an object.
fn array_length(frame: &mut Frame<'_>, settings: &JsonSettings) -> Result<Option<usize>, Raised> {
    let (mut highest, mut items) = (0.0, 0.0);
    frame.push_nil();
    while frame.next(-2) {
        frame.pop(1);
        let key = (frame.kind(-1) == Kind::Number).then(|| frame.number(-1)).flatten();
        let Some(key) = key.filter(|key| *key > 0.0 && key.floor() == *key) else {
            frame.pop(1);
            return Ok(None);
        };
        highest = f64::max(highest, key);
        items += 1.0;
    }
    let is_sparse = settings.sparse_ratio > 0.0
        && highest > items * settings.sparse_ratio
        && highest > settings.sparse_safe;
    if is_sparse && !settings.sparse_convert {
        return Err(refuse(frame, "table", "excessively sparse array"));
    }
    Ok((!is_sparse && items > 0.0).then_some(highest as usize))
}

fn append_array(
    frame: &mut Frame<'_>,
    settings: &JsonSettings,
    out: &mut Vec<u8>,
    depth: usize,
    len: usize,
) -> Result<(), Raised> {
    out.push(b'[');
    for n in 1..=len as i64 {
        if n > 1 {
            out.push(b',');
        }
        frame.get_index(-1, n);
        append(frame, settings, out, depth)?;
        frame.pop(1);
    }
    out.push(b']');
    Ok(())
}

fn append_object(
    frame: &mut Frame<'_>,
    settings: &JsonSettings,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Raised> {
    out.push(b'{');
    let from = out.len();
    frame.push_nil();
    while frame.next(-2) {
        if out.len() > from {
            out.push(b',');
        }
        match frame.kind(-2) {
            Kind::String => write_string(frame.bytes(-2).unwrap_or_default(), out),
            Kind::Number => {
                let key = frame.number(-2).unwrap_or_default();
                out.push(b'"');
                if !key.is_finite() && settings.encode_invalid == InvalidNumbers::Error {
                    return Err(refuse(frame, "number", "must not be NaN or Inf"));
                }
                write_number(key, settings.digits, out);
                out.push(b'"');
            }
            kind => return Err(refuse(frame, kind.name(), "table key must be a number or string")),
        }
        out.push(b':');
        append(frame, settings, out, depth)?;
        frame.pop(1);
    }
    out.push(b'}');
    Ok(())
}

fn decode(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_one(frame)?;
    let text = string(frame, 1)?;
    // UTF-16 and UTF-32 have zeros there.
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(frame.error("JSON parser does not support UTF-16 or UTF-32"));
    }
    let settings = frame.context().json.get();
    let mut decoder = Decoder {
        tokens: Tokens::new(&text, settings.decode_invalid),
        depth: 0,
        most: settings.decode_depth,
    };
    let first = decoder.tokens.next();
    decoder.push(frame, first)?;
    let after = decoder.tokens.next();
    match after.0 {
        Token::End => Ok(1),
        _ => Err(expected(frame, "the end", &after)),
    }
}

fn expected(frame: &mut Frame<'_>, what: &str, (token, position): &(Token, usize)) -> Raised {
    frame.error(format!("Expected {what} but found {} at character {position}", token.name()))
}

struct Decoder<'a> {
    tokens: Tokens<'a>,
    depth: usize,
    most: usize,
}

impl Decoder<'_> {
    /// Pushes the value that begins with this token.
    fn push(&mut self, frame: &mut Frame<'_>, first: (Token, usize)) -> Result<(), Raised> {
        match &first.0 {
            Token::String(text) => frame.push_bytes(text),
            Token::Number(number) => frame.push_number(*number),
            Token::Boolean(value) => frame.push_bool(*value),
            Token::Null => frame.push_null(),
            Token::ObjectBegin => return self.push_object(frame, first.1),
            Token::ArrayBegin => return self.push_array(frame, first.1),
            _ => return Err(expected(frame, "value", &first)),
        }
        Ok(())
    }

    fn descend(&mut self, frame: &mut Frame<'_>, position: usize) -> Result<(), Raised> {
        self.depth += 1;
        if self.depth > self.most || self.depth > MOST_DEPTH || !frame.reserve(4) {
            let depth = self.depth;
            return Err(frame.error(format!(
                "Found too many nested data structures ({depth}) at character {position}"
            )));
        }
        Ok(())
    }

    fn push_array(&mut self, frame: &mut Frame<'_>, position: usize) -> Result<(), Raised> {
        self.descend(frame, position)?;
        frame.push_table(0, 0);
        let mut token = self.tokens.next();
        if token.0 != Token::ArrayEnd {
            for n in 1.. {
                self.push(frame, token)?;
                frame.set_index(-2, n);
                let after = self.tokens.next();
                match after.0 {
                    Token::ArrayEnd => break,
                    Token::Comma => token = self.tokens.next(),
                    _ => return Err(expected(frame, "comma or array end", &after)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn push_object(&mut self, frame: &mut Frame<'_>, position: usize) -> Result<(), Raised> {
        self.descend(frame, position)?;
        frame.push_table(0, 0);
        let mut token = self.tokens.next();
        if token.0 != Token::ObjectEnd {
            loop {
                let Token::String(name) = &token.0 else {
                    return Err(expected(frame, "object key string", &token));
                };
                let colon = self.tokens.next();
                if colon.0 != Token::Colon {
                    return Err(expected(frame, "colon", &colon));
                }
                let value = self.tokens.next();
                self.push(frame, value)?;
                frame.set_field(-2, name);
                let after = self.tokens.next();
                match after.0 {
                    Token::ObjectEnd => break,
                    Token::Comma => token = self.tokens.next(),
                    _ => return Err(expected(frame, "comma or object end", &after)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// Changes the settings, if there is an argument, and returns the setting.
fn change(frame: &mut Frame<'_>, act: impl FnOnce(&mut JsonSettings)) {
    let mut settings = frame.context().json.get();
    act(&mut settings);
    frame.context().json.set(settings);
}

fn is_given(frame: &Frame<'_>, at: i32) -> bool {
    !matches!(frame.kind(at), Kind::Absent | Kind::Nil)
}

/// An integer argument within bounds, if it is given.
fn bounded(frame: &mut Frame<'_>, at: usize, low: i64, high: i64) -> Result<Option<i64>, Raised> {
    if !is_given(frame, at as i32) {
        return Ok(None);
    }
    let value = integer(frame, at)?;
    match (low..=high).contains(&value) {
        true => Ok(Some(value)),
        false => Err(frame.bad_argument(at, &format!("expected integer between {low} and {high}"))),
    }
}

/// A boolean argument, or "on" or "off", if it is given.
fn switch(frame: &mut Frame<'_>, at: usize) -> Result<Option<bool>, Raised> {
    match frame.kind(at as i32) {
        Kind::Absent | Kind::Nil => Ok(None),
        Kind::Boolean => Ok(Some(frame.is_true(at as i32))),
        _ => match &string(frame, at)?[..] {
            b"on" => Ok(Some(true)),
            b"off" => Ok(Some(false)),
            other => Err(bad_option(frame, at, &String::from_utf8_lossy(other))),
        },
    }
}

fn bad_option(frame: &mut Frame<'_>, at: usize, option: &str) -> Raised {
    frame.bad_argument(at, &format!("invalid option '{option}'"))
}

fn encode_max_depth(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if let Some(depth) = bounded(frame, 1, 1, i64::from(i32::MAX))? {
        change(frame, |settings| settings.encode_depth = depth as usize);
    }
    frame.push_number(frame.context().json.get().encode_depth as f64);
    Ok(1)
}

fn decode_max_depth(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if let Some(depth) = bounded(frame, 1, 1, i64::from(i32::MAX))? {
        change(frame, |settings| settings.decode_depth = depth as usize);
    }
    frame.push_number(frame.context().json.get().decode_depth as f64);
    Ok(1)
}

fn encode_number_precision(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if let Some(digits) = bounded(frame, 1, 1, 14)? {
        change(frame, |settings| settings.digits = digits as usize);
    }
    frame.push_number(frame.context().json.get().digits as f64);
    Ok(1)
}

/// The buffer is never kept: the setting changes nothing.
fn encode_keep_buffer(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if let Some(keeps) = switch(frame, 1)? {
        change(frame, |settings| settings.keeps_buffer = keeps);
    }
    frame.push_bool(frame.context().json.get().keeps_buffer);
    Ok(1)
}

fn encode_invalid_numbers(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let given = match frame.kind(1) {
        Kind::String if frame.bytes(1) == Some(b"null") => Some(InvalidNumbers::Null),
        _ => switch(frame, 1)?
            .map(|on| if on { InvalidNumbers::Text } else { InvalidNumbers::Error }),
    };
    if let Some(given) = given {
        change(frame, |settings| settings.encode_invalid = given);
    }
    match frame.context().json.get().encode_invalid {
        InvalidNumbers::Error => frame.push_bool(false),
        InvalidNumbers::Text => frame.push_bool(true),
        InvalidNumbers::Null => frame.push_bytes(b"null"),
    }
    Ok(1)
}

fn decode_invalid_numbers(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if let Some(on) = switch(frame, 1)? {
        change(frame, |settings| settings.decode_invalid = on);
    }
    frame.push_bool(frame.context().json.get().decode_invalid);
    Ok(1)
}

fn encode_sparse_array(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let convert = switch(frame, 1)?;
    let ratio = bounded(frame, 2, 0, i64::from(i32::MAX))?;
    let safe = bounded(frame, 3, 0, i64::from(i32::MAX))?;
    change(frame, |settings| {
        settings.sparse_convert = convert.unwrap_or(settings.sparse_convert);
        settings.sparse_ratio = ratio.map_or(settings.sparse_ratio, |ratio| ratio as f64);
        settings.sparse_safe = safe.map_or(settings.sparse_safe, |safe| safe as f64);
    });
    let settings = frame.context().json.get();
    frame.push_bool(settings.sparse_convert);
    frame.push_number(settings.sparse_ratio);
    frame.push_number(settings.sparse_safe);
    Ok(3)
}
