//! CLIENT HELP.

use weft_commands::CmdResult;
use weft_executor::dispatch::core::ConnCx;

const TEXT: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAPA <capability> [<capability> ...]",
    "    Declare what this client supports: REDIRECT, being sent to another server.",
    "CACHING (YES|NO)",
    "    Track, or don't, the keys that the next command reads. Needs OPTIN or OPTOUT.",
    "GETNAME",
    "    The name of this connection.",
    "GETREDIR",
    "    Return the id of the client that gets the invalidations; 0: this, -1: no tracking.",
    "ID",
    "    Return the id of this connection.",
    "IMPORT-SOURCE (ON|OFF)",
    "    In import mode: this client imports data, so no key expires while it does.",
    "INFO",
    "    Describe this connection.",
    "KILL <ip:port>",
    "    Close the connection from <ip:port>.",
    "KILL <filter> <value> [<filter> <value> ...]",
    "    Close all connections that match all filters. SKIPME is yes by default.",
    "LIST [<filter> <value> ...]",
    "    Describe all connections that match all filters. Filters of LIST and KILL:",
    "    * ID <id> [<id> ...], ADDR <ip:port>, LADDR <ip:port>, IP <ip>",
    "    * TYPE (NORMAL|PRIMARY|REPLICA|PUBSUB), USER <name>, NAME <name>, DB <index>",
    "    * FLAGS <letters>, CAPA <letters>, LIB-NAME <name>, LIB-VER <version>",
    "    * MAXAGE <seconds>: connected for at least that long",
    "    * IDLE <seconds>: without a request for at least that long",
    "    * SKIPME (YES|NO): leave out this connection",
    "    The prefix NOT- inverts any filter but the last three.",
    "NO-EVICT (ON|OFF)",
    "    Exempt this connection from the eviction of clients.",
    "NO-TOUCH (ON|OFF)",
    "    Switch whether this client's commands keep the access times of their keys.",
    "PAUSE <milliseconds> [WRITE|ALL]",
    "    Delay all commands, or only commands that write.",
    "REPLY (ON|OFF|SKIP)",
    "    Send replies, send none, or skip the next reply.",
    "SETINFO (LIB-NAME <name>|LIB-VER <version>)",
    "    Record the client's library.",
    "SETNAME <name>",
    "    Name this connection.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> ...] [OPTIN] [OPTOUT] [NOLOOP]",
    "    Send invalidations when keys change that this connection has read.",
    "TRACKINGINFO",
    "    Describe how this connection gets invalidations.",
    "UNBLOCK <id> [TIMEOUT|ERROR]",
    "    Unblock a client in a blocking command.",
    "UNPAUSE",
    "    End a pause.",
    "HELP",
    "    Print this help.",
];

pub fn help(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.array(TEXT.len());
    TEXT.iter().for_each(|line| cx.reply.simple(line));
    Ok(())
}
