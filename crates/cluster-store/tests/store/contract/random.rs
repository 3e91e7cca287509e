//! Random transactions of two clients, compared with a map.

use super::{Case, Checked, Client, Fixture, delete, ensure, next, put};
use std::collections::BTreeMap;
use weft_cluster_store::store::{Change, Compare, Entry, Operation, Outcome};
use weft_testkit::rng::Rng;

pub const CASES: &[Case] = &[("random_transactions_are_those_of_a_map", random_transactions)];

const KEYS: [&str; 5] = ["r/a", "r/b", "r/c", "s", "r"];
const STEPS: usize = 150;

type Model = BTreeMap<Vec<u8>, Entry>;

fn random_transactions(fixture: &dyn Fixture) -> Checked {
    let clients = [Client::of(fixture), Client::of(fixture)];
    let start = clients[0].read("")?.revision.next();
    let mut rng = Rng::new(30);
    let mut model = Model::new();
    // Entries as they once were, whose revisions and values are compared.
    let mut seen: Vec<Entry> = Vec::new();
    let mut expected = Vec::new();
    for step in 0..STEPS {
        let client = &clients[rng.below(2)];
        let (compares, operations) = (compares(&mut rng, &seen), operations(&mut rng, step));
        let holds = compares.iter().all(|compare| holds(&model, compare));
        let outcome = client.try_transact(compares.clone(), operations.clone());
        match outcome.map_err(|e| e.to_string())? {
            Outcome::Committed { revision } if holds => {
                let changes = apply(&mut model, &operations, revision);
                seen.extend(model.values().filter(|e| e.modified == revision).cloned());
                let of_prefix = changes.iter().filter(|change| key(change).starts_with(b"r/"));
                let changes: Vec<Change> = of_prefix.cloned().collect();
                if !changes.is_empty() {
                    expected.push((revision, changes));
                }
            }
            Outcome::Mismatch { found, .. } if !holds => {
                let real: Vec<Option<Entry>> =
                    compares.iter().map(|compare| model.get(compare.key()).cloned()).collect();
                ensure!(found == real, "step {step}: found {found:?} instead of {real:?}");
            }
            other => return Err(format!("step {step}: {compares:?} gives {other:?}")),
        }
        let entries = clients[rng.below(2)].read("")?.entries;
        let real: Vec<Entry> = model.values().cloned().collect();
        ensure!(entries == real, "step {step}: {entries:?} instead of {real:?}");
    }
    let mut watch = clients[0].watch("r/", start)?;
    for (revision, changes) in expected {
        let batch = next(&mut watch)?;
        ensure!(
            batch.revision == revision && batch.changes == changes,
            "{batch:?} instead of {revision}: {changes:?}"
        );
    }
    Ok(())
}

fn compares(rng: &mut Rng, seen: &[Entry]) -> Vec<Compare> {
    let count = rng.below(3);
    (0..count).map(|_| compare(rng, seen)).collect()
}

fn compare(rng: &mut Rng, seen: &[Entry]) -> Compare {
    let key = rng.pick(&KEYS).as_bytes().to_vec();
    // Mostly of the recent past.
    let entry = (!seen.is_empty()).then(|| {
        let back = rng.below(seen.len().min(4));
        seen[seen.len() - 1 - back].clone()
    });
    match (rng.below(4), entry) {
        (0, Some(entry)) => Compare::Value { key: entry.key, value: entry.value },
        (1, Some(entry)) => Compare::Modified { key: entry.key, revision: entry.modified },
        (2, _) => Compare::Exists { key },
        _ => Compare::Absent { key },
    }
}

fn operations(rng: &mut Rng, step: usize) -> Vec<Operation> {
    let mut keys = KEYS;
    rng.shuffle(&mut keys);
    let count = 1 + rng.below(3);
    // Few values, so that a key gets the same value by several revisions.
    let value = (step % 3).to_string();
    let operation = |key: &&str| match rng.percent(30) {
        true => delete(key),
        false => put(key, &value),
    };
    keys[..count].iter().map(operation).collect()
}

fn holds(model: &Model, compare: &Compare) -> bool {
    let entry = model.get(compare.key());
    match compare {
        Compare::Value { value, .. } => entry.is_some_and(|entry| entry.value == *value),
        Compare::Modified { revision, .. } => entry.is_some_and(|e| e.modified == *revision),
        Compare::Exists { .. } => entry.is_some(),
        Compare::Absent { .. } => entry.is_none(),
    }
}

fn apply(
    model: &mut Model,
    operations: &[Operation],
    revision: weft_cluster_store::store::Revision,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for operation in operations {
        match operation {
            Operation::Put { key, value, lease } => {
                let created = model.get(key).map_or(revision, |entry| entry.created);
                let (key, value) = (key.clone(), value.clone());
                let entry =
                    Entry { key: key.clone(), value, created, modified: revision, lease: *lease };
                model.insert(key, entry.clone());
                changes.push(Change::Put(entry));
            }
            Operation::Delete { key } => {
                if model.remove(key).is_some() {
                    changes.push(Change::Deleted { key: key.clone() });
                }
            }
        }
    }
    changes
}

fn key(change: &Change) -> &[u8] {
    match change {
        Change::Put(entry) => &entry.key,
        Change::Deleted { key } => key,
    }
}
