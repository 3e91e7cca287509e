//! Longer texts that clients see.

/// The reply to a client from another machine while protected mode is on and no password is set.
pub const PROTECTED: &str = "-DENIED Running in protected mode because protected mode is enabled \
and no password is set for the default user. In this mode connections are only accepted from the \
loopback interface. To connect from other machines: set a password with 'requirepass' or CONFIG \
SET requirepass, or turn the mode off with CONFIG SET protected-mode no (and make sure that the \
server is not reachable from the internet), or start it with '--protected-mode no'.\r\n";
