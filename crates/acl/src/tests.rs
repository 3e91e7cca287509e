//! The meaning of rules.

use crate::fuzz::catalog;
use crate::*;
use proptest::prelude::*;

fn policy(catalog: &Catalog) -> Policy<'_> {
    Policy { catalog, channels: ChannelDefault::None }
}

/// The rules of a new user after `rules`, or the error.
fn described(rules: &str) -> String {
    let catalog = catalog();
    let users = Users::new(policy(&catalog));
    let rules: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    let text = match users.set(policy(&catalog), b"u", &rules) {
        Ok(users) => users.get(b"u").unwrap().describe(),
        Err(error) => error.text(),
    };
    String::from_utf8(text).unwrap()
}

#[test]
fn descriptions_keep_the_order_of_rules() {
    for (rules, expected) in [
        ("", "off resetchannels -@all"),
        ("on nopass +@all ~* &*", "on nopass ~* &* +@all"),
        ("+@all -get +get", "off resetchannels +@all +get"),
        ("+config|get +config", "off resetchannels -@all +config"),
        ("+config +config|get", "off resetchannels -@all +config +config|get"),
        ("+@read -get +@READ", "off resetchannels -@all -get +@read"),
        ("+SELECT|FoO", "off resetchannels -@all +select|foo"),
        ("%R~a %W~a %r~b %W~c", "off ~a %R~b %W~c resetchannels -@all"),
        ("&a &b &a", "off resetchannels &a &b -@all"),
        ("db=3,1,1", "off resetchannels db=1,3 -@all"),
        ("resetdbs", "off resetchannels resetdbs -@all"),
        ("db=1 alldbs", "off resetchannels -@all"),
        ("(+get db=1 ~a)", "off resetchannels -@all (~a resetchannels db=1 -@all +get)"),
        ("on (+get) clearselectors", "on resetchannels -@all"),
        ("on +get ~a &b db=1 (+set) reset", "off resetchannels -@all"),
        ("skip-sanitize-payload", "off resetchannels -@all"),
    ] {
        assert_eq!(described(rules), expected, "{rules}");
    }
}

#[test]
fn wrong_rules_are_named() {
    let unknown = "Unknown command or category name in ACL";
    for (rules, rule, why) in [
        ("+get +nosuch", "+nosuch", unknown),
        ("+", "+", unknown),
        ("-get|x", "-get|x", unknown),
        ("+config|nosuch", "+config|nosuch", unknown),
        ("+@nosuch", "+@nosuch", unknown),
        ("+get|", "+get|", "Syntax error"),
        ("+config|get|x", "+config|get|x", "Allowing first-arg of a subcommand is not supported"),
        ("%~a", "%~a", "Syntax error"),
        ("%RR~a", "%RR~a", "Syntax error"),
        ("db=1,", "db=1,", "Syntax error"),
        ("db=-1", "db=-1", "The provided database ID is out of range"),
        ("<p", "<p", "The password you are trying to remove from the user does not exist"),
        ("(on)", "(on)", "Syntax error"),
        ("bad", "bad", "Syntax error"),
    ] {
        let expected = format!("Error in ACL SETUSER modifier '{rule}': {why}");
        assert_eq!(described(rules), expected, "{rules}");
    }
    let unmatched = "Unmatched parenthesis in acl selector starting at '(+get'.";
    assert_eq!(described("on (+get ~a"), unmatched);
    assert!(described("~* ~a").contains("Adding a pattern after the * pattern"));
    assert!(described("#AB").contains("exactly 64 characters"));
}

#[test]
fn rights_are_those_of_one_selector() {
    let catalog = catalog();
    let users = Users::new(policy(&catalog));
    let rules: [&[u8]; 6] =
        [b"+@read", b"~a*", b"db=0,1", b"&x", b"(+set %W~b)", b"(+select|1 +psubscribe &p*)"];
    let user = users.set(policy(&catalog), b"u", &rules).unwrap().get(b"u").unwrap().clone();
    let denied = |reason, at| Err(Denied { reason, at });
    for (line, database, expected) in [
        ("get a1", 0, Ok(())),
        ("get b", 0, denied(Reason::Key, 1)),
        ("mget a x", 0, denied(Reason::Key, 2)),
        ("get a", 2, denied(Reason::Command, 0)),
        ("set b 1", 5, Ok(())),
        ("set a 1", 0, denied(Reason::Key, 1)),
        ("select 1", 0, Ok(())),
        ("select 2", 0, denied(Reason::Command, 0)),
        ("psubscribe p*", 0, Ok(())),
        ("psubscribe pa", 0, denied(Reason::Channel, 1)),
        ("config get x", 0, denied(Reason::Command, 0)),
    ] {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let command = catalog.number_of(&args).unwrap();
        let request = Request { command, args: &args, database };
        assert_eq!(user.check(&catalog, &request), expected, "{line}");
    }
    assert!(!user.is_unrestricted() && users.default_user().is_unrestricted());
}

