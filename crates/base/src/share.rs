//! The paths of man pages and shell completions below a folder like `/usr/local/share`, where `man`
//! and shells find them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A shell that supports completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    Bash,
    Zsh,
    Fish,
}

/// The path of the manual page `name` in `section`.
pub fn man_page(section: u8, name: &str) -> PathBuf {
    PathBuf::from(format!("man/man{section}/{name}.{section}"))
}

/// The path of the completions of the program `name`.
pub fn completion(shell: Completion, name: &str) -> PathBuf {
    match shell {
        Completion::Bash => format!("bash-completion/completions/{name}"),
        Completion::Zsh => format!("zsh/site-functions/_{name}"),
        Completion::Fish => format!("fish/vendor_completions.d/{name}.fish"),
    }
    .into()
}

/// Writes files to their paths below `root`. Returns the paths.
///
/// # Errors
/// Those of creating folders and writing files. Earlier files are already written then.
pub fn write(root: &Path, files: &[(PathBuf, String)]) -> io::Result<Vec<PathBuf>> {
    let one = |(place, text): &(PathBuf, String)| {
        let path = root.join(place);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, text)?;
        Ok(path)
    };
    files.iter().map(one).collect()
}
