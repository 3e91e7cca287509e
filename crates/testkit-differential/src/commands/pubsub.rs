//! Channels, for a client that is not subscribed: the rest is in [`crate::sessions`].

use super::rule::{Rule, rule};
use crate::compare::Compare::{Exact, Shape};

pub const RULES: &[Rule] = &[
    rule(20, "PUBLISH <key> <value>", Exact),
    rule(10, "SPUBLISH <key> <value>", Exact),
    rule(3, "PUBSUB CHANNELS [<pattern>]", Exact),
    rule(1, "PUBSUB CHANNELS <pattern> <pattern>", Exact),
    rule(2, "PUBSUB HELP", Shape),
    rule(3, "PUBSUB NUMPAT", Exact),
    rule(3, "PUBSUB NUMSUB <key>...", Exact),
    rule(2, "PUBSUB SHARDCHANNELS [<pattern>]", Exact),
    rule(2, "PUBSUB SHARDNUMSUB <key>...", Exact),
    rule(1, "PUBSUB <word>", Exact),
    rule(3, "MULTI ; PUBLISH <key> <value> ; SPUBLISH <key> <value> ; EXEC", Exact),
];
