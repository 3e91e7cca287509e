//! CLIENT HELP.

use weft_commands::CmdResult;
use weft_executor::dispatch::core::ConnCx;

const TEXT: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAPA <capability> [<capability> ...]",
    "    Say what this client understands: REDIRECT, to be sent to another server.",
    "CACHING (YES|NO)",
    "    Whether what the next command reads is tracked, with OPTIN or OPTOUT.",
    "GETNAME",
    "    The name of this connection.",
    "GETREDIR",
    "    The number of the client that is told of changes in this one's place; 0: none is, -1: no tracking.",
    "ID",
    "    The number of this connection.",
    "IMPORT-SOURCE (ON|OFF)",
    "    In import mode: this client brings data, so nothing expires under its hands.",
    "INFO",
    "    Describe this connection.",
    "KILL <ip:port>",
    "    Close the connection from <ip:port>.",
    "KILL <filter> <value> [<filter> <value> ...]",
    "    Close all connections that fit every filter. SKIPME is yes unless said otherwise.",
    "LIST [<filter> <value> ...]",
    "    Describe all connections that fit every filter. Filters, here and for KILL:",
    "    * ID <id> [<id> ...], ADDR <ip:port>, LADDR <ip:port>, IP <ip>",
    "    * TYPE (NORMAL|PRIMARY|REPLICA|PUBSUB), USER <name>, NAME <name>, DB <index>",
    "    * FLAGS <letters>, CAPA <letters>, LIB-NAME <name>, LIB-VER <version>",
    "    * MAXAGE <seconds>: connected for at least that long",
    "    * IDLE <seconds>: without a request for at least that long",
    "    * SKIPME (YES|NO): leave out this connection",
    "    NOT- before any but the last three means those that do not fit.",
    "NO-EVICT (ON|OFF)",
    "    Exempt this connection from the eviction of clients.",
    "NO-TOUCH (ON|OFF)",
    "    Whether this client's commands leave the access times of their keys alone.",
    "PAUSE <milliseconds> [WRITE|ALL]",
    "    Hold all commands back, or those that write.",
    "REPLY (ON|OFF|SKIP)",
    "    Answer from now on, never, or not the next command.",
    "SETINFO (LIB-NAME <name>|LIB-VER <version>)",
    "    Note what library the client uses.",
    "SETNAME <name>",
    "    Give this connection a name.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> ...] [OPTIN] [OPTOUT] [NOLOOP]",
    "    Be told when what this connection has read changes.",
    "TRACKINGINFO",
    "    How this connection is told.",
    "UNBLOCK <id> [TIMEOUT|ERROR]",
    "    End the wait of a client in a blocking command.",
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
