//! Large work is known before it begins.

use crate::{read_work, waits_outside, work, write_work};
use weft_commands::FAST_WORK;
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
    assert!(waits_outside("migrate") && !waits_outside("restore"));
    assert!(work("migrate", &[]) > FAST_WORK);
    assert_eq!(work("get", &[b"get", b"k"]), 0);
    let payload = vec![0; 1 << 20];
    assert!(work("restore", &[b"restore", b"k", b"0", &payload]) > FAST_WORK);
}
