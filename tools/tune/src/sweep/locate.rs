//! Finds programs, and reads their versions.

use anyhow::{Context, Result, bail};
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use crate::results::model::Program;

/// The full path of a program: a path is used as it is; a name is searched in this program's
/// folder, in PEERS_BIN and on PATH.
///
/// # Errors
/// If it is missing or not executable.
pub fn find(name: &str) -> Result<PathBuf> {
    if name.contains('/') {
        let path = std::path::absolute(name)?;
        if !is_program(&path) {
            bail!("{name} is not a program");
        }
        return Ok(path);
    }
    let own_folder = env::current_exe().ok().and_then(|path| path.parent().map(Path::to_path_buf));
    let peers = env::var_os("PEERS_BIN").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = own_folder.into_iter().chain(peers).chain(env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|path| is_program(path)).with_context(|| {
        format!("there is no {name} in the folder of this program, in PEERS_BIN or on PATH")
    })
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The version that a program reports, with its size and time, which show whether it was rebuilt.
///
/// # Errors
/// If it can't be run.
pub fn program(name: &str, path: &Path) -> Result<Program> {
    let output = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    let modified = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(Program {
        name: name.into(),
        version: text.lines().next().unwrap_or("unknown").trim().to_string(),
        bytes: Some(found.len()),
        modified: modified.map(|time| time.as_secs()),
        own_io_threads: None,
        own_reads: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_others_are_not() {
        assert!(find("sh").unwrap().is_absolute());
        assert!(find("/bin/sh").is_ok());
        for wrong in ["/bin", "./no-such-program", "no-such-program-anywhere"] {
            assert!(find(wrong).is_err(), "{wrong}");
        }
    }
}
