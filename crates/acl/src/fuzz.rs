//! For the fuzz targets and the unit tests: a small catalog, and what must hold for any rules.

use crate::catalog::{Catalog, Entry};
use crate::file;
use crate::policy::{ChannelDefault, Policy};
use crate::request::Request;
use crate::users::Users;
use weft_command_spec::{Channels, Databases, Flags, Group, KeySpec, Spec, Special, keys};

const fn command(name: &'static str, flags: Flags, keys: &'static [KeySpec]) -> Spec {
    Spec {
        name,
        arity: -1,
        flags,
        keys,
        acl: &[],
        group: Group::String,
        since: "",
        summary: "",
        complexity: "",
        syntax: "",
        history: &[],
        tips: &[],
        special: Special::NONE,
    }
}

const fn admin(name: &'static str) -> Spec {
    let acl = &["@dangerous"];
    Spec { group: Group::Server, acl, ..command(name, Flags::ADMIN, &[]) }
}

const fn with(spec: Spec, group: Group, special: Special) -> Spec {
    Spec { flags: spec.flags, group, special, ..spec }
}

static SPECS: [(&str, Spec); 9] = [
    ("get", command("get", Flags::READONLY.or(Flags::FAST), &keys::one(&["RO", "ACCESS"]))),
    ("set", command("set", Flags::WRITE, &keys::one(&["OW", "UPDATE"]))),
    ("mget", command("mget", Flags::READONLY, &keys::all(1, &["RO", "ACCESS"]))),
    ("config", admin("config")),
    ("config|get", admin("get")),
    ("config|set", admin("set")),
    (
        "select",
        with(
            command("select", Flags::FAST, &[]),
            Group::Connection,
            Special::databases(Databases::At(&[1])),
        ),
    ),
    (
        "psubscribe",
        with(
            command("psubscribe", Flags::PUBSUB, &[]),
            Group::PubSub,
            Special::channels(Channels::SubscribePatterns),
        ),
    ),
    ("ping", command("ping", Flags::FAST, &[])),
];

/// GET, SET, MGET, CONFIG with GET and SET, SELECT, PSUBSCRIBE and PING, and 16 databases.
pub fn catalog() -> Catalog {
    let entry = |(number, (full_name, spec)): (usize, &'static (&'static str, Spec))| Entry {
        number,
        full_name,
        spec,
        container: full_name.split_once('|').map(|_| 3),
        has_subcommands: *full_name == "config",
    };
    Catalog::new(SPECS.iter().enumerate().map(entry), 16)
}

/// Applies rules, one a line. The description must make the same user, who may do the same.
///
/// # Panics
/// If it does not.
pub fn check_rules(data: &[u8]) {
    let catalog = catalog();
    let policy = Policy { catalog: &catalog, channels: ChannelDefault::None };
    let mut users = Users::new(policy);
    for rule in data.split(|byte| *byte == b'\n').take(64).filter(|rule| is_describable(rule)) {
        match users.set(policy, b"u", &[rule]) {
            Ok(changed) => users = changed,
            Err(error) => assert!(!error.text().is_empty()),
        }
    }
    let Some(user) = users.get(b"u") else { return };
    let text = file::write(&users);
    let again = file::parse(policy, "file", &text).expect("a description is valid");
    let same = again.get(b"u").expect("the user is in the file");
    assert_eq!(same.describe(), user.describe());
    for (number, (name, _)) in SPECS.iter().enumerate() {
        let args: Vec<&[u8]> =
            name.split('|').map(str::as_bytes).chain([&b"a"[..], b"1"]).collect();
        let request = Request { command: number, args: &args, database: 1 };
        assert_eq!(same.check(&catalog, &request), user.check(&catalog, &request), "{name}");
    }
}

/// Whether the description of a rule is read as the same rule. In selectors, as in the reference, patterns with quotes
/// or a parenthesis at the end are not.
fn is_describable(rule: &[u8]) -> bool {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\'');
    let closing = rule.iter().filter(|byte| **byte == b')').count();
    !rule.starts_with(b"(") || (!rule.iter().any(is_special) && closing <= 1)
}

/// Reads a file of users. A file that is accepted reads the same after it was written again.
///
/// # Panics
/// If it does not.
pub fn check_file(data: &[u8]) {
    let catalog = catalog();
    let policy = Policy { catalog: &catalog, channels: ChannelDefault::All };
    // As in the reference, a selector isn't read again from its description if it has such bytes: see `is_describable`. NUL
    // ends a rule in it.
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\'' | 0);
    if data.iter().any(is_special) || data.windows(2).any(|pair| pair == b"))") {
        return;
    }
    let Ok(users) = file::parse(policy, "file", data) else { return };
    let text = file::write(&users);
    let again = file::parse(policy, "file", &text).expect("a written file is valid");
    assert_eq!(file::write(&again), text);
}
