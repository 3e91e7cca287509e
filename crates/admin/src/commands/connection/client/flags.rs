//! The flags and capabilities of a client, as CLIENT LIST shows them.

use std::sync::atomic::{AtomicBool, Ordering};
use weft_executor::tracking::Mode;
use weft_state::clients::ClientShared;

/// The letters of the field `capa`.
pub fn capabilities(client: &ClientShared) -> &'static str {
    if client.redirect_capable.load(Ordering::Relaxed) { "r" } else { "" }
}

/// The letters of the field `flags`; `N` when none is set.
pub fn flags(client: &ClientShared) -> String {
    let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
    let mode = client.tracker().map_or(Mode::OFF, |tracker| tracker.mode());
    let tracks = |bit| mode.has(Mode::ON) && mode.has(bit);
    let letters = [
        ('S', is(&client.is_replica)),
        ('O', is(&client.monitor)),
        ('M', client.is_primary),
        ('P', client.is_subscriber()),
        ('x', is(&client.in_transaction)),
        ('b', is(&client.blocked)),
        ('t', tracks(Mode::ON)),
        ('R', tracks(Mode::BROKEN)),
        ('B', tracks(Mode::BCAST)),
        ('d', client.is_watch_broken()),
        ('c', is(&client.closing)),
        ('A', is(&client.killed)),
        ('U', client.unix),
        ('r', is(&client.readonly)),
        ('e', is(&client.no_evict)),
        ('T', is(&client.no_touch)),
        ('I', is(&client.import_source)),
    ];
    let set: String = letters.iter().filter(|(_, on)| *on).map(|(c, _)| *c).collect();
    if set.is_empty() { "N".into() } else { set }
}
