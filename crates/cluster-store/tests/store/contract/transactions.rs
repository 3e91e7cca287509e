//! Reads and transactions.

use super::{Case, Checked, Client, Fixture, delete, ensure, put};
use weft_cluster_store::Error;
use weft_cluster_store::store::{Compare, MAX_OPERATIONS, Operation, Outcome, Revision};

pub const CASES: &[Case] = &[
    ("read_shows_the_prefix_in_order", read_shows_the_prefix_in_order),
    ("any_bytes_are_keys_and_values", any_bytes_are_keys_and_values),
    ("value_is_compared", value_is_compared),
    ("revision_is_compared", revision_is_compared),
    ("existence_is_compared", existence_is_compared),
    ("mismatch_changes_nothing", mismatch_changes_nothing),
    ("transaction_is_one_revision", transaction_is_one_revision),
    (
        "transaction_without_effect_keeps_the_revision",
        transaction_without_effect_keeps_the_revision,
    ),
    ("creation_is_reset_by_deletion", creation_is_reset_by_deletion),
    ("impossible_transaction_is_not_done", impossible_transaction_is_not_done),
    ("no_increment_is_lost", no_increment_is_lost),
];

fn read_shows_the_prefix_in_order(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    for key in ["n/b", "n0", "n/a", "m/z", "n/a/c", "n"] {
        client.put(key, key)?;
    }
    let snapshot = client.read("n/")?;
    let keys: Vec<&[u8]> = snapshot.entries.iter().map(|entry| entry.key.as_slice()).collect();
    ensure!(keys == [b"n/a".as_slice(), b"n/a/c", b"n/b"], "keys: {keys:?}");
    ensure!(client.read("")?.entries.len() == 6, "the empty prefix isn't everything");
    let last = client.put("x", "")?;
    let snapshot = client.read("n/")?;
    ensure!(snapshot.revision >= last, "{} is older than {last}", snapshot.revision);
    ensure!(client.read("q")?.entries.is_empty(), "entries from nowhere");
    Ok(())
}

fn any_bytes_are_keys_and_values(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let keys: [&[u8]; 5] = [b"\0", b"a\0b", b"\xff", b"\xff\xff", b"\xc3("];
    for key in keys {
        let value = [key, &[0, 255, 10, 34]].concat();
        client.commit(vec![Operation::Put { key: key.to_vec(), value, lease: None }])?;
    }
    let entries = client.read("")?.entries;
    ensure!(entries.len() == keys.len(), "{entries:?}");
    for entry in entries {
        ensure!(entry.value == [entry.key.as_slice(), &[0, 255, 10, 34]].concat(), "{entry:?}");
    }
    let snapshot = client.store().read(b"\xff", super::TIMEOUT).map_err(|e| e.to_string())?;
    ensure!(snapshot.entries.len() == 2, "{snapshot:?}");
    Ok(())
}

fn value_is_compared(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    client.put("k", "one")?;
    let is = |value: &str| vec![Compare::Value { key: b"k".to_vec(), value: value.into() }];
    let found = client.mismatch(is("two"), vec![put("k", "three")])?;
    let found = found.into_iter().flatten().next().ok_or("nothing found")?;
    ensure!(found.value == b"one", "{found:?}");
    client.commit_if(is("one"), vec![put("k", "two")])?;
    let missing = vec![Compare::Value { key: b"none".to_vec(), value: vec![] }];
    let found = client.mismatch(missing, vec![put("k", "three")])?;
    ensure!(found == [None], "{found:?}");
    Ok(())
}

fn revision_is_compared(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let first = client.put("k", "same")?;
    let second = client.put("k", "same")?;
    ensure!(second > first, "{second} after {first}");
    let is = |revision| vec![Compare::Modified { key: b"k".to_vec(), revision }];
    let found = client.mismatch(is(first), vec![put("k", "lost update")])?;
    let found = found.into_iter().flatten().next().ok_or("nothing found")?;
    ensure!(found.modified == second && found.created == first, "{found:?}");
    let third = client.commit_if(is(second), vec![put("k", "new")])?;
    let entry = client.find("k")?.ok_or("gone")?;
    ensure!(entry.modified == third && entry.value == b"new", "{entry:?}");
    client.mismatch(is(third.next()), vec![put("k", "future")])?;
    let missing = vec![Compare::Modified { key: b"none".to_vec(), revision: third }];
    client.mismatch(missing, vec![])?;
    Ok(())
}

