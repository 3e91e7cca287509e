//! Kinds of directives: which words are a value, and how a value is written.
//!
//! A kind is data in the table, with its bounds and words; this file turns
//! words into a [`Value`] and back. There are two ways back: the text that
//! `CONFIG GET` answers (bytes as a plain number, classes by their old names,
//! as clients expect) and the arguments for a line of a file (units, quotes).
//! Whatever is written for a file parses to the same value.
//!
//! Reasons for refusal are those of the reference, word for word: tools and
//! test suites look at them.

use std::borrow::Cow;

use crate::numbers::{format_memory, integer, memory, octal};
use crate::special;
use crate::tokens::quote_if_needed;
use crate::value::{KeyspaceEvents, Value};

/// Why a value was refused.
pub type Reason = Cow<'static, str>;

/// An additional check of a string.
pub type Check = fn(&[u8]) -> Result<(), &'static str>;

/// Which values a directive takes.
#[derive(Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// An integer from `min` to `max`.
    Int { min: i64, max: i64 },
    /// An integer that is refused outside `min..=max` and then moved into
    /// `low..=high`.
    Clamped { min: i64, max: i64, low: i64, high: i64 },
    /// `auto` or an integer from `min` to `max`.
    IntOrAuto { min: i64, max: i64 },
    /// An amount of memory from `min` to `max` bytes.
    Memory { min: u64, max: u64 },
    /// An amount of memory, or -1.
    MemoryOrMinusOne,
    /// An amount of memory, or a percentage up to 100.
    MemoryOrPercent,
    /// An octal number from 0 to `max`.
    Octal { max: i64 },
    /// A string that passes the check.
    Text { check: Check },
    /// An existing directory. Kept as an absolute path.
    Directory,
    /// One of `words`. `same` lists words that mean what another one means,
    /// each as (word, the one it is answered as).
    Word { words: &'static [&'static str], same: &'static [(&'static str, &'static str)] },
    /// Any of `words` together; the first alone means none of the others.
    Words { words: &'static [&'static str], check: fn(u32) -> Result<(), &'static str> },
    /// Up to `max` addresses.
    Addresses { max: usize },
    /// Pairs of seconds and changes.
    SavePoints,
    /// Groups of class, hard limit, soft limit and seconds.
    OutputBufferLimits,
    /// Three adjustments from -2000 to 2000.
    OomScores,
    /// Letters of event classes.
    KeyspaceEvents,
    /// Percentiles from 0 to 100.
    Percentiles,
    /// Host and port, or `no one`.
    Primary,
    /// Not a value but an instruction of a file, with so many arguments.
    Statement { min: usize, max: usize },
}

/// An integer from `min` to `max`.
pub(crate) const fn int(min: i64, max: i64) -> Kind {
    Kind::Int { min, max }
}

/// An amount of memory from `min` to `max` bytes.
pub(crate) const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Memory { min, max }
}

/// Any string.
pub(crate) const fn text() -> Kind {
    Kind::Text { check: |_| Ok(()) }
}

/// A string that passes `check`.
pub(crate) const fn checked(check: Check) -> Kind {
    Kind::Text { check }
}

/// One of `words`.
pub(crate) const fn one_of(words: &'static [&'static str]) -> Kind {
    Kind::Word { words, same: &[] }
}

impl Kind {
    /// The value that `arguments` mean. `before` is the present one: limits of
    /// classes that are not named, and lines of a statement, are kept from it.
    ///
    /// # Errors
    /// Why the arguments are not a value of this kind.
    pub fn parse(&self, arguments: &[Vec<u8>], before: &Value) -> Result<Value, Reason> {
        match self {
            Kind::Words { words, check } => parse_words(words, *check, arguments),
            Kind::Addresses { max } => parse_addresses(*max, arguments),
            Kind::SavePoints => special::parse_save_points(arguments).map(Value::SavePoints),
            Kind::OutputBufferLimits => special::parse_limits(arguments, before),
            Kind::OomScores => special::parse_oom_scores(arguments),
            Kind::Percentiles => special::parse_percentiles(arguments).map(Value::Percentiles),
            Kind::Primary => special::parse_primary(arguments).map(Value::Primary),
            Kind::Statement { min, max } => add_statement(*min, *max, arguments, before),
            _ => match arguments {
                [argument] => self.parse_one(argument),
                _ => Err("wrong number of arguments".into()),
            },
        }
    }

