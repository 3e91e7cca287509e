//! The facts that only few commands have.

/// Special handling of a command. COMMAND does not show these facts, except [`Special::deprecated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    pub role: CommandRole,
    pub queued_work: QueuedWork,
    pub secrets: Secrets,
    pub get_keys: GetKeys,
    pub channels: Channels,
    pub databases: Databases,
    pub deprecated: Option<Deprecated>,
}

impl Special {
    /// The command has none of these facts.
    pub const NONE: Special = Special {
        role: CommandRole::Plain,
        queued_work: QueuedWork::Usual,
        secrets: Secrets::None,
        get_keys: GetKeys::BySpecs,
        channels: Channels::None,
        databases: Databases::Current,
        deprecated: None,
    };

    /// Only the work is special.
    pub const fn queued_work(queued_work: QueuedWork) -> Special {
        Special { queued_work, ..Special::NONE }
    }

    /// Only the role is special.
    pub const fn role(role: CommandRole) -> Special {
        Special { role, ..Special::NONE }
    }

    /// Only the arguments with secrets are special.
    pub const fn secrets(secrets: Secrets) -> Special {
        Special { secrets, ..Special::NONE }
    }

    /// Only the channels are special.
    pub const fn channels(channels: Channels) -> Special {
        Special { channels, ..Special::NONE }
    }

    /// Only the databases are special.
    pub const fn databases(databases: Databases) -> Special {
        Special { databases, ..Special::NONE }
    }

    /// Only the search for keys is special.
    pub const fn get_keys(get_keys: GetKeys) -> Special {
        Special { get_keys, ..Special::NONE }
    }
}

/// The commands that parts of the server other than the command's function must recognize: the dispatcher, the
/// loader of the append-only file, the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandRole {
    /// All other commands.
    Plain,
    /// Begins a transaction.
    Multi,
    /// Runs a transaction.
    Exec,
    Watch,
    /// Selects the database of the commands that follow.
    Select,
    /// Publishes to a channel.
    Publish,
    /// Publishes to a shard channel.
    ShardPublish,
    Script(ScriptCommand),
}

/// The word after the name of a command that runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptBy {
    Text,
    Hash,
    /// The name of a function.
    Function,
}

/// A command that runs a script or a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptCommand {
    pub by: ScriptBy,
    /// It must not write.
    pub only_reads: bool,
}

/// How EXEC estimates the work of a queued command before it runs. The estimate comes from the arguments and from the
/// values that the keys have before the transaction. See `docs/design/slow-lane.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuedWork {
    /// By group and flags. Strings and bitmaps: hardly any. Collections: all elements, or hardly any if the command is
    /// `FAST`. HyperLogLogs: all registers, or hardly any if it is `FAST`. Streams: all entries and pending entries.
    Usual,
    /// Hardly any, whatever the value: commands on a stream that look up one entry or group.
    Constant,
    /// All elements if a count follows the key, else one.
    Counted,
    /// The elements of a list between two indexes, and the way to them.
    ListRange,
    /// The way to the element of a list at an index.
    ListIndex,
    /// The elements of a sorted set between two ranks, unless words after them say that they are no ranks.
    RankRange,
    /// The COUNT of a scan.
    ScanCount,
    /// Encoding the value in the format of RDB files.
    Encode,
    /// Decoding the payload in argument 3 from the format of RDB files.
    Decode,
    /// Reading the bytes of a string.
    ReadBytes,
    /// Copying the bytes of a string before a change.
    ChangeBytes,
    /// Comparing two strings byte by byte.
    CompareStrings,
    /// The entries of a stream that the options MAXLEN and MINID remove.
    StreamTrim,
    /// Looking up one entry of a stream for each argument.
    StreamIds,
    /// The pending entries that XAUTOCLAIM examines.
    StreamAutoclaim,
}

/// Which arguments are secret. MONITOR, the slow log and the log show them as `(redacted)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    None,
    /// All after the name.
    AllArguments,
    /// Two after each option AUTH.
    AfterAuth,
    /// The values of sensitive directives, in pairs of directive and value.
    Directives,
}

/// How COMMAND GETKEYS finds keys and the access to them where key specifications can't say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetKeys {
    /// The key specifications say all.
    BySpecs,
    /// The argument of the key, or, if it is empty, those after KEYS.
    Migrate,
    /// Also the key after the last STORE.
    Sort,
    /// Also the key after the last STORE or STOREDIST.
    GeoStore,
    /// The access depends on the option GET.
    Set,
    /// The access depends on the operations.
    Bitfield,
}

/// Which arguments are channels that an access control list restricts. Unsubscribing is always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    None,
    /// The first argument, to publish to.
    Publish,
    /// All arguments, to subscribe to.
    Subscribe,
    /// All arguments are patterns to subscribe to.
    SubscribePatterns,
}

/// Which databases a command works on, in addition to the selected one if it has keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Databases {
    /// The selected one, if it has keys or a category of access to keys.
    Current,
    /// Those at these arguments.
    At(&'static [usize]),
    /// The one after the last word DB among the options of COPY.
    AfterDb,
    /// All of them.
    All,
}

/// Why COMMAND DOCS calls a command deprecated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deprecated {
    /// The version of the reference.
    pub since: &'static str,
    /// In the notation of COMMAND DOCS: "`REPLICAOF`".
    pub replaced_by: &'static str,
}