fn existence_is_compared(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let exists = || vec![Compare::Exists { key: b"k".to_vec() }];
    let absent = || vec![Compare::Absent { key: b"k".to_vec() }];
    client.mismatch(exists(), vec![put("k", "1")])?;
    client.commit_if(absent(), vec![put("k", "2")])?;
    client.mismatch(absent(), vec![put("k", "3")])?;
    client.commit_if(exists(), vec![delete("k")])?;
    client.commit_if(absent(), vec![])?;
    Ok(())
}

fn mismatch_changes_nothing(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    client.put("a", "1")?;
    let before = client.read("")?;
    let compares =
        vec![Compare::Exists { key: b"a".to_vec() }, Compare::Exists { key: b"b".to_vec() }];
    let found = client.mismatch(compares, vec![put("c", "x"), put("a", "x")])?;
    ensure!(found.len() == 2 && found[0].is_some() && found[1].is_none(), "{found:?}");
    let after = client.read("")?;
    ensure!(after.entries == before.entries, "{after:?}");
    Ok(())
}

fn transaction_is_one_revision(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    client.put("a", "1")?;
    let revision = client.commit(vec![put("b", "2"), delete("a"), put("c", "3")])?;
    let entries = client.read("")?.entries;
    ensure!(entries.len() == 2, "{entries:?}");
    ensure!(entries.iter().all(|entry| entry.modified == revision), "{revision}: {entries:?}");
    Ok(())
}

fn transaction_without_effect_keeps_the_revision(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    client.put("a", "1")?;
    let revision = client.commit(vec![delete("none")])?;
    let outcome = client.try_transact(vec![], vec![]).map_err(|e| e.to_string())?;
    ensure!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    // Others may use the same etcd; the key itself stays as it was.
    let entry = client.find("a")?.ok_or("gone")?;
    ensure!(entry.modified <= revision && entry.modified > Revision(0), "{entry:?}");
    Ok(())
}

fn creation_is_reset_by_deletion(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let first = client.put("k", "1")?;
    client.put("k", "2")?;
    let entry = client.find("k")?.ok_or("gone")?;
    ensure!(entry.created == first, "{entry:?}");
    client.commit(vec![delete("k")])?;
    let again = client.put("k", "3")?;
    let entry = client.find("k")?.ok_or("gone")?;
    ensure!(entry.created == again && entry.modified == again, "{entry:?}");
    Ok(())
}

fn impossible_transaction_is_not_done(fixture: &dyn Fixture) -> Checked {
    let client = Client::of(fixture);
    let twice = client.try_transact(vec![], vec![put("a", "1"), delete("a")]);
    ensure!(matches!(twice, Err(Error::NotDone(_))), "{twice:?}");
    let many = (0..=MAX_OPERATIONS).map(|i| put(&i.to_string(), "")).collect();
    let many = client.try_transact(vec![], many);
    ensure!(matches!(many, Err(Error::NotDone(_))), "{many:?}");
    ensure!(client.read("")?.entries.is_empty(), "it left something");
    let most = (0..MAX_OPERATIONS).map(|i| put(&i.to_string(), "")).collect();
    client.commit(most)?;
    ensure!(client.read("")?.entries.len() == MAX_OPERATIONS, "not all of it was done");
    Ok(())
}

fn no_increment_is_lost(fixture: &dyn Fixture) -> Checked {
    const THREADS: usize = 4;
    const INCREMENTS: usize = 25;
    Client::of(fixture).put("count", "0")?;
    let increment = || -> Checked {
        let client = Client::of(fixture);
        let mut done = 0;
        while done < INCREMENTS {
            let entry = client.find("count")?.ok_or("gone")?;
            let count: usize =
                String::from_utf8_lossy(&entry.value).parse().map_err(|_| "not a number")?;
            let compare = Compare::Modified { key: entry.key, revision: entry.modified };
            let next = put("count", &(count + 1).to_string());
            match client.try_transact(vec![compare], vec![next]) {
                Ok(Outcome::Committed { .. }) => done += 1,
                Ok(Outcome::Mismatch { .. }) => {}
                Err(e) => return Err(e.to_string()),
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(increment)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let count = Client::of(fixture).find("count")?.ok_or("gone")?.value;
    let all = (THREADS * INCREMENTS).to_string();
    ensure!(count == all.as_bytes(), "{} of {all}", String::from_utf8_lossy(&count));
    Ok(())
}
