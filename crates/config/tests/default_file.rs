//! The default file that is checked in is the one that the table gives.

use std::path::Path;

#[test]
fn weft_conf_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weft.conf");
    let checked_in = std::fs::read_to_string(&path).expect("weft.conf at the root of the project");
    assert!(
        checked_in == weft_config::default_file(),
        "weft.conf is out of date: cargo run -p weft-config --example default_file > weft.conf"
    );
}
