//! The directives that decide how a node answers.

/// Which endpoint clients get: `cluster-preferred-endpoint-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preferred {
    #[default]
    Ip,
    HostName,
    Unknown,
}

/// The directives of the cluster that routes and views depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `cluster-require-full-coverage`
    pub full_coverage: bool,
    /// `cluster-allow-reads-when-down`
    pub reads_when_down: bool,
    /// `cluster-allow-pubsubshard-when-down`
    pub shard_channels_when_down: bool,
    pub preferred: Preferred,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            full_coverage: true,
            reads_when_down: false,
            shard_channels_when_down: true,
            preferred: Preferred::Ip,
        }
    }
}

/// Facts of a client's connection that decide the endpoints it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Via {
    pub tls: bool,
    pub family: Family,
}

/// The address family of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    #[default]
    V4,
    V6,
    /// A Unix socket, or no connection.
    Other,
}
