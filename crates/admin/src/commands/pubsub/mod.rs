//! Publish and subscribe: the commands. [`weft_executor::pubsub`] implements them.

mod inspect;
mod publish;
mod subscribe;

pub use subscribe::forget_all;

use crate::commands::shape::command;
use weft_command_spec::{Channels, CommandRole, Flags, Group, KeySpec, Spec, Special};
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[
    &subscribe::PSUBSCRIBE,
    &publish::PUBLISH,
    &inspect::PUBSUB,
    &subscribe::PUNSUBSCRIBE,
    &publish::SPUBLISH,
    &subscribe::SSUBSCRIBE,
    &subscribe::SUBSCRIBE,
    &subscribe::SUNSUBSCRIBE,
    &subscribe::UNSUBSCRIBE,
];

const FLAGS: Flags = Flags::PUBSUB.or(Flags::LOADING).or(Flags::STALE);

/// A command of this group under construction.
struct Plan(Spec, fn(&mut ConnCx<'_>) -> CmdResult);

const fn plan(
    name: &'static str,
    arity: i16,
    flags: Flags,
    since: &'static str,
    run: fn(&mut ConnCx<'_>) -> CmdResult,
) -> Plan {
    let spec = crate::commands::shape::spec(name, arity, flags, since, "", "");
    Plan(Spec { group: Group::PubSub, ..spec }, run)
}

impl Plan {
    const fn about(mut self, summary: &'static str, syntax: &'static str) -> Plan {
        self.0.summary = summary;
        self.0.syntax = syntax;
        self
    }

    const fn complexity(mut self, complexity: &'static str) -> Plan {
        self.0.complexity = complexity;
        self
    }

    /// In a cluster, shard channels belong to nodes as keys do.
    const fn keys(mut self, keys: &'static [KeySpec]) -> Plan {
        self.0.keys = keys;
        self
    }

    const fn publishes(mut self, role: CommandRole) -> Plan {
        self.0.special = Special { role, ..Special::channels(Channels::Publish) };
        self
    }

    const fn subscribes(mut self, channels: Channels) -> Plan {
        self.0.special = Special::channels(channels);
        self
    }

    const fn build(self) -> ServerCommand {
        command(self.0, self.1)
    }
}
