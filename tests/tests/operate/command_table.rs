//! The server describes its commands as the reference does.
//!
//! Clients and proxies route by COMMAND INFO, and command line tools are built from COMMAND DOCS,
//! so all facts must match: arity, flags, key positions, ACL categories, tips, argument trees,
//! versions. Texts for readers (summaries, complexities, histories, notes) are our own. They only
//! have to exist where the reference has them.

use std::collections::BTreeMap;
use weft_testkit::{Client, Server, Value, skip_without};
use weft_testkit_differential::own;

/// Fields that contain prose.
const TEXTS: [&str; 3] = ["summary", "complexity", "notes"];

/// A canonical form: sets and maps sorted, prose replaced by a placeholder.
fn canonical(value: &Value) -> String {
    match value {
        Value::Set(items) => sorted("~", items.iter().map(canonical)),
        Value::Map(pairs) => sorted("%", pairs.iter().filter_map(|(k, v)| pair(&k.text(), v))),
        Value::Array(items) => items.iter().map(canonical).collect::<Vec<_>>().join(", "),
        leaf => leaf.to_string(),
    }
}

fn sorted(mark: &str, items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    items.sort();
    format!("{mark}({})", items.join(", "))
}

fn pair(key: &str, value: &Value) -> Option<String> {
    match key {
        key if TEXTS.contains(&key) => Some(format!("{key}: a text")),
        "history" => {
            let versions = value.items().iter().map(|change| canonical(&change.items()[0]));
            Some(sorted("history", versions))
        }
        "arguments" => {
            let arguments = value.items().iter().map(|a| canonical(&without_summary(a)));
            Some(format!("arguments: [{}]", arguments.collect::<Vec<_>>().join(", ")))
        }
        // Compared one by one: the reference has more subcommands.
        "subcommands" => None,
        key => Some(format!("{key}: {}", canonical(value))),
    }
}

/// Drops the summary: the reference has one for a single argument of a single command.
fn without_summary(argument: &Value) -> Value {
    let Value::Map(pairs) = argument else { panic!("expected a map, got {argument}") };
    Value::Map(pairs.iter().filter(|(key, _)| key.text() != "summary").cloned().collect())
}

/// A COMMAND INFO entry without its subcommands.
fn info(client: &mut Client, name: &str) -> String {
    let reply = client.cmd(&["COMMAND", "INFO", name]);
    let fields = reply.items()[0].items();
    assert_eq!(fields.len(), 10, "{name}: {reply}");
    fields[..9].iter().map(canonical).collect::<Vec<_>>().join("\n  ")
}

fn docs(client: &mut Client, name: &str) -> String {
    let reply = client.cmd(&["COMMAND", "DOCS", name]);
    canonical(reply.field(name).unwrap_or_else(|| panic!("no documentation of {name}: {reply}")))
}

fn names(client: &mut Client) -> Vec<String> {
    client.cmd(&["COMMAND", "LIST"]).items().iter().map(Value::text).collect()
}

/// Compares the results of `ask` on both servers for every command of this server.
fn compare(test: &str, ask: fn(&mut Client, &str) -> String) {
    let reference = Server::valkey(&[]);
    if skip_without(test, &reference, "valkey-server") {
        return;
    }
    let (weft, reference) = (Server::weft(&[]), reference.expect("not skipped"));
    let (mut ours, mut theirs) = (weft.client(), reference.client());
    ours.hello(3);
    theirs.hello(3);
    let known = names(&mut theirs);
    let mut differences = BTreeMap::new();
    for name in names(&mut ours).into_iter().filter(|name| !own::is_own(name)) {
        if !known.contains(&name) {
            let why = "not a command of the reference, and not in tests/own_commands.md";
            differences.insert(name, why.to_string());
            continue;
        }
        let (our, their) = (ask(&mut ours, &name), ask(&mut theirs, &name));
        if our != their {
            differences.insert(name, format!("ours\n  {our}\ntheirs\n  {their}"));
        }
    }
    let report: Vec<String> = differences.iter().map(|(n, d)| format!("{n}: {d}")).collect();
    assert!(report.is_empty(), "{}", report.join("\n\n"));
}

