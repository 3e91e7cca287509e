//! Sets of CPUs in the spellings of the kernel's files and of ours.
//!
//! Files below `/proc` and `/sys` use two spellings: lists (`0-3,8`), and masks of hexadecimal
//! digits in groups of 32 bits, the highest first (`ff,00000001`). The same set has many masks,
//! since leading zeros depend on the kernel's number of CPUs. So values are compared as sets, and
//! only restored values stay text.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weft_base::cpulist::{self, CpuSet, MAX_CPUS};

/// Bits in one group of a mask.
const GROUP_BITS: usize = 32;

/// A set of CPUs that JSON shows as a list: `"0-3,8"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus(pub CpuSet);

impl Cpus {
    /// The members of both sets.
    pub fn and(&self, other: &CpuSet) -> Cpus {
        self.iter().chain(other.iter()).collect()
    }

    /// The members that are not in `other`.
    pub fn without(&self, other: &CpuSet) -> Cpus {
        self.iter().filter(|&cpu| !other.contains(cpu)).collect()
    }

    /// The set as a mask, for `rps_cpus` and similar files: `00000000` for the empty set.
    pub fn mask(&self) -> String {
        let highest = self.iter().last().unwrap_or(0);
        let mut groups = vec![0u32; highest / GROUP_BITS + 1];
        for cpu in self.iter() {
            groups[cpu / GROUP_BITS] |= 1 << (cpu % GROUP_BITS);
        }
        let groups: Vec<String> = groups.iter().rev().map(|group| format!("{group:08x}")).collect();
        groups.join(",")
    }
}

/// Reads a mask; `None` if it is invalid or names CPUs beyond the limit.
pub fn parse_mask(text: &str) -> Option<Cpus> {
    let mut cpus = CpuSet::new();
    for (at, group) in text.trim().split(',').rev().enumerate() {
        let digits = !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u32::from_str_radix(group, 16).ok().filter(|_| digits)?;
        for bit in (0..GROUP_BITS).filter(|bit| bits >> bit & 1 == 1) {
            let cpu = at * GROUP_BITS + bit;
            if cpu >= MAX_CPUS {
                return None;
            }
            cpus.insert(cpu);
        }
    }
    Some(Cpus(cpus))
}

impl Deref for Cpus {
    type Target = CpuSet;

    fn deref(&self) -> &CpuSet {
        &self.0
    }
}

impl FromIterator<usize> for Cpus {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Cpus {
        Cpus(cpus.into_iter().collect())
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cpus, D::Error> {
        let text = String::deserialize(deserializer)?;
        cpulist::parse(&text).map(Cpus).map_err(serde::de::Error::custom)
    }
}

/// A list with strides, `0-38:2`, for configuration files.
pub fn strided(cpus: &CpuSet) -> String {
    let cpus: Vec<usize> = cpus.iter().collect();
    let mut items: Vec<String> = Vec::new();
    let mut at = 0;
    while at < cpus.len() {
        let step = cpus.get(at + 1).map_or(1, |next| next - cpus[at]);
        let mut end = at;
        while end + 1 < cpus.len() && cpus[end + 1] - cpus[end] == step {
            end += 1;
        }
        match (end - at, step) {
            (0, _) => items.push(cpus[at].to_string()),
            (_, 1) => items.push(format!("{}-{}", cpus[at], cpus[end])),
            // Two numbers are shorter without a range.
            (1, _) => {
                items.push(cpus[at].to_string());
                end = at;
            }
            (_, step) => items.push(format!("{}-{}:{step}", cpus[at], cpus[end])),
        }
        at = end + 1;
    }
    items.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_groups_of_eight_digits() {
        let of = |cpus: &[usize]| cpus.iter().copied().collect::<Cpus>().mask();
        assert_eq!(of(&[]), "00000000");
        assert_eq!(of(&[0, 1, 4]), "00000013");
        assert_eq!(of(&[31, 32]), "00000001,80000000");
        assert_eq!(of(&[0, 64]), "00000001,00000000,00000001");
    }

    #[test]
    fn masks_of_any_width_are_read() {
        for (text, list) in [
            ("3\n", "0-1"),
            ("00000000,00000003", "0-1"),
            ("ff,00000001", "0,32-39"),
            ("0", ""),
            ("1,00000000,00000000", "64"),
        ] {
            assert_eq!(parse_mask(text).unwrap().to_string(), list, "{text}");
        }
        for text in ["", ",", "x", "+1", "100000000", "1,"] {
            assert_eq!(parse_mask(text), None, "{text:?}");
        }
        let beyond = format!("1{}", ",00000000".repeat(MAX_CPUS / GROUP_BITS));
        assert_eq!(parse_mask(&beyond), None);
    }

    #[test]
    fn list_reads_back_as_written() {
        for list in ["", "0", "0-31", "5,63-64,1024", "65535"] {
            let cpus = Cpus(cpulist::parse(list).unwrap());
            assert_eq!(parse_mask(&cpus.mask()), Some(cpus.clone()));
            let json = serde_json::to_string(&cpus).unwrap();
            assert_eq!(json, format!("\"{list}\""));
            assert_eq!(serde_json::from_str::<Cpus>(&json).unwrap(), cpus);
        }
        assert!(serde_json::from_str::<Cpus>("\"3-1\"").is_err());
    }

    #[test]
    fn strides_are_shown_and_mean_the_same() {
        for (list, shown) in [
            ("", ""),
            ("3", "3"),
            ("0-3", "0-3"),
            ("0,2,4,6", "0-6:2"),
            ("0,2", "0,2"),
            ("0,2,3,4", "0,2-4"),
            ("1,3,5,6,7", "1-5:2,6-7"),
        ] {
            let cpus = cpulist::parse(list).unwrap();
            assert_eq!(strided(&cpus), shown);
            assert_eq!(cpulist::parse(shown).unwrap(), cpus);
        }
    }
}
