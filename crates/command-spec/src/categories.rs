//! The ACL categories of a command.
//!
//! Most follow from the command's flags and group. The rest are in its [`Spec`].

use crate::flags::Flags;
use crate::group::Group;
use crate::spec::Spec;

/// All categories, in the order of the reference's reply.
pub const CATEGORIES: [&str; 21] = [
    "@keyspace",
    "@read",
    "@write",
    "@set",
    "@sortedset",
    "@list",
    "@hash",
    "@string",
    "@bitmap",
    "@hyperloglog",
    "@geo",
    "@stream",
    "@pubsub",
    "@admin",
    "@fast",
    "@slow",
    "@blocking",
    "@dangerous",
    "@connection",
    "@transaction",
    "@scripting",
];

impl Spec {
    /// The ACL categories, with `@`, each once, in the order of the reference. `is_container`: the command has
    /// subcommands.
    pub fn categories(&self, is_container: bool) -> Vec<&'static str> {
        let flags = self.flags;
        let mut found: Vec<&'static str> = self.acl.to_vec();
        let mut add = |category: &'static str, when: bool| {
            if when && !found.contains(&category) {
                found.push(category);
            }
        };
        add("@write", flags.has(Flags::WRITE));
        // EVAL_RO reads as well, but has the category of scripts only.
        add("@read", flags.has(Flags::READONLY) && self.group != Group::Scripting);
        add("@admin", flags.has(Flags::ADMIN));
        add("@dangerous", flags.has(Flags::ADMIN));
        add("@pubsub", flags.has(Flags::PUBSUB));
        add("@blocking", flags.has(Flags::BLOCKING));
        add("@fast", flags.has(Flags::FAST));
        add("@slow", !flags.has(Flags::FAST));
        // A container does nothing itself, so its group does not count. SORT belongs to the types that
        // it names. WAIT and WAITAOF, of the category `@connection`, touch no keys.
        let of_others = ["@list", "@connection"].iter().any(|other| self.acl.contains(other));
        if !is_container
            && !of_others
            && let Some(category) = of_group(self.group)
        {
            add(category, true);
        }
        found.sort_by_key(|category| CATEGORIES.iter().position(|known| known == category));
        found
    }
}

fn of_group(group: Group) -> Option<&'static str> {
    match group {
        Group::String => Some("@string"),
        Group::Generic => Some("@keyspace"),
        Group::List => Some("@list"),
        Group::Set => Some("@set"),
        Group::SortedSet => Some("@sortedset"),
        Group::Geo => Some("@geo"),
        Group::Hash => Some("@hash"),
        Group::Bitmap => Some("@bitmap"),
        Group::HyperLogLog => Some("@hyperloglog"),
        Group::Stream => Some("@stream"),
        Group::Transactions => Some("@transaction"),
        Group::Scripting => Some("@scripting"),
        Group::Connection => Some("@connection"),
        // Their category follows from their flags, which HELP does not have.
        Group::PubSub | Group::Server | Group::Cluster => None,
    }
}
