//! The machine of an experiment: the facts that explain the figures.
//!
//! Read from `/proc` and `/sys`. Facts that a machine does not report (a virtual one has no
//! frequency governor) stay absent. The machine's name is left out, since results are shared.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

use crate::report::numbers::memory;

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The CPU's own name.
    pub cpu_model: String,
    /// Logical CPUs that are online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// NUMA nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Whether cores run two threads at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smt: Option<bool>,
    /// Frequency governor; several joined by commas if CPUs differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether the CPU may go beyond its nominal frequency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turbo: Option<bool>,
    /// Kernel release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Physical memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Load average of the last minute at the start of the experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
}

impl Host {
    /// This machine; `root` is `/` except in tests.
    pub fn read(root: &Path) -> Self {
        let text = |path: &str| {
            fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_string())
        };
        let list = |path: &str| Some(weft_base::cpulist::parse(&text(path)?).ok()?.len() as u32);
        let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
        Self {
            cpu_model: field(&cpuinfo, "model name").unwrap_or_else(|| "unknown".into()),
            cpus: list("sys/devices/system/cpu/online"),
            nodes: list("sys/devices/system/node/online"),
            smt: text("sys/devices/system/cpu/smt/active").map(|active| active == "1"),
            governor: governors(root),
            turbo: turbo(&text),
            kernel: text("proc/sys/kernel/osrelease"),
            memory_bytes: memory_bytes(root),
            load: text("proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        }
    }

    /// The difference from `other`, without load and memory; none if equal.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let what = if self.cpu_model != other.cpu_model || self.cpus != other.cpus {
            "the CPUs"
        } else if self.kernel != other.kernel {
            "the kernel"
        } else if self.smt != other.smt {
            "SMT"
        } else if self.governor != other.governor || self.turbo != other.turbo {
            "the frequency settings"
        } else {
            return None;
        };
        Some(what.to_string())
    }

    /// The known facts, as names and values for people.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let on_off = |on: bool| if on { "on" } else { "off" }.to_string();
        let mut rows = vec![("CPU", self.cpu_model.clone())];
        let mut add = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
        add("logical CPUs", self.cpus.map(|n| n.to_string()));
        add("NUMA nodes", self.nodes.map(|n| n.to_string()));
        add("SMT", self.smt.map(on_off));
        add("governor", self.governor.clone());
        add("turbo", self.turbo.map(on_off));
        add("kernel", self.kernel.clone());
        add("memory", self.memory_bytes.map(memory));
        add("load at the start", self.load.map(|load| format!("{load:.2}")));
        rows
    }
}

/// Physical memory that the kernel may use.
pub fn memory_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let kib: u64 = field(&text, "MemTotal")?.strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The value of `name : value` in the first such line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (left, right) = line.split_once(':')?;
        (left.trim() == name).then(|| right.trim().to_string())
    })
}

fn governors(root: &Path) -> Option<String> {
    let mut found: Vec<String> = fs::read_dir(root.join("sys/devices/system/cpu"))
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path().join("cpufreq/scaling_governor");
            Some(fs::read_to_string(path).ok()?.trim().to_string())
        })
        .collect();
    found.sort();
    found.dedup();
    (!found.is_empty()).then(|| found.join(","))
}

fn turbo(text: &impl Fn(&str) -> Option<String>) -> Option<bool> {
    if let Some(off) = text("sys/devices/system/cpu/intel_pstate/no_turbo") {
        return Some(off == "0");
    }
    text("sys/devices/system/cpu/cpufreq/boost").map(|on| on == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Host::read(folder.path()).cpu_model, "unknown");
        for (path, text) in [
            ("proc/cpuinfo", "processor : 0\nmodel name\t: Some CPU @ 2 GHz\n"),
            ("proc/meminfo", "MemTotal:        2097152 kB\nMemFree: 1 kB\n"),
            ("proc/loadavg", "0.50 1 2 1/1 1\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("sys/devices/system/cpu/online", "0-23\n"),
            ("sys/devices/system/node/online", "0-1\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let host = Host::read(folder.path());
        let expected = Host {
            cpu_model: "Some CPU @ 2 GHz".into(),
            cpus: Some(24),
            nodes: Some(2),
            smt: Some(false),
            governor: Some("performance,powersave".into()),
            turbo: Some(false),
            kernel: Some("6.1.0".into()),
            memory_bytes: Some(2 << 30),
            load: Some(0.5),
        };
        assert_eq!(host, expected);
        assert_eq!(host.rows().len(), 9);
        assert_eq!(host.difference(&Host { load: Some(9.0), ..host.clone() }), None);
        let other = Host { kernel: Some("6.2.0".into()), ..host.clone() };
        assert_eq!(host.difference(&other).as_deref(), Some("the kernel"));
    }
}
