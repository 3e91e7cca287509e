//! Leases.

use super::{Case, Checked, Client, Fixture, TIMEOUT, ensure, next, put, put_leased};
use std::time::Duration;
use weft_cluster_store::Error;
use weft_cluster_store::store::{Change, Lease, LeaseId};

pub const CASES: &[Case] = &[
    ("lease_that_ends_deletes_its_keys_at_one_revision", lease_that_ends_deletes_its_keys),
    ("lease_that_is_kept_alive_stays", lease_that_is_kept_alive_stays),
    ("lease_that_has_ended_stays_so", lease_that_has_ended_stays_so),
    ("revoked_lease_deletes_its_keys", revoked_lease_deletes_its_keys),
    ("key_leaves_its_lease_by_a_put", key_leaves_its_lease_by_a_put),
    ("put_with_an_ended_lease_is_not_done", put_with_an_ended_lease_is_not_done),
];

fn grant(client: &Client, seconds: u64) -> Result<Lease, String> {
    let ttl = Duration::from_secs(seconds);
    let lease = client.store().grant(ttl, TIMEOUT).map_err(|e| e.to_string())?;
    ensure_ttl(ttl, lease.ttl)?;
    Ok(lease)
}

fn ensure_ttl(asked: Duration, granted: Duration) -> Checked {
    ensure!(granted >= asked && granted.as_secs() <= 60, "{granted:?} instead of {asked:?}");
    Ok(())
}

/// Lets time pass until the lease has ended.
fn wait_for_the_end(fixture: &dyn Fixture, client: &Client, key: &str) -> Checked {
    for _ in 0..600 {
        if client.find(key)?.is_none() {
            return Ok(());
        }
        fixture.pass(Duration::from_millis(50));
    }
    Err("the lease doesn't end".to_string())
}

fn lease_that_ends_deletes_its_keys(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let lease = grant(&client, 1)?;
    client.put("other", "stays")?;
    let revision = client.commit(vec![put_leased("a", lease.id), put_leased("b", lease.id)])?;
    let mut watch = client.watch("", revision)?;
    let batch = next(&mut watch)?;
    let is_leased = |change: &Change| matches!(change, Change::Put(e) if e.lease == Some(lease.id));
    ensure!(batch.changes.len() == 2 && batch.changes.iter().all(is_leased), "{batch:?}");
    let batch = next(&mut watch)?;
    let mut keys: Vec<&[u8]> = batch
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Deleted { key } => Some(key.as_slice()),
            Change::Put(_) => None,
        })
        .collect();
    keys.sort_unstable();
    ensure!(keys == [b"a".as_slice(), b"b"], "{batch:?}");
    ensure!(client.read("")?.entries.len() == 1, "the keys are still there");
    Ok(())
}

fn lease_that_is_kept_alive_stays(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    // A busy machine may not run this thread for longer than the lease lasts.
    for _ in 0..5 {
        let lease = grant(&client, 2)?;
        client.commit(vec![put_leased("a", lease.id)])?;
        if keep_beyond_its_time(fixture, &client, lease)? {
            ensure!(client.find("a")?.is_some(), "it ended although it was kept alive");
            return Ok(());
        }
    }
    Err("it ends although it is kept alive".to_string())
}

/// False if the lease has ended, because this thread was late.
fn keep_beyond_its_time(
    fixture: &dyn Fixture,
    client: &Client,
    lease: Lease,
) -> Result<bool, String> {
    let mut kept = fixture.now();
    for _ in 0..5 {
        fixture.pass(lease.ttl / 4);
        let now = fixture.now();
        match client.store().keep_alive(lease.id, TIMEOUT) {
            Ok(ttl) => ensure_ttl(Duration::from_secs(2), ttl)?,
            Err(Error::LeaseGone) if fixture.now() - kept >= lease.ttl => return Ok(false),
            Err(e) => return Err(e.to_string()),
        }
        kept = now;
    }
    Ok(true)
}

fn lease_that_has_ended_stays_so(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let lease = grant(&client, 1)?;
    client.commit(vec![put_leased("a", lease.id)])?;
    wait_for_the_end(fixture, &client, "a")?;
    let kept = client.store().keep_alive(lease.id, TIMEOUT);
    ensure!(kept == Err(Error::LeaseGone), "{kept:?}");
    let never = client.store().keep_alive(LeaseId(1 << 61), TIMEOUT);
    ensure!(never == Err(Error::LeaseGone), "{never:?}");
    let revoked = client.store().revoke(lease.id, TIMEOUT);
    ensure!(revoked == Ok(()), "{revoked:?}");
    let other = grant(&client, 1)?;
    ensure!(other.id != lease.id, "the same name twice");
    Ok(())
}

fn revoked_lease_deletes_its_keys(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let lease = grant(&client, 60)?;
    client.commit(vec![put_leased("a", lease.id), put("b", "")])?;
    client.store().revoke(lease.id, TIMEOUT).map_err(|e| e.to_string())?;
    ensure!(client.find("a")?.is_none() && client.find("b")?.is_some(), "wrong keys");
    let kept = client.store().keep_alive(lease.id, TIMEOUT);
    ensure!(kept == Err(Error::LeaseGone), "{kept:?}");
    client.store().revoke(lease.id, TIMEOUT).map_err(|e| e.to_string())
}

fn key_leaves_its_lease_by_a_put(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let (lease, second) = (grant(&client, 60)?, grant(&client, 60)?);
    client.commit(vec![put_leased("a", lease.id), put_leased("b", lease.id)])?;
    client.commit(vec![put("a", "free"), put_leased("b", second.id)])?;
    let entry = client.find("a")?.ok_or("gone")?;
    ensure!(entry.lease.is_none(), "{entry:?}");
    client.store().revoke(lease.id, TIMEOUT).map_err(|e| e.to_string())?;
    ensure!(client.read("")?.entries.len() == 2, "a key died with a lease that it had left");
    client.store().revoke(second.id, TIMEOUT).map_err(|e| e.to_string())?;
    ensure!(client.find("b")?.is_none(), "the key outlives its lease");
    Ok(())
}

fn put_with_an_ended_lease_is_not_done(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let lease = grant(&client, 60)?;
    client.store().revoke(lease.id, TIMEOUT).map_err(|e| e.to_string())?;
    let done = client.try_transact(vec![], vec![put("a", ""), put_leased("b", lease.id)]);
    ensure!(done == Err(Error::LeaseGone), "{done:?}");
    ensure!(client.read("")?.entries.is_empty(), "half of it was done");
    Ok(())
}
