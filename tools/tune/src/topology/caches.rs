//! The caches, and the CPUs that share them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cpus::Cpus;
use crate::host::Host;

/// All caches of one level and kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Caches {
    /// 1 is the nearest to the core.
    pub level: u32,
    /// The kernel's word: `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size of each.
    pub kib: u64,
    /// The CPUs of each, ordered by their first ones.
    pub shared_by: Vec<Cpus>,
}

/// The caches of these CPUs, from the nearest to the farthest.
pub fn read(host: &Host, online: &Cpus) -> Vec<Caches> {
    let mut found: BTreeMap<(u32, String, u64), BTreeMap<usize, Cpus>> = BTreeMap::new();
    for cpu in online.iter() {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache");
        let indices = host.entries(&folder).into_iter().filter(|name| name.starts_with("index"));
        for index in indices {
            let cache = read_one(host, &format!("{folder}/{index}"));
            let Some((level, kind, kib, shared)) = cache else { continue };
            let first = shared.iter().next().unwrap_or(cpu);
            found.entry((level, kind, kib)).or_default().entry(first).or_insert(shared);
        }
    }
    found
        .into_iter()
        .map(|((level, kind, kib), shared)| Caches {
            level,
            kind,
            kib,
            shared_by: shared.into_values().collect(),
        })
        .collect()
}

fn read_one(host: &Host, folder: &str) -> Option<(u32, String, u64, Cpus)> {
    let kib = host.text(&format!("{folder}/size"))?.strip_suffix('K')?.parse().ok()?;
    Some((
        host.number(&format!("{folder}/level"))?,
        host.text(&format!("{folder}/type"))?,
        kib,
        host.list(&format!("{folder}/shared_cpu_list"))?,
    ))
}
