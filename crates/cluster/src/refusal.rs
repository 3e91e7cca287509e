//! Errors of CLUSTER commands, in Valkey's words.

/// Why a command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The error reply, with its code.
    Error(Vec<u8>),
    /// `ERR syntax error`
    Syntax,
    /// The subcommand doesn't take this number of arguments.
    Form,
}

/// The refusal with this text after `ERR `.
pub fn refusal(text: impl AsRef<[u8]>) -> Refusal {
    Refusal::Error([b"ERR ", text.as_ref()].concat())
}

/// The refusal that ends with an argument of the client, up to its first NUL byte: Valkey prints a C
/// string.
pub fn refusal_with(text: &str, argument: &[u8]) -> Refusal {
    refusal([text.as_bytes(), c_string(argument)].concat())
}

pub(crate) fn c_string(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
impl Refusal {
    /// The text, for tests.
    pub fn text(&self) -> String {
        match self {
            Refusal::Error(text) => String::from_utf8_lossy(text).into_owned(),
            Refusal::Syntax => "ERR syntax error".into(),
            Refusal::Form => "form".into(),
        }
    }
}
