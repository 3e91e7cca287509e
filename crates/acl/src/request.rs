//! Requests to check, and refusals.

/// A request to check.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The number of the command in the catalog. For a subcommand its own, not the container's.
    pub command: usize,
    /// All arguments, from the name of the command or container on.
    pub args: &'a [&'a [u8]],
    /// The selected database.
    pub database: usize,
}

/// The reason of a refusal. If several selectors refuse a request, the greatest reason is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Database,
    Command,
    Key,
    Channel,
}

/// A refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denied {
    pub reason: Reason,
    /// The argument that is refused: a key, a channel or a database. 0 for a command.
    pub at: usize,
}

impl Denied {
    /// The reply of ACL DRYRUN, which names everything. `name`: the user's.
    pub fn text(&self, name: &[u8], command: &str, args: &[&[u8]]) -> Vec<u8> {
        let object = args.get(self.at).copied().unwrap_or_default();
        let parts: [&[u8]; 5] = match self.reason {
            Reason::Command => [
                b"User ",
                name,
                b" has no permissions to run the '",
                command.as_bytes(),
                b"' command",
            ],
            Reason::Key => {
                [b"User ", name, b" has no permissions to access the '", object, b"' key"]
            }
            Reason::Channel => {
                [b"User ", name, b" has no permissions to access the '", object, b"' channel"]
            }
            Reason::Database => {
                [b"User ", name, b" has no permissions to access database ", object, b""]
            }
        };
        parts.concat()
    }
}
