//! Sets of CPUs as the files of the kernel and ours spell them.
//!
//! Two spellings are in use below `/proc` and `/sys`: lists (`0-3,8`), and masks of
//! hexadecimal digits in groups of 32 bits, the highest first (`ff,00000001`). The same set
//! has many masks, since leading zeros depend on how many CPUs the kernel was built for.
//! So values are compared as sets, and only what is put back is put back as text.

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
    /// The members of either.
    pub fn and(&self, other: &CpuSet) -> Cpus {
        self.iter().chain(other.iter()).collect()
    }

    /// The members that `other` does not have.
    pub fn without(&self, other: &CpuSet) -> Cpus {
        self.iter().filter(|&cpu| !other.contains(cpu)).collect()
    }

    /// The set as a mask, for `rps_cpus` and its like: `00000000` for the empty set.
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

/// Reads a mask; `None` where it is none or names CPUs beyond what we count.
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
    fn what_is_written_is_read_back() {
        for list in ["", "0", "0-31", "5,63-64,1024", "65535"] {
            let cpus = Cpus(cpulist::parse(list).unwrap());
            assert_eq!(parse_mask(&cpus.mask()), Some(cpus.clone()));
            let json = serde_json::to_string(&cpus).unwrap();
            assert_eq!(json, format!("\"{list}\""));
            assert_eq!(serde_json::from_str::<Cpus>(&json).unwrap(), cpus);
        }
        assert!(serde_json::from_str::<Cpus>("\"3-1\"").is_err());
    }
}