#[test]
fn only_known_passwords_are_accepted() {
    let catalog = catalog();
    let users = Users::new(policy(&catalog));
    let set = |rules: &[&[u8]]| {
        users.set(policy(&catalog), b"u", rules).unwrap().get(b"u").unwrap().clone()
    };
    let user = set(&[b"on", b">one", b">two"]);
    assert!(user.accepts_password(b"one") && user.accepts_password(b"two"));
    assert!(!user.accepts_password(b"") && !user.accepts_password(b"on"));
    assert!(!set(&[b"on", b">one", b"<one"]).accepts_password(b"one"));
    assert!(!set(&[b"off", b"nopass"]).accepts_password(b"one"));
    assert!(set(&[b"on", b"nopass"]).accepts_password(b"anything"));
    let hash = format!("#{}", Password::hash(b"one").hex());
    assert!(set(&[b"on", hash.as_bytes()]).accepts_password(b"one"));
    assert!(!format!("{user:?}").contains(&Password::hash(b"one").hex()));
}

#[test]
fn a_wrong_file_reports_every_line() {
    let catalog = catalog();
    let text = b"user a on\n\nusr b\nuser a off\nuser c +no1 +no2 bad bad\nuser d (x\n";
    let errors = file::parse(policy(&catalog), "f", text).unwrap_err();
    let expected = "f:3 should start with user keyword followed by the username. WARNING: Duplicate user 'a' found \
                    on line 4. f:5: Error in applying operation '+no1': Unknown command or category name in ACL. \
                    f:5: Error in applying operation '+no2': Unknown command or category name in ACL. \
                    f:5: Syntax error. f:6: Unmatched parenthesis in selector definition.WARNING: ACL errors \
                    detected, no change to the previously active ACL rules was performed";
    assert_eq!(String::from_utf8(errors).unwrap(), expected);
}

#[test]
fn equal_events_within_a_minute_are_one_entry() {
    let event = |object: &str, now| Event {
        reason: LogReason::Key,
        context: Context::TopLevel,
        object: object.into(),
        user: b"u".to_vec(),
        client: Vec::new(),
        now,
    };
    let mut log = Log::default();
    log.add(event("a", 0), 3);
    log.add(event("b", 1), 3);
    log.add(event("a", 60_000), 3);
    let shown = |log: &Log| -> Vec<(u64, u64, i64)> {
        log.iter().map(|entry| (entry.id, entry.count, entry.last.now)).collect()
    };
    assert_eq!(shown(&log), [(0, 2, 60_000), (1, 1, 1)]);
    log.add(event("a", 120_001), 3);
    assert_eq!(shown(&log)[0], (2, 1, 120_001));
    log.add(event("c", 120_001), 2);
    assert_eq!(log.iter().len(), 2);
    log.clear();
    assert_eq!(log.iter().len(), 0);
}

proptest! {
    #[test]
    fn descriptions_make_the_same_user(data: Vec<u8>) {
        fuzz::check_rules(&data);
        fuzz::check_file(&data);
    }

    #[test]
    fn sensible_rules_make_the_same_user(rules in proptest::collection::vec(any_rule(), 0..20)) {
        fuzz::check_rules(rules.join("\n").as_bytes());
    }
}

fn any_rule() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "on",
        "off",
        "nopass",
        ">p",
        "<p",
        "resetpass",
        "reset",
        "+@all",
        "-@all",
        "+@read",
        "-@read",
        "+get",
        "-get",
        "+config",
        "-config|get",
        "+config|set",
        "+select|1",
        "-select",
        "~a",
        "~*",
        "%R~b",
        "%W~b",
        "resetkeys",
        "&a",
        "&*",
        "resetchannels",
        "db=1,2",
        "alldbs",
        "resetdbs",
        "(+get ~a)",
        "(%R~x +@write db=3)",
        "clearselectors",
        "allkeys",
        "+@fast",
        "-@dangerous",
        "()",
    ])
}
