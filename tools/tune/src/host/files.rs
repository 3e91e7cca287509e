//! The files of a host, below a root folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use weft_base::cpulist;

use crate::cpus::{self, Cpus};

/// A host's `/proc` and `/sys`. All paths are relative to its root, without a leading slash.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// The host whose files are below `root`.
    pub fn new(root: &Path) -> Host {
        Host { root: root.to_path_buf() }
    }

    /// The folder that replaces `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A whole file, without white space at its ends.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let bytes = fs::read(self.root.join(path))?;
        // Names of devices and programs may contain anything.
        Ok(String::from_utf8_lossy(&bytes).trim().to_string())
    }

    /// [`Host::read`] without the reason of a failure.
    pub fn text(&self, path: &str) -> Option<String> {
        self.read(path).ok()
    }

    /// A file that contains only a number.
    pub fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// A file with a list of CPUs, such as `0-3,8`.
    pub fn list(&self, path: &str) -> Option<Cpus> {
        cpulist::parse(&self.text(path)?).ok().map(Cpus)
    }

    /// A file with a mask of CPUs, such as `ff,00000001`.
    pub fn mask(&self, path: &str) -> Option<Cpus> {
        cpus::parse_mask(&self.text(path)?)
    }

    /// The names in a folder, in natural order: `rx-2` before `rx-10`. None without such a folder.
    pub fn entries(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.root.join(path))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.sort_by(|a, b| counted(a).cmp(&counted(b)).then_with(|| a.cmp(b)));
        names
    }

    /// The last component of a symbolic link's target.
    pub fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The real path, with links resolved, relative to the root; none if it leads out of it.
    pub fn real(&self, path: &str) -> Option<String> {
        let root = self.root.canonicalize().ok()?;
        let real = self.root.join(path).canonicalize().ok()?;
        Some(real.strip_prefix(root).ok()?.to_string_lossy().into_owned())
    }

    /// Whether there is such a file or folder.
    pub fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// A name, and the number at its end.
fn counted(name: &str) -> (&str, u64) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::Host;
    use weft_testkit::machines::Machine;

    #[test]
    fn files_and_folders() {
        let machine = Machine::empty();
        for name in ["rx-10", "rx-2", "tx-0", "a"] {
            machine.write(&format!("queues/{name}"), " 7 \n");
        }
        machine.write("mask", "1,00000001\n");
        machine.link("link", "queues/rx-2");
        machine.link("out", "/");
        let host = Host::new(machine.root());
        assert_eq!(host.entries("queues"), ["a", "rx-2", "rx-10", "tx-0"]);
        assert!(host.entries("nowhere").is_empty());
        assert_eq!((host.number("link"), host.number::<u8>("mask")), (Some(7), None));
        assert_eq!(host.list("queues/a").unwrap().to_string(), "7");
        assert_eq!(host.mask("mask").unwrap().to_string(), "0,32");
        assert_eq!(host.link_name("link").as_deref(), Some("rx-2"));
        assert_eq!(host.real("link").as_deref(), Some("queues/rx-2"));
        assert_eq!(host.real("out"), None);
        assert!(host.exists("queues") && !host.exists("none"));
    }
}
