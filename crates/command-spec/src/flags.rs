//! Flags of commands.

/// Properties of a command. COMMAND INFO names those in [`Flags::ALL`]; the others are for the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u64);

macro_rules! flags {
    ($($name:ident = $bit:literal $text:literal;)*) => {
        impl Flags {
            $(pub const $name: Flags = Flags(1 << $bit);)*
            /// Every flag with the name that COMMAND INFO gives it, in its order.
            pub const ALL: &'static [(Flags, &'static str)] = &[$((Flags::$name, $text)),*];
        }
    };
}

flags! {
    WRITE = 0 "write";
    READONLY = 1 "readonly";
    DENYOOM = 2 "denyoom";
    ADMIN = 4 "admin";
    PUBSUB = 5 "pubsub";
    NOSCRIPT = 6 "noscript";
    BLOCKING = 8 "blocking";
    LOADING = 9 "loading";
    STALE = 10 "stale";
    SKIP_MONITOR = 11 "skip_monitor";
    SKIP_COMMANDLOG = 12 "skip_commandlog";
    ASKING = 13 "asking";
    FAST = 14 "fast";
    NO_AUTH = 15 "no_auth";
    MAY_REPLICATE = 16 "may_replicate";
    NO_MANDATORY_KEYS = 18 "no_mandatory_keys";
    NO_ASYNC_LOADING = 22 "no_async_loading";
    NO_MULTI = 23 "no_multi";
    MOVABLE_KEYS = 24 "movablekeys";
    ALLOW_BUSY = 25 "allow_busy";
}

/// Facts for the server itself. COMMAND INFO does not show them.
impl Flags {
    /// Replicated although COMMAND INFO does not say so: PFCOUNT, PUBLISH and SPUBLISH.
    pub const REPLICATES_UNFLAGGED: Flags = Flags(1 << 32);
    /// Runs at once between MULTI and EXEC; other commands are queued.
    pub const RUNS_IN_MULTI: Flags = Flags(1 << 33);
    /// A RESP2 client with subscriptions may run it.
    pub const WHILE_SUBSCRIBED: Flags = Flags(1 << 34);
    /// Refused like a write while the server can't persist writes, so that health checks notice.
    pub const REPORTS_DISK_ERRORS: Flags = Flags(1 << 35);
    /// Waits for another server while it holds its shards, so it never runs on an I/O thread.
    pub const WAITS_FOR_SERVER: Flags = Flags(1 << 36);
    /// Reads from a consumer group. A client that it blocks must run it again when the key with the group is removed
    /// or replaced.
    pub const READS_GROUP: Flags = Flags(1 << 37);
    /// A subcommand of CLIENT: CLIENT CACHING stays in force for the command after it.
    pub const KEEPS_CACHING: Flags = Flags(1 << 38);
    /// For servers and developers, not for users: COMMAND DOCS has the flag `syscmd`.
    pub const SYSTEM: Flags = Flags(1 << 39);
}

impl Flags {
    pub const NONE: Flags = Flags(0);

    pub const fn or(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}
