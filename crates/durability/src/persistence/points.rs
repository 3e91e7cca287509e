//! Save points: start a save when enough keys have changed for long enough. None starts on a
//! replica whose data was dropped for a full sync that failed: the file is then its only copy.

use crate::aof::aof;
use crate::persistence::background;
use crate::persistence::save::Asked;
use std::sync::atomic::Ordering;
use weft_config::SavePoint;
use weft_process::log_notice;
use weft_state::server::Server;

/// The delay after a failure before the next attempt (ms).
const RETRY_MS: i64 = 5000;

/// Begins a save if one is due or scheduled. The first thread calls this regularly. O(1).
pub fn tick(srv: &'static Server) {
    if srv.persistence.loading.is_on() || srv.is_stopping() || srv.is_file_better() {
        return;
    }
    let saves = srv.persistence.saves();
    // There is one snapshot at a time, and a rewrite uses it or is about to.
    let is_free = saves.running().is_none() && !aof(srv).is_rewriting();
    let rested = saves.is_last_ok || srv.mono_ms().saturating_sub(saves.tried_ms) > RETRY_MS;
    let is_scheduled = saves.is_scheduled;
    drop(saves);
    if !is_free || !rested {
        return;
    }
    let changes = srv.unsaved_changes();
    let age_s = srv.now_ms() / 1000 - srv.statistics.totals.last_save_s.load(Ordering::Relaxed);
    let settings = srv.settings();
    let due = due(&settings.persistence.save_points, changes, age_s);
    if let Some(point) = due {
        log_notice!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
    }
    if due.is_some() || is_scheduled {
        begin_aside(srv);
    }
}

/// The save point that is reached after `changes` changes in `age_s` seconds.
fn due(points: &[SavePoint], changes: i64, age_s: i64) -> Option<SavePoint> {
    let reached =
        |p: &&SavePoint| changes >= i64::from(p.changes) && age_s > p.seconds && changes > 0;
    points.iter().find(reached).copied()
}

/// Begins a save on a separate thread, because taking the snapshot may wait for a long command.
fn begin_aside(srv: &'static Server) {
    let thread = std::thread::Builder::new().name("weft-save-begin".into());
    let spawned = thread.spawn(move || {
        // Errors are logged, and a later tick retries.
        let _ = background::begin(srv, Asked::ByNobody);
    });
    if let Err(e) = spawned {
        weft_process::log_warning!("Can't save in background: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_needs_changes_and_age() {
        let points = [(3600, 1), (300, 100), (60, 10000)]
            .map(|(seconds, changes)| SavePoint { seconds, changes });
        let due = |changes, age| due(&points, changes, age).map(|point| point.seconds);
        for (changes, age, expected) in [
            (0, 99999, None),
            (1, 3600, None),
            (1, 3601, Some(3600)),
            (99, 301, None),
            (100, 301, Some(300)),
            (10000, 60, None),
            (10000, 61, Some(60)),
            (-3, 99999, None),
        ] {
            assert_eq!(due(changes, age), expected, "{changes} {age}");
        }
    }
}
