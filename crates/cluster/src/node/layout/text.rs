//! Lines of a value: a word, a space, and the rest.

use crate::id::NodeId;
use crate::node::action::Member;
use crate::slots::{Slot, SlotRange};
use std::fmt::Write;
use std::str::FromStr;
use weft_base::limits::SLOTS;

/// The version of the layout, the first line of every value.
pub(super) const VERSION: &str = "weft 1";

/// A value that this version can't read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

pub(super) struct Writer(String);

impl Writer {
    pub fn new() -> Writer {
        Writer(format!("{VERSION}\n"))
    }

    pub fn line(mut self, word: &str, rest: impl std::fmt::Display) -> Writer {
        writeln!(self.0, "{word} {rest}").expect("a string grows");
        self
    }

    /// Nothing if `rest` has no value.
    pub fn option(self, word: &str, rest: Option<impl std::fmt::Display>) -> Writer {
        match rest {
            Some(rest) => self.line(word, rest),
            None => self,
        }
    }

    pub fn member(self, word: &str, member: Member) -> Writer {
        self.line(word, format_args!("{} {}", member.node, member.incarnation))
    }

    pub fn finish(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

/// The lines of a value after its version.
pub(super) fn lines(value: &[u8]) -> Result<impl Iterator<Item = (&str, &str)>, Invalid> {
    let text = std::str::from_utf8(value).map_err(|_| Invalid("not UTF-8".to_string()))?;
    let mut lines = text.lines();
    match lines.next() {
        Some(VERSION) => {}
        other => return Err(Invalid(format!("version {:?}", other.unwrap_or_default()))),
    }
    Ok(lines.map(|line| line.split_once(' ').unwrap_or((line, ""))))
}

pub(super) fn unknown(word: &str) -> Invalid {
    Invalid(format!("unknown line '{word}'"))
}

pub(super) fn required<T>(value: Option<T>, word: &str) -> Result<T, Invalid> {
    value.ok_or_else(|| Invalid(format!("no line '{word}'")))
}

/// Sets a field once.
pub(super) fn set<T>(field: &mut Option<T>, word: &str, value: T) -> Result<(), Invalid> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Invalid(format!("two lines '{word}'"))),
    }
}

pub(super) fn number<T: FromStr>(text: &str) -> Result<T, Invalid> {
    text.parse().map_err(|_| Invalid(format!("'{text}' is no number")))
}

pub(super) fn id(text: &str) -> Result<NodeId, Invalid> {
    NodeId::parse(text.as_bytes()).ok_or_else(|| Invalid(format!("'{text}' is no id")))
}

pub(super) fn member(text: &str) -> Result<Member, Invalid> {
    let (node, incarnation) = text.split_once(' ').unwrap_or((text, ""));
    Ok(Member { node: id(node)?, incarnation: number(incarnation)? })
}

/// `5` or `0-100`.
pub(super) fn range(text: &str) -> Result<SlotRange, Invalid> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (Slot, Slot) = (number(first)?, number(last)?);
    match first <= last && usize::from(last) < SLOTS {
        true => Ok(SlotRange { first, last }),
        false => Err(Invalid(format!("'{text}' is no range of slots"))),
    }
}

/// Ranges with a space between them.
pub(super) fn ranges(text: &str) -> Result<Vec<SlotRange>, Invalid> {
    text.split(' ').filter(|word| !word.is_empty()).map(range).collect()
}
