//! `weft-server --check-rdb`: tells what is wrong with a file, without a server.

use std::fs::File;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_persist::rdb::file;

/// Checks one file; the exit code.
pub fn run(files: &[PathBuf]) -> i32 {
    let [name] = files else {
        eprintln!("Usage: weft-server --check-rdb <file>");
        return 1;
    };
    println!("[offset 0] Checking RDB file {}", name.display());
    let opened = match File::open(name) {
        Ok(opened) => opened,
        Err(e) => {
            eprintln!("Can't open '{}': {}", name.display(), crate::failure::words(&e));
            println!("[offset 0] Check RDB returned error code 1 (0 means success)");
            return 1;
        }
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let checked = file::check(opened, now.as_millis() as i64, |line| println!("{line}"));
    i32::from(!checked.is_right)
}
