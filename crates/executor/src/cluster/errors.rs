//! The errors of a cluster. Their words are those of Valkey.

use weft_commands::Error;

/// The keys of a request are in different slots.
pub const CROSS_SLOT: Error = Error::new("CROSSSLOT Keys in request don't hash to the same slot");
/// Some keys of a request have moved.
pub const TRY_AGAIN: Error = Error::new("TRYAGAIN Multiple keys request during rehashing of slot");
pub const DOWN: Error = Error::new("CLUSTERDOWN The cluster is down");
pub const DOWN_READS_ONLY: Error =
    Error::new("CLUSTERDOWN The cluster is down and only accepts read commands");
/// No node owns the slot.
pub const UNBOUND: Error = Error::new("CLUSTERDOWN Hash slot not served");
/// The connection that copies keys may not write any more.
pub const IMPORT_ENDED: Error = Error::new("ERR The move of the slot has ended");
/// A script that must not run in cluster mode.
pub const NO_CLUSTER: Error =
    Error::new("ERR Can not run script on cluster, 'no-cluster' flag is set.");

/// Whether an error shows the client where, or when, the cluster serves the request. EXEC returns it as it is.
pub fn is_redirect(e: &Error) -> bool {
    const CODES: [&[u8]; 5] = [b"MOVED", b"ASK", b"TRYAGAIN", b"CROSSSLOT", b"CLUSTERDOWN"];
    let code = e.0.split(|byte| *byte == b' ').next();
    code.is_some_and(|code| CODES.contains(&code))
}
