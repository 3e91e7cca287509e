//! The flags and capabilities of a client, as CLIENT LIST shows them.

use std::sync::atomic::{AtomicBool, Ordering};
use weft_executor::tracking::Mode;
use weft_state::clients::ClientShared;

/// The letters of the field `capa`.
pub fn capabilities(client: &ClientShared) -> &'static str {
    if client.options.redirect_capable.load(Ordering::Relaxed) { "r" } else { "" }
}

/// The letters of the field `flags`; `N` when none is set.
pub fn flags(client: &ClientShared) -> String {
    let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
    let mode = client.tracker().map_or(Mode::OFF, |tracker| tracker.mode());
    let tracks = |bit| mode.has(Mode::ON) && mode.has(bit);
    let letters = [
        ('S', is(&client.replica.is_replica)),
        ('O', is(&client.pushes.monitor)),
        ('M', client.origin.is_primary),
        ('P', client.is_subscriber()),
        ('x', is(&client.transaction.is_open)),
        ('b', is(&client.activity.blocked)),
        ('t', tracks(Mode::ON)),
        ('R', tracks(Mode::BROKEN)),
        ('B', tracks(Mode::BCAST)),
        ('d', client.is_watch_broken()),
        ('c', is(&client.closing)),
        ('A', is(&client.killed)),
        ('U', client.origin.unix),
        ('r', is(&client.options.readonly)),
        ('e', is(&client.options.no_evict)),
        ('T', is(&client.options.no_touch)),
        ('I', is(&client.options.import_source)),
    ];
    let set: String = letters.iter().filter(|(_, on)| *on).map(|(c, _)| *c).collect();
    if set.is_empty() { "N".into() } else { set }
}
