//! Large work is known before it begins.

use crate::dump::DUMP;
use crate::migrate::MIGRATE;
use crate::restore::RESTORE;
use crate::{read_work, work, write_work};
use weft_command_spec::Flags;
use weft_commands::{Command, FAST_WORK};
use weft_types::Limits;
use weft_types::string::{New, record};

#[test]
fn long_values_are_weighed() {
    let text = |len: usize| record(b"k", New::Bytes(&vec![b'x'; len]), None, 0);
    assert!(write_work(&text(1000)) < FAST_WORK);
    assert!(write_work(&text(1 << 20)) > FAST_WORK);
    assert!(read_work(1000) < FAST_WORK && read_work(1 << 20) > FAST_WORK);
    let limits = Limits::default();
    let names: Vec<String> = (0..10_000).map(|n| format!("m{n}")).collect();
    let mut set = weft_types::set::Load::new(names.len(), &limits);
    names.iter().for_each(|name| set.add(weft_types::packed::Value::Bytes(name.as_bytes())));
    let set = set.finish(b"k", None, 0).expect("the members are distinct");
    assert!(write_work(&set) > FAST_WORK);
}

#[test]
fn commands_that_wait_for_peers_never_run_in_the_fast_lane() {
    let waits_outside = |command: &Command| command.spec.flags.has(Flags::WAITS_FOR_SERVER);
    assert!(waits_outside(&MIGRATE) && !waits_outside(&RESTORE));
    assert!(work(&MIGRATE.spec, &[]) > FAST_WORK);
    assert_eq!(work(&DUMP.spec, &[b"dump", b"k"]), 0);
    let payload = vec![0; 1 << 20];
    assert!(work(&RESTORE.spec, &[b"restore", b"k", b"0", &payload]) > FAST_WORK);
}
