//! Error replies of commands, in Valkey's words.

use std::borrow::Cow;

/// The text of an error reply, with its code ("ERR syntax error").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub Cow<'static, [u8]>);

/// The result of a command's function. The reply itself is in the context.
pub type CmdResult = Result<(), Error>;

impl Error {
    pub const fn new(text: &'static str) -> Self {
        Error(Cow::Borrowed(text.as_bytes()))
    }

    /// An error whose text is built at run time. It may contain bytes from the client.
    pub fn owned(text: impl Into<Vec<u8>>) -> Self {
        Error(Cow::Owned(text.into()))
    }
}

/// The command would have to wait for a script that has run for longer than `busy-reply-threshold`.
pub const BUSY_SCRIPT: Error = Error::new(
    "BUSY Weft is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
);
pub const SYNTAX: Error = Error::new("ERR syntax error");
pub const WRONG_TYPE: Error =
    Error::new("WRONGTYPE Operation against a key holding the wrong kind of value");
pub const NOT_AN_INTEGER: Error = Error::new("ERR value is not an integer or out of range");
pub const NOT_A_FLOAT: Error = Error::new("ERR value is not a valid float");
pub const NO_SUCH_KEY: Error = Error::new("ERR no such key");
pub const OUT_OF_RANGE: Error = Error::new("ERR index out of range");
pub const DB_OUT_OF_RANGE: Error = Error::new("ERR DB index is out of range");

/// The error for a wrong number of arguments of the command `name`.
pub fn wrong_arity(name: &str) -> Error {
    Error::owned(format!("ERR wrong number of arguments for '{name}' command"))
}
