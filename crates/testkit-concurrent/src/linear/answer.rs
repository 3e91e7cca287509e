//! The result of an operation, independent of the protocol's version.

use super::digest::digest;
use weft_testkit::Value;

/// Longer lists are stored as their length and digest.
const LONG: usize = 32;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    Nil,
    Int(i64),
    Text(String),
    /// A whole error line.
    Error(String),
    List(Vec<Answer>),
    /// A long list.
    Long {
        len: usize,
        digest: u128,
    },
}

impl Answer {
    /// Converts a reply.
    pub fn of(value: &Value) -> Answer {
        if let Some(error) = value.error() {
            return Answer::Error(error);
        }
        match value {
            Value::Null | Value::NullBulk | Value::NullArray => Answer::Nil,
            Value::Integer(n) => Answer::Int(*n),
            Value::Array(items) | Value::Push(items) | Value::Set(items) => {
                Answer::list(items.iter().map(Answer::of).collect())
            }
            // RESP2 sends a list of pairs here.
            Value::Map(pairs) => Answer::list(
                pairs
                    .iter()
                    .map(|(k, v)| Answer::List(vec![Answer::of(k), Answer::of(v)]))
                    .collect(),
            ),
            other => Answer::Text(other.text()),
        }
    }

    /// A list, stored as length and digest if it is long.
    pub fn list(items: Vec<Answer>) -> Answer {
        match items.len() {
            0..=LONG => Answer::List(items),
            len => Answer::Long { len, digest: digest(&items) },
        }
    }

    /// A list of texts.
    pub fn texts(texts: impl IntoIterator<Item = String>) -> Answer {
        Answer::list(texts.into_iter().map(Answer::Text).collect())
    }

    pub fn ok() -> Answer {
        Answer::Text("OK".into())
    }

    /// A text, or nothing.
    pub fn text(text: Option<String>) -> Answer {
        text.map_or(Answer::Nil, Answer::Text)
    }

    /// Calls `look` with each text in it.
    pub fn each_text(&self, look: &mut impl FnMut(&str)) {
        match self {
            Answer::Text(text) => look(text),
            Answer::List(items) => items.iter().for_each(|item| item.each_text(look)),
            Answer::Nil | Answer::Int(_) | Answer::Error(_) | Answer::Long { .. } => {}
        }
    }

    pub fn is_nil(&self) -> bool {
        *self == Answer::Nil
    }
}
