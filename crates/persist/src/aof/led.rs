//! The mark in a manifest: the primary of a cluster's shard of which the files have every write that it confirmed.
//!
//! ```text
//! # weft-led INCARNATION EPOCH INODE BIRTH
//! ```
//!
//! For servers that don't know it, it is a comment. Inode and birth are those of the manifest itself. Every change of the manifest
//! makes another file, so the mark of a copied or restored manifest doesn't count: its files may be older than the last confirmed write.

use crate::storage::Identity;

/// A primary: an incarnation of a node, in an epoch of its shard. No other primary has the same epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Led {
    pub incarnation: u64,
    pub epoch: u64,
}

const WORDS: &str = "# weft-led ";

/// The line in the manifest that is `file`.
pub(super) fn line(led: Led, file: Identity) -> String {
    let Led { incarnation, epoch } = led;
    format!("{WORDS}{incarnation} {epoch} {} {}\n", file.inode, file.birth)
}

/// The mark in the text of the manifest that is `file`.
pub(super) fn find(text: &[u8], file: Identity) -> Option<Led> {
    let text = std::str::from_utf8(text).ok()?;
    let mut marks = text.split_inclusive('\n').filter_map(|line| parse(line, file));
    marks.next()
}

fn parse(line: &str, file: Identity) -> Option<Led> {
    let numbers = line.strip_prefix(WORDS)?.strip_suffix('\n')?;
    let mut numbers = numbers.split(' ').map(|number| number.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    let led = Led { incarnation: next()?, epoch: next()? };
    let of = Identity { inode: next()?, birth: next()? };
    (of == file).then_some(led)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::{Directory, Manifest};
    use crate::storage::Disk;
    use std::sync::Arc;

    const LED: Led = Led { incarnation: u64::MAX, epoch: 12 };

    #[test]
    fn mark_counts_in_its_own_file_only() {
        let file = Identity { inode: 3, birth: 4 };
        let text = format!("file a seq 1 type b\n{}", line(LED, file));
        assert_eq!(find(text.as_bytes(), file), Some(LED));
        assert_eq!(find(text.as_bytes(), Identity { inode: 4, ..file }), None);
        assert_eq!(find(text.as_bytes(), Identity { birth: 5, ..file }), None);
        assert_eq!(find(text.trim_end().as_bytes(), file), None, "a torn line");
        assert_eq!(find(b"# weft-led 1 2 3\n", file), None);
        assert!(Manifest::parse(text.as_bytes()).is_ok());
    }

    #[test]
    fn copied_manifest_has_no_mark() {
        let root = tempfile::tempdir().expect("a folder");
        let dir = Directory::new(Arc::new(Disk), root.path(), "log", "a.aof");
        dir.create().expect("created");
        let mut manifest = Manifest::of_single_file("a.aof");
        manifest.led = Some(LED);
        dir.put(&manifest).expect("written");
        assert_eq!(dir.manifest().expect("valid"), manifest);
        let (path, copy) = (dir.path("a.aof.manifest"), dir.path("copy"));
        let older = std::fs::read(&path).expect("read");
        dir.put(&manifest).expect("written");
        // As `cp` does, into the file that is there.
        std::fs::write(&path, &older).expect("restored");
        assert_eq!(dir.manifest().expect("valid").led, None);
        dir.put(&manifest).expect("written");
        std::fs::copy(&path, &copy).expect("copied");
        std::fs::rename(&copy, &path).expect("moved");
        assert_eq!(dir.manifest().expect("valid").led, None);
    }
}