    /// The value that one argument means, for kinds that take exactly one.
    fn parse_one(&self, argument: &[u8]) -> Result<Value, Reason> {
        match self {
            Kind::Bool => parse_bool(argument).map(Value::Bool),
            Kind::Int { min, max } => parse_int(argument, *min, *max).map(Value::Int),
            Kind::Clamped { min, max, low, high } => {
                let number = parse_int(argument, *min, *max)?;
                Ok(Value::Int(number.clamp(*low, *high)))
            }
            Kind::IntOrAuto { .. } if argument.eq_ignore_ascii_case(b"auto") => Ok(Value::Auto),
            Kind::IntOrAuto { min, max } => parse_int(argument, *min, *max).map(Value::Int),
            Kind::Memory { min, max } => parse_memory(argument, *min, *max),
            Kind::MemoryOrMinusOne => parse_memory_or_minus_one(argument),
            Kind::MemoryOrPercent => parse_memory_or_percent(argument),
            Kind::Octal { max } => parse_octal(argument, *max),
            Kind::Text { check } => {
                check(argument)?;
                Ok(Value::Text(argument.to_vec()))
            }
            Kind::Directory if argument.is_empty() => Err("dir can't be empty".into()),
            Kind::Directory => Ok(Value::Text(argument.to_vec())),
            Kind::Word { words, same } => parse_word(words, same, argument),
            Kind::KeyspaceEvents => match KeyspaceEvents::parse(argument) {
                Some(events) => Ok(Value::KeyspaceEvents(events)),
                None => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
            },
            Kind::Words { .. }
            | Kind::Addresses { .. }
            | Kind::SavePoints
            | Kind::OutputBufferLimits
            | Kind::OomScores
            | Kind::Percentiles
            | Kind::Primary
            | Kind::Statement { .. } => Err("wrong number of arguments".into()),
        }
    }

    /// The text that `CONFIG GET` answers for `value`.
    pub fn answer(&self, value: &Value) -> Vec<u8> {
        match value {
            Value::Bool(true) => b"yes".to_vec(),
            Value::Bool(false) => b"no".to_vec(),
            Value::Int(number) if matches!(self, Kind::Octal { .. }) => {
                format!("{number:o}").into_bytes()
            }
            Value::Int(number) => number.to_string().into_bytes(),
            Value::Auto => b"auto".to_vec(),
            Value::Bytes(bytes) => bytes.to_string().into_bytes(),
            Value::Percent(share) => format!("{share}%").into_bytes(),
            Value::Text(text) => text.clone(),
            Value::Word(place) => self.word(*place).as_bytes().to_vec(),
            Value::Words(set) => self.words_of(*set).into_bytes(),
            Value::List(items) => items.join(&b' '),
            Value::SavePoints(points) => special::format_save_points(points).into_bytes(),
            Value::OutputBufferLimits(limits) => special::answer_limits(limits).into_bytes(),
            Value::OomScores(scores) => special::format_oom_scores(scores).into_bytes(),
            Value::KeyspaceEvents(events) => events.answer().into_bytes(),
            Value::Percentiles(list) => special::format_percentiles(list).into_bytes(),
            Value::Primary(primary) => special::format_primary(primary.as_ref()),
            Value::Statements(_) => Vec::new(),
        }
    }

    /// The arguments of the lines of a file that set `value`: one line, but for
    /// output limits one for each class, and for statements one for each.
    pub fn lines(&self, value: &Value) -> Vec<Vec<u8>> {
        match value {
            Value::Bytes(bytes) => vec![format_memory(*bytes).into_bytes()],
            Value::Text(text) => vec![quote_if_needed(text)],
            Value::KeyspaceEvents(events) => vec![quote_if_needed(events.letters().as_bytes())],
            Value::OutputBufferLimits(limits) => special::lines_of_limits(limits),
            Value::List(items) if items.is_empty() => vec![b"\"\"".to_vec()],
            // A single argument is split into words once more.
            Value::List(items) if items.len() == 1 => {
                vec![quote_if_needed(&quote_if_needed(&items[0]))]
            }
            Value::List(items) => vec![quoted_words(items)],
            Value::Primary(Some(primary)) => {
                let mut line = quote_if_needed(&primary.host);
                line.extend(format!(" {}", primary.port).bytes());
                vec![line]
            }
            Value::Primary(None) => vec![b"no one".to_vec()],
            Value::Statements(statements) => statements.iter().map(|s| quoted_words(s)).collect(),
            Value::SavePoints(_) | Value::Percentiles(_) => {
                let words = self.answer(value);
                vec![if words.is_empty() { b"\"\"".to_vec() } else { words }]
            }
            Value::Bool(_)
            | Value::Int(_)
            | Value::Auto
            | Value::Percent(_)
            | Value::Word(_)
            | Value::Words(_)
            | Value::OomScores(_) => vec![self.answer(value)],
        }
    }

    /// The word at `place` of this kind's list; empty for other kinds.
    pub(crate) fn word(&self, place: u8) -> &'static str {
        match self {
            Kind::Word { words, .. } | Kind::Words { words, .. } => {
                words.get(usize::from(place)).copied().unwrap_or_default()
            }
            _ => "",
        }
    }

    /// The words of `set`, or the first word of the list for the empty set.
    fn words_of(&self, set: u32) -> String {
        match self {
            Kind::Words { words, .. } if set == 0 => words[0].to_string(),
            Kind::Words { words, .. } => {
                let chosen = words.iter().enumerate().filter(|(bit, _)| set & 1 << bit != 0);
                chosen.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
            }
            _ => String::new(),
        }
    }
}

