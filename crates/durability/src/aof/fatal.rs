//! The end of the server when the disk fails.

use weft_process::log_warning;

/// Stops the server.
pub fn end_for(why: &str) -> ! {
    log_warning!("{why}");
    weft_process::pidfile::remove_held();
    std::process::exit(1);
}
