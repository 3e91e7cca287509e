//! CLIENT: commands on this connection and on others.
//!
//! * [`line`](self::line): a client as a line of text (LIST, INFO)
//! * [`filter`]: the clients that LIST and KILL select
//! * [`tracking`](self::tracking): client-side caching
//! * [`kill`](self::kill), [`pause`](self::pause), [`names`], [`modes`], [`help`]: the rest

mod filter;
mod help;
mod kill;
mod line;
mod modes;
pub mod names;
mod pause;
mod tracking;

pub use line::logged_line;

use weft_command_spec::{Flags, Group, Spec, Special};
use weft_commands::{CmdResult, error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::Needs;
use weft_state::command_table::{NOTHING, NeedsFn};

/// The flags of every subcommand except HELP.
const BASE: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE);
const ALLOW_BUSY: Flags = BASE.or(Flags::ALLOW_BUSY);
const ADMIN: Flags = BASE.or(Flags::ADMIN);

const HISTORY_OF_FILTERS: (&str, &str) = (
    "9.0.0",
    "More filters (NAME, IDLE, FLAGS, LIB-NAME, LIB-VER, DB, CAPA, IP), and NOT- before all that \
     can be turned round.",
);

pub const CLIENT: ServerCommand = ServerCommand {
    spec: Spec {
        name: "client",
        arity: -2,
        flags: Flags::NONE,
        keys: &[],
        acl: &[],
        group: Group::Connection,
        since: "2.4.0",
        summary: "Holds the commands on connections.",
        complexity: "Depends on subcommand.",
        syntax: "",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    needs: NOTHING,
    run: |_| Err(error::SYNTAX),
    subcommands: &[
        sub("caching", 3, ALLOW_BUSY, "6.0.0", tracking::caching)
            .about("Sets whether the next command's keys are tracked.", "mode=(yes=YES|no=NO)")
            .build(),
        sub("capa", -3, ALLOW_BUSY, "8.0.0", modes::capa)
            .about("Declares what the client supports.", "capability...")
            .build(),
        sub("getname", 2, ALLOW_BUSY, "2.6.9", names::getname)
            .about("Returns the connection's name.", "")
            .build(),
        sub("getredir", 2, ALLOW_BUSY, "6.0.0", tracking::getredir)
            .about("Returns the client that gets this one's invalidations.", "")
            .build(),
        sub("help", 2, Flags::LOADING.or(Flags::STALE), "5.0.0", help::help)
            .about("Explains the subcommands.", "")
            .build(),
        sub("id", 2, ALLOW_BUSY, "5.0.0", names::id)
            .about("Returns the connection's id.", "")
            .build(),
        sub("import-source", 3, BASE, "8.1.0", modes::import_source)
            .about(
                "Marks this client as importing data while the server is in import mode.",
                "enabled=(on=ON|off=OFF)",
            )
            .build(),
        sub("info", 2, BASE, "6.2.0", line::info)
            .about("Describes this connection.", "")
            .tips(&["nondeterministic_output"])
            .build(),
        sub("kill", -3, ADMIN, "2.4.0", kill::kill)
            .needs(|_| Needs::Stop)
            .about("Closes connections.", KILL_SYNTAX)
            .complexity("O(N) where N is the number of connections")
            .history(&[
                ("2.8.12", "Takes filters."),
                ("2.8.12", "ID."),
                ("3.2.0", "TYPE master."),
                ("5.0.0", "TYPE replica, in addition to `slave`."),
                ("6.2.0", "LADDR."),
                ("8.0.0", "MAXAGE."),
                ("8.0.0", "TYPE primary, in addition to `master`."),
                ("8.1.0", "ID takes several numbers."),
                HISTORY_OF_FILTERS,
            ])
            .build(),
        sub("list", -2, ADMIN, "2.4.0", line::list)
            .about("Describes the open connections.", LIST_SYNTAX)
            .complexity("O(N) where N is the number of connections")
            .tips(&["nondeterministic_output"])
            .history(&[
                ("2.8.12", "The field `id`."),
                ("5.0.0", "TYPE."),
                ("6.0.0", "The field `user`."),
                ("6.2.0", "The fields `argv-mem`, `tot-mem`, `laddr` and `redir`; ID."),
                ("7.0.0", "The fields `resp`, `multi-mem`, `rbs` and `rbp`."),
                ("7.0.3", "The field `ssub`."),
                ("8.0.0", "TYPE primary, in addition to `master`."),
                ("8.1.0", "USER, ADDR, LADDR, SKIPME and MAXAGE."),
                HISTORY_OF_FILTERS,
            ])
            .build(),
        sub("no-evict", 3, ADMIN.or(Flags::ALLOW_BUSY), "7.0.0", modes::no_evict)
            .about(
                "Exempts the connection from the eviction of clients.",
                "enabled=(on=ON|off=OFF)",
            )
            .build(),
        sub("no-touch", 3, ALLOW_BUSY, "7.2.0", modes::no_touch)
            .about(
                "Sets whether this client's commands count as accesses to their keys.",
                "enabled=(on=ON|off=OFF)",
            )
            .build(),
        sub("pause", -3, ADMIN, "3.0.0", pause::pause)
            .needs(|_| Needs::Stop)
            .about(
                "Delays commands for a time.",
                "timeout:integer [mode=(write=WRITE|all=ALL)]@6.2.0",
            )
            .history(&[("6.2.0", "The mode, and WRITE.")])
            .build(),
        sub("reply", 3, ALLOW_BUSY.or(Flags::NO_MULTI), "3.2.0", modes::reply)
            .about(
                "Sets whether the server replies to commands.",
                "action=(on=ON|off=OFF|skip=SKIP)",
            )
            .build(),
        sub("setinfo", 4, ALLOW_BUSY, "7.2.0", names::setinfo)
            .about(
                "Records the name or version of the client's library.",
                "attr=(LIB-NAME libname|LIB-VER libver)",
            )
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .build(),
        sub("setname", 3, ALLOW_BUSY, "2.6.9", names::setname)
            .about("Names the connection.", "connection-name")
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .build(),
        sub("tracking", -3, BASE, "6.0.0", tracking::tracking)
            .about(
                "Sends invalidations when keys change that the client has read.",
                TRACKING_SYNTAX,
            )
            .complexity("O(1). Some options may introduce additional complexity.")
            .build(),
        sub("trackinginfo", 2, BASE, "6.2.0", tracking::trackinginfo)
            .about("Returns how the client gets invalidations.", "")
            .build(),
        sub("unblock", -3, ADMIN, "5.0.0", modes::unblock)
            .about(
                "Unblocks a client in a blocking command.",
                "client-id:integer [unblock-type=(timeout=TIMEOUT|error=ERROR)]",
            )
            .complexity("O(log N) where N is the number of connections")
            .build(),
        sub("unpause", 2, ADMIN, "6.2.0", pause::unpause)
            .about("Ends a pause.", "")
            .complexity("O(N) where N is the number of paused clients")
            .build(),
    ],
};

const KILL_SYNTAX: &str = "filter=(old-format~2.8.12<ip:port>|new-format=(\
    [ID client-id:integer...]@2.8.12|\
    [TYPE client-type=(normal=NORMAL|master=MASTER@3.2.0|primary=PRIMARY@8.0.0|slave=SLAVE|\
    replica=REPLICA@5.0.0|pubsub=PUBSUB)]@2.8.12|\
    [USER username]|[ADDR addr]<ip:port>|[LADDR laddr]@6.2.0<ip:port>|\
    [SKIPME skipme=(yes=YES|no=NO)]|[MAXAGE maxage:integer]@8.0.0|[NAME name]@9.0.0|\
    [IDLE idle:integer]@9.0.0|[FLAGS flags]@9.0.0|[LIB-NAME lib-name]@9.0.0|\
    [LIB-VER lib-ver]@9.0.0|[DB db:integer]@9.0.0|[CAPA capa]@9.0.0|[IP ip]@9.0.0|\
    [NOT-TYPE not-client-type=(normal=NORMAL|master=MASTER|primary=PRIMARY|slave=SLAVE|\
    replica=REPLICA|pubsub=PUBSUB)]@9.0.0|\
    [NOT-ID not-client-id:integer...]@9.0.0|[NOT-USER not-username]@9.0.0|\
    [NOT-ADDR not-addr]@9.0.0<ip:port>|[NOT-LADDR not-laddr]@9.0.0<ip:port>|\
    [NOT-NAME not-name]@9.0.0|[NOT-FLAGS not-flags]@9.0.0|[NOT-LIB-NAME not-lib-name]@9.0.0|\
    [NOT-LIB-VER not-lib-ver]@9.0.0|[NOT-DB not-db:integer]@9.0.0|[NOT-CAPA not-capa]@9.0.0|\
    [NOT-IP not-ip]@9.0.0)...)";

const LIST_SYNTAX: &str = "\
    [TYPE client-type=(normal=NORMAL|master=MASTER|replica=REPLICA|pubsub=PUBSUB)]@5.0.0 \
    [ID client-id:integer...]@6.2.0 [USER username]@8.1.0 [ADDR addr]@8.1.0<ip:port> \
    [LADDR laddr]@8.1.0<ip:port> [SKIPME skipme=(yes=YES|no=NO)]@8.1.0 \
    [MAXAGE maxage:integer]@8.1.0 [NAME name]@9.0.0 [IDLE idle:integer]@9.0.0 \
    [FLAGS flags]@9.0.0 [LIB-NAME lib-name]@9.0.0 [LIB-VER lib-ver]@9.0.0 [DB db:integer]@9.0.0 \
    [CAPA capa]@9.0.0 [IP ip]@9.0.0 \
    [NOT-TYPE not-client-type=(normal=NORMAL|master=MASTER|replica=REPLICA|pubsub=PUBSUB)]@9.0.0 \
    [NOT-ID not-client-id:integer...]@9.0.0 [NOT-USER not-username]@9.0.0 \
    [NOT-ADDR not-addr]@9.0.0<ip:port> [NOT-LADDR not-laddr]@9.0.0<ip:port> \
    [NOT-NAME not-name]@9.0.0 [NOT-FLAGS not-flags]@9.0.0 [NOT-LIB-NAME not-lib-name]@9.0.0 \
    [NOT-LIB-VER not-lib-ver]@9.0.0 [NOT-DB not-db:integer]@9.0.0 [NOT-CAPA not-capa]@9.0.0 \
    [NOT-IP not-ip]@9.0.0";

const TRACKING_SYNTAX: &str = "status=(on=ON|off=OFF) [REDIRECT client-id:integer] \
    [PREFIX prefix...+] [bcast=BCAST] [optin=OPTIN] [optout=OPTOUT] [noloop=NOLOOP]";

/// A subcommand under construction.
struct Sub(Spec, fn(&mut ConnCx<'_>) -> CmdResult, NeedsFn);

const fn sub(
    name: &'static str,
    arity: i16,
    flags: Flags,
    since: &'static str,
    run: fn(&mut ConnCx<'_>) -> CmdResult,
) -> Sub {
    Sub(
        crate::commands::connection::plain(
            name,
            arity,
            flags.or(Flags::KEEPS_CACHING),
            since,
            "",
            "",
            run,
        )
        .spec,
        run,
        NOTHING,
    )
}

impl Sub {
    const fn about(mut self, summary: &'static str, syntax: &'static str) -> Sub {
        self.0.summary = summary;
        self.0.syntax = syntax;
        self
    }

    const fn complexity(mut self, complexity: &'static str) -> Sub {
        self.0.complexity = complexity;
        self
    }

    const fn tips(mut self, tips: &'static [&'static str]) -> Sub {
        self.0.tips = tips;
        self
    }

    const fn history(mut self, history: &'static [(&'static str, &'static str)]) -> Sub {
        self.0.history = history;
        self
    }

    const fn needs(mut self, needs: NeedsFn) -> Sub {
        self.2 = needs;
        self
    }

    const fn build(self) -> ServerCommand {
        ServerCommand { spec: self.0, needs: self.2, run: self.1, subcommands: &[] }
    }
}