#[test]
fn command_info_matches_the_reference() {
    compare("command_info_matches_the_reference", info);
}

#[test]
fn command_docs_match_the_reference() {
    compare("command_docs_match_the_reference", docs);
}

#[test]
fn list_of_own_commands_is_up_to_date() {
    let reference = Server::valkey(&[]);
    if skip_without("list_of_own_commands_is_up_to_date", &reference, "valkey-server") {
        return;
    }
    let (weft, reference) = (Server::weft(&[]), reference.expect("not skipped"));
    let (ours, theirs) = (names(&mut weft.client()), names(&mut reference.client()));
    assert_eq!(own::stale(&own::list(), &ours, &theirs), Vec::<String>::new());
}

/// The server knows the names of all unimplemented commands of the reference, and returns an
/// explicit error.
#[test]
fn unimplemented_commands_return_an_explicit_error() {
    let reference = Server::valkey(&[]);
    if skip_without("unimplemented_commands_return_an_explicit_error", &reference, "valkey-server")
    {
        return;
    }
    let (weft, reference) = (Server::weft(&[]), reference.expect("not skipped"));
    let (mut client, there) = (weft.client(), names(&mut weft.client()));
    let theirs = names(&mut reference.client());
    for name in theirs.iter().filter(|name| !there.contains(name)) {
        let words: Vec<&str> = name.split('|').collect();
        let error = client.try_cmd(&words).expect("a reply").value;
        let text = error.error().unwrap_or_default();
        let known = text.contains("is not supported by this version")
            || text == "ERR This instance has cluster support disabled";
        assert!(known, "{name}: {error}: add it to crates/executor/src/dispatch/absent.rs");
    }
}

/// In RESP2, maps and sets are arrays. Checks the shape of one entry as a sample.
#[test]
fn resp2_replies_have_the_shape_of_the_reference() {
    let test = "resp2_replies_have_the_shape_of_the_reference";
    let reference = Server::valkey(&[]);
    if skip_without(test, &reference, "valkey-server") {
        return;
    }
    let (weft, reference) = (Server::weft(&[]), reference.expect("not skipped"));
    for request in [&["COMMAND", "INFO", "GET", "NOSUCH"][..], &["COMMAND", "GETKEYS", "GET", "k"]]
    {
        let our = weft.client().try_cmd(request).expect("a reply");
        let their = reference.client().try_cmd(request).expect("a reply");
        let sizes = |raw: &[u8]| raw.iter().filter(|b| b"*$_~%".contains(b)).count();
        assert_eq!(our.raw.len(), their.raw.len(), "{request:?}: {} {}", our.value, their.value);
        assert_eq!(sizes(&our.raw), sizes(&their.raw), "{request:?}");
    }
    let names = |server: &Server| server.client().cmd(&["COMMAND", "DOCS", "GET"]);
    let fields = |docs: Value| docs.items()[1].items().iter().step_by(2).map(Value::text).collect();
    let (our, their): (Vec<String>, Vec<String>) =
        (fields(names(&weft)), fields(names(&reference)));
    assert_eq!(our, their);
}