fn quoted_words(words: &[Vec<u8>]) -> Vec<u8> {
    let quoted: Vec<_> = words.iter().map(|word| quote_if_needed(word)).collect();
    quoted.join(&b' ')
}

fn parse_bool(argument: &[u8]) -> Result<bool, Reason> {
    if argument.eq_ignore_ascii_case(b"yes") {
        Ok(true)
    } else if argument.eq_ignore_ascii_case(b"no") {
        Ok(false)
    } else {
        Err("argument must be 'yes' or 'no'".into())
    }
}

fn out_of_range(min: impl std::fmt::Display, max: impl std::fmt::Display) -> Reason {
    format!("argument must be between {min} and {max} inclusive").into()
}

fn parse_int(argument: &[u8], min: i64, max: i64) -> Result<i64, Reason> {
    let number = integer(argument).ok_or("argument couldn't be parsed into an integer")?;
    if (min..=max).contains(&number) { Ok(number) } else { Err(out_of_range(min, max)) }
}

fn parse_memory(argument: &[u8], min: u64, max: u64) -> Result<Value, Reason> {
    let bytes = memory(argument).ok_or("argument must be a memory value")?;
    if (min..=max).contains(&bytes) { Ok(Value::Bytes(bytes)) } else { Err(out_of_range(min, max)) }
}

fn parse_memory_or_minus_one(argument: &[u8]) -> Result<Value, Reason> {
    match integer(argument) {
        Some(-1) => Ok(Value::Int(-1)),
        Some(number) if number < 0 => Err(out_of_range(-1, i64::MAX)),
        _ => match memory(argument) {
            Some(bytes) if bytes <= i64::MAX as u64 => Ok(Value::Bytes(bytes)),
            Some(_) => Err(out_of_range(-1, i64::MAX)),
            None => Err("argument must be a memory value".into()),
        },
    }
}

fn parse_memory_or_percent(argument: &[u8]) -> Result<Value, Reason> {
    let refused = "argument must be a memory or percent value";
    if let Some(digits) = argument.strip_suffix(b"%") {
        return match integer(digits) {
            Some(0) => Ok(Value::Bytes(0)),
            Some(share @ 1..=100) => Ok(Value::Percent(share as u8)),
            Some(share) if share > 100 => {
                Err("percentage argument must be less or equal to 100".into())
            }
            _ => Err(refused.into()),
        };
    }
    match memory(argument) {
        Some(bytes) if bytes <= i64::MAX as u64 => Ok(Value::Bytes(bytes)),
        Some(_) => Err(out_of_range(-100, i64::MAX)),
        None => Err(refused.into()),
    }
}

fn parse_octal(argument: &[u8], max: i64) -> Result<Value, Reason> {
    match octal(argument) {
        Some(number) if (0..=max).contains(&number) => Ok(Value::Int(number)),
        Some(_) => Err(format!("argument must be between 0 and {max:o} inclusive").into()),
        None => Err("argument couldn't be parsed as an octal number".into()),
    }
}

/// The place of `argument` among `words`, in any case.
fn place_of(words: &[&str], argument: &[u8]) -> Result<u8, Reason> {
    let place = words.iter().position(|word| argument.eq_ignore_ascii_case(word.as_bytes()));
    match place {
        Some(place) => Ok(place as u8),
        None => {
            let list = words.join(", ");
            Err(format!("argument(s) must be one of the following: {list}").into())
        }
    }
}

fn parse_word(words: &[&str], same: &[(&str, &str)], argument: &[u8]) -> Result<Value, Reason> {
    let place = place_of(words, argument)?;
    let spelled = words[usize::from(place)];
    match same.iter().find(|(word, _)| *word == spelled) {
        Some((_, answered)) => place_of(words, answered.as_bytes()).map(Value::Word),
        None => Ok(Value::Word(place)),
    }
}

fn parse_words(
    words: &[&str],
    check: fn(u32) -> Result<(), &'static str>,
    arguments: &[Vec<u8>],
) -> Result<Value, Reason> {
    if arguments.is_empty() {
        place_of(words, b"")?;
    }
    let mut set = 0;
    for argument in arguments {
        let place = place_of(words, argument)?;
        if place > 0 {
            set |= 1 << place;
        }
    }
    check(set)?;
    Ok(Value::Words(set))
}

fn parse_addresses(max: usize, arguments: &[Vec<u8>]) -> Result<Value, Reason> {
    if arguments.len() > max {
        return Err("Too many bind addresses specified.".into());
    }
    match arguments {
        [only] if only.is_empty() => Ok(Value::List(Vec::new())),
        _ => Ok(Value::List(arguments.to_vec())),
    }
}

fn add_statement(
    min: usize,
    max: usize,
    arguments: &[Vec<u8>],
    before: &Value,
) -> Result<Value, Reason> {
    if !(min..=max).contains(&arguments.len()) {
        return Err("Bad directive or wrong number of arguments".into());
    }
    let mut statements = match before {
        Value::Statements(statements) => statements.clone(),
        _ => Vec::new(),
    };
    statements.push(arguments.to_vec());
    Ok(Value::Statements(statements))
}
