//! The lines that differ from the last commit, by git.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Changed lines by file; a file that git does not know is changed as a whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    lines: HashMap<PathBuf, HashSet<usize>>,
    new: HashSet<PathBuf>,
}

impl Changed {
    /// Asks git.
    ///
    /// # Errors
    /// If git is missing, or `root` is not a work tree.
    pub fn read(root: &Path) -> io::Result<Changed> {
        let git = |args: &[&str]| {
            let output = Command::new("git").arg("-C").arg(root).args(args).output()?;
            match output.status.success() {
                true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
                false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim())),
            }
        };
        let mut changed = Changed::parse(&git(&["diff", "--unified=0", "--no-color", "HEAD"])?);
        let new = git(&["ls-files", "--others", "--exclude-standard"])?;
        changed.new = new.lines().map(PathBuf::from).collect();
        Ok(changed)
    }

    fn parse(diff: &str) -> Changed {
        let mut changed = Changed::default();
        let mut file = None;
        for line in diff.lines() {
            if let Some(path) = line.strip_prefix("+++ ") {
                file = path.strip_prefix("b/").map(PathBuf::from);
            } else if let Some(hunk) = line.strip_prefix("@@ ")
                && let Some(file) = &file
                && let Some(added) = hunk.split(' ').find_map(|part| part.strip_prefix('+'))
            {
                let (begin, count) = added.split_once(',').unwrap_or((added, "1"));
                let (begin, count) = (begin.parse().unwrap_or(0), count.parse().unwrap_or(0));
                changed.lines.entry(file.clone()).or_default().extend(begin..begin + count);
            }
        }
        changed
    }

    /// Whether a line differs.
    pub fn has(&self, file: &Path, line: usize) -> bool {
        self.new.contains(file) || self.lines.get(file).is_some_and(|lines| lines.contains(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_names_added_lines() {
        let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +3,2 @@ fn\n-a\n+b\n+c\n\
                    @@ -9 +9 @@\n-d\n+e\n@@ -12 +12,0 @@\n-f\n--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n";
        let changed = Changed::parse(diff);
        let has: Vec<usize> = (0..20).filter(|line| changed.has(Path::new("x"), *line)).collect();
        assert_eq!(has, [3, 4, 9]);
        assert!(!changed.has(Path::new("y"), 0));
    }
}
