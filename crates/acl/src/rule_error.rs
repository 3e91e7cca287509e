//! Why rules are refused.

/// The reason, with the reference's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    UnknownCommand,
    Syntax,
    KeysAfterAll,
    ChannelsAfterAll,
    NoSuchPassword,
    BadHash,
    FirstArgOfSubcommand,
    Database,
}

impl Why {
    pub fn text(self) -> &'static str {
        match self {
            Why::UnknownCommand => "Unknown command or category name in ACL",
            Why::Syntax => "Syntax error",
            Why::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Why::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have \
                 any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Why::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Why::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Why::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Why::Database => "The provided database ID is out of range",
        }
    }
}

/// A list of rules that is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// A parenthesis that is not closed, with the rule that opens it.
    Unmatched(Vec<u8>),
    /// A rule, and why it is refused.
    Rule(Vec<u8>, &'static str),
}

impl RuleError {
    /// The reason, without the rule.
    pub fn reason(&self) -> &'static str {
        match self {
            RuleError::Unmatched(_) => "Wrong format",
            RuleError::Rule(_, why) => why,
        }
    }

    /// The text of ACL SETUSER, without `ERR`. It contains the rule, which may be a password.
    pub fn text(&self) -> Vec<u8> {
        match self {
            RuleError::Unmatched(rule) => {
                [b"Unmatched parenthesis in acl selector starting at '", &rule[..], b"'."].concat()
            }
            RuleError::Rule(rule, why) => {
                [b"Error in ACL SETUSER modifier '", &rule[..], b"': ", why.as_bytes()].concat()
            }
        }
    }
}
