//! Groups of commands.

/// The group of COMMAND DOCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    String,
    Generic,
    List,
    Set,
    SortedSet,
    Geo,
    Hash,
    /// Strings as bit arrays.
    Bitmap,
    HyperLogLog,
    Stream,
    PubSub,
    Transactions,
    Scripting,
    Connection,
    Server,
    Cluster,
}

impl Group {
    pub fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Generic => "generic",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Geo => "geo",
            Group::Hash => "hash",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::Stream => "stream",
            Group::PubSub => "pubsub",
            Group::Transactions => "transactions",
            Group::Scripting => "scripting",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Cluster => "cluster",
        }
    }
}