/// Requests whose key positions depend on other arguments.
const MOVABLE: &[&str] = &[
    "SORT a",
    "SORT a STORE d",
    "SORT a BY nosort GET x_* STORE d",
    // Two spaces: an empty key.
    "MIGRATE h 1 k 0 10 KEYS",
    "MIGRATE h 1  0 10 KEYS",
    "MIGRATE h 1  0 10 COPY KEYS",
    "MIGRATE h 1  0 10 KEYS a b",
    "MIGRATE h 1  0 10 KEYS KEYS",
    "MIGRATE h 1 k 0 10 KEYS a",
    "MIGRATE h 1 k 0 10 AUTH KEYS",
    "EVAL s 2 a b c",
    "EVAL_RO s 2 a b c",
    "EVALSHA s 1 a",
    "EVALSHA_RO s 1 a",
    "FCALL f 2 a b",
    "FCALL_RO f 1 a",
    "EVAL s 0",
    "EVAL s 3 a",
    "EVAL s x a",
    "EVAL s -1 a",
    "EVAL s",
    "ACL LIST",
    "ACL",
    "ACL NOPE",
    "SCRIPT LOAD x",
    "FUNCTION LIST",
    "CLUSTER INFO",
    "CLUSTER NOPE",
    "MODULE LOAD x",
    "CLUSTERSCAN 0",
    "acl|list",
    "NOSUCH a",
    "SORT a LIMIT 0 1 store d",
    "SORT a STORE d STORE e",
    "SORT a STORE",
    "SORT a GET store STORE d",
    "SORT a BY store STORE d ALPHA",
    "SORT a LIMIT store 1 STORE d",
    "SORT_RO a BY w_* GET x",
    "GEORADIUS a 1 2 3 km STORE d STOREDIST e",
    "GEORADIUS a 1 2 3 km COUNT store store d",
    "GEORADIUS a 1 2 3 km STORE",
    "GEORADIUS a 1 2 3 km ASC",
    "GEORADIUSBYMEMBER a m 3 km STOREDIST d",
    "GEORADIUSBYMEMBER a m 3 store d",
    "GEOSEARCHSTORE d a FROMMEMBER m BYRADIUS 3 km",
    "ZUNIONSTORE d 2 a b WEIGHTS 1 2",
    "ZUNIONSTORE d 3 a b",
    "ZINTER 1 a",
    "ZINTERCARD 2 a b LIMIT 1",
    "SINTERCARD 9999999999 a",
    "LMPOP 2 a b LEFT",
    "LMPOP 0 a LEFT",
    "BLMPOP 0 2 a b LEFT",
    "BZMPOP 0 1 a MAX",
    "MSETEX 2 a 1 b 2 EX 10",
    "SET a b",
    "BITOP AND d a b",
    "BITFIELD a",
    "BITFIELD a GET u8 0",
    "BITFIELD a GET u8 0 OVERFLOW SAT",
    "BITFIELD a overflow fail get u8 0 SET u8 0 1",
    "BITFIELD a GET SET 0",
    "BITFIELD a GET u8 0 GET",
    "BITFIELD a GET u8",
    "BITFIELD a OVERFLOW",
    "BITFIELD a INCRBY u8 0 1",
    "BITFIELD a foo",
    "BITFIELD_RO a GET u8 0",
    "SET a b EX 5 GET",
    "MSET a 1 b",
    "OBJECT ENCODING a",
    "PING",
];

#[test]
fn command_getkeys_finds_the_keys_of_a_request() {
    let ours = Server::weft(&[]);
    let mut client = ours.client();
    let words = |ask: &str, request: &str| -> Vec<String> {
        ["COMMAND", ask].into_iter().chain(request.split(' ')).map(str::to_owned).collect()
    };
    let keys = client.cmd(&words("GETKEYS", "SORT a GET store STORE d"));
    assert_eq!(keys.items().iter().map(Value::text).collect::<Vec<_>>(), ["a", "d"]);
    let reference = Server::valkey(&[]);
    if skip_without("command_getkeys_finds_the_keys_of_a_request", &reference, "valkey-server") {
        return;
    }
    let server = reference.expect("not skipped");
    let mut reference = server.client();
    for request in MOVABLE {
        for ask in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let words = words(ask, request);
            assert_eq!(
                canonical(&client.cmd(&words)),
                canonical(&reference.cmd(&words)),
                "{words:?}"
            );
        }
    }
}

#[test]
fn acl_categories_are_in_the_order_of_the_reference() {
    let reference = Server::valkey(&[]);
    if skip_without("acl_categories_are_in_the_order_of_the_reference", &reference, "valkey-server")
    {
        return;
    }
    let (weft, reference) = (Server::weft(&[]), reference.expect("not skipped"));
    let (mut ours, mut theirs) = (weft.client(), reference.client());
    let categories = |client: &mut Client, name: &str| -> Vec<String> {
        let reply = client.cmd(&["COMMAND", "INFO", name]);
        reply.items()[0].items()[6].items().iter().map(Value::text).collect()
    };
    for name in names(&mut ours).iter().filter(|name| !own::is_own(name)) {
        assert_eq!(categories(&mut ours, name), categories(&mut theirs, name), "{name}");
    }
}
