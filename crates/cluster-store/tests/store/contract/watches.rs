//! Watches.

use super::{Case, Checked, Client, Fixture, delete, ensure, next, put};
use std::time::Duration;
use weft_cluster_store::store::{Change, Revision, WatchEnd};

pub const CASES: &[Case] = &[
    ("watch_repeats_history", watch_repeats_history),
    ("watch_reports_new_changes", watch_reports_new_changes),
    ("watch_waits_for_a_later_revision", watch_waits_for_a_later_revision),
    ("watch_continues_a_watch", watch_continues_a_watch),
    ("watch_can_be_cancelled_by_another_thread", watch_can_be_cancelled_by_another_thread),
    ("compacted_changes_end_a_watch", compacted_changes_end_a_watch),
    ("compacted_deletion_is_not_missed", compacted_deletion_is_not_missed),
];

fn watch_repeats_history(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let first = client.put("w/a", "1")?;
    client.put("other", "")?;
    let second =
        client.commit(vec![put("w/b", "2"), put("x", ""), delete("w/a"), put("w/c", "")])?;
    let third = client.commit(vec![delete("w/b")])?;
    let mut watch = client.watch("w/", first)?;
    let batch = next(&mut watch)?;
    ensure!(batch.revision == first && batch.changes.len() == 1, "{batch:?}");
    let Change::Put(entry) = &batch.changes[0] else { return Err(format!("{batch:?}")) };
    ensure!(entry.key == b"w/a" && entry.value == b"1" && entry.created == first, "{entry:?}");
    let batch = next(&mut watch)?;
    ensure!(batch.revision == second && batch.changes.len() == 3, "{batch:?}");
    ensure!(batch.changes[1] == Change::Deleted { key: b"w/a".to_vec() }, "{batch:?}");
    let batch = next(&mut watch)?;
    ensure!(batch.revision == third, "{batch:?}");
    ensure!(batch.changes == [Change::Deleted { key: b"w/b".to_vec() }], "{batch:?}");
    let mut later = client.watch("w/", second)?;
    let batch = next(&mut later)?;
    ensure!(batch.revision == second, "{batch:?}");
    Ok(())
}

fn watch_reports_new_changes(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let revision = client.read("")?.revision;
    let mut watch = client.watch("w/", revision.next())?;
    let silent = watch.next(Duration::from_millis(50)).map_err(|e| e.to_string())?;
    ensure!(silent.is_none(), "{silent:?}");
    for i in 0..20 {
        let revision = client.put("w/a", &i.to_string())?;
        client.put("elsewhere", "")?;
        let batch = next(&mut watch)?;
        ensure!(batch.revision == revision && batch.changes.len() == 1, "{batch:?}");
        ensure!(watch.resume_from() == revision.next(), "{}", watch.resume_from());
    }
    Ok(())
}

fn watch_waits_for_a_later_revision(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let revision = client.put("w/a", "")?;
    let mut watch = client.watch("w/", Revision(revision.0 + 2))?;
    let mut done = revision;
    while done < Revision(revision.0 + 4) {
        done = client.put("w/a", &done.to_string())?;
    }
    let batch = next(&mut watch)?;
    ensure!(batch.revision >= Revision(revision.0 + 2), "{batch:?} is too early");
    Ok(())
}

fn watch_continues_a_watch(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let mut expected = Vec::new();
    for i in 0..30 {
        expected.push(client.put("w/a", &i.to_string())?);
    }
    let mut seen = Vec::new();
    let mut from = expected[0];
    while seen.len() < expected.len() {
        let mut watch = client.watch("w/", from)?;
        for _ in 0..(expected.len() - seen.len()).min(7) {
            seen.push(next(&mut watch)?.revision);
        }
        from = watch.resume_from();
    }
    ensure!(seen == expected, "{seen:?} instead of {expected:?}");
    Ok(())
}

fn watch_can_be_cancelled_by_another_thread(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let revision = client.put("w/a", "")?;
    let mut watch = client.watch("w/", revision)?;
    next(&mut watch)?;
    let canceller = watch.canceller();
    let end = std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let mut end = watch.next(Duration::from_secs(1));
            while end == Ok(None) {
                end = watch.next(Duration::from_secs(1));
            }
            (end, watch.next(Duration::from_secs(1)), watch.resume_from())
        });
        canceller.cancel();
        canceller.cancel();
        waiting.join().expect("no panic")
    });
    let cancelled = Err(WatchEnd::Cancelled);
    ensure!(end == (cancelled.clone(), cancelled, revision.next()), "{end:?}");
    Ok(())
}

fn compacted_changes_end_a_watch(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let first = client.put("w/a", "1")?;
    client.put("w/a", "2")?;
    let last = client.put("w/a", "3")?;
    fixture.compact(last);
    let mut watch = client.watch("w/", first)?;
    let end = watch.next(super::TIMEOUT);
    let Err(WatchEnd::Compacted { oldest }) = end else { return Err(format!("{end:?}")) };
    ensure!(oldest.is_none_or(|oldest| oldest >= last), "{oldest:?}");
    let snapshot = client.read("w/")?;
    ensure!(snapshot.entries.len() == 1 && snapshot.entries[0].value == b"3", "{snapshot:?}");
    let mut watch = client.watch("w/", snapshot.revision.next())?;
    let revision = client.put("w/b", "4")?;
    let batch = next(&mut watch)?;
    ensure!(batch.revision == revision, "{batch:?}");
    Ok(())
}

fn compacted_deletion_is_not_missed(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    client.put("w/a", "1")?;
    let deleted = client.commit(vec![delete("w/a")])?;
    let last = client.put("w/b", "2")?;
    fixture.compact(deleted);
    let mut watch = client.watch("w/", deleted)?;
    match watch.next(super::TIMEOUT) {
        Err(WatchEnd::Compacted { .. }) => {}
        Ok(Some(batch)) if batch.revision == deleted => {}
        other => return Err(format!("{other:?} instead of revision {deleted}")),
    }
    let mut watch = client.watch("w/", last)?;
    let batch = next(&mut watch)?;
    ensure!(batch.revision == last, "{batch:?}");
    Ok(())
}
