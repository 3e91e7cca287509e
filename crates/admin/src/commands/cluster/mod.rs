//! CLUSTER and ASKING, on a server without a cluster.
//!
//! As in Valkey, only CLUSTER KEYSLOT works. Every other subcommand, including HELP, replies that
//! cluster support is disabled. `dispatch/absent.rs` lists those subcommands.

use crate::commands::shape::{ANYTIME, command, container, help, spec};
use weft_base::slot::key_slot;
use weft_command_spec::{Flags, Group, Spec};
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::absent::DISABLED;
use weft_executor::dispatch::core::ConnCx;
use weft_state::session::Asking;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[&ASKING, &CLUSTER];

const ASKING: ServerCommand = command(
    Spec {
        group: Group::Cluster,
        acl: &["@connection"],
        ..spec(
            "asking",
            1,
            Flags::FAST,
            "3.0.0",
            "Lets the next command use a slot that is being imported.",
            "",
        )
    },
    asking,
);

const KEYSLOT: ServerCommand = command(
    Spec {
        group: Group::Cluster,
        complexity: "O(N) where N is the number of bytes in the key",
        ..spec("keyslot", 3, Flags::STALE, "3.0.0", "Returns the hash slot of a key.", "key:string")
    },
    keyslot,
);

const HELP: ServerCommand = {
    let plain = help("5.0.0", |_| Err(DISABLED));
    let spec = Spec { group: Group::Cluster, flags: ANYTIME, ..plain.spec };
    ServerCommand { spec, ..plain }
};

const CLUSTER: ServerCommand = {
    let plain =
        container("cluster", "3.0.0", "Holds the commands on the cluster.", &[HELP, KEYSLOT]);
    let spec = Spec { group: Group::Cluster, flags: Flags::NONE, ..plain.spec };
    ServerCommand { spec, ..plain }
};

fn asking(cx: &mut ConnCx<'_>) -> CmdResult {
    if !cx.srv().nodes.cluster.is_enabled() {
        return Err(DISABLED);
    }
    cx.session.options.asking = Asking::Next;
    cx.reply.ok();
    Ok(())
}

fn keyslot(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.int(i64::from(key_slot(cx.args[2])));
    Ok(())
}
