//! Man pages and shell completions of a tool, made from the table that parses its command line, so
//! that they always agree.
//!
//! `weft-config` makes the server's pages from its directives. All are installed in the same
//! folders: [`weft_base::share`].

use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};
use weft_base::share::{self, Completion};

/// Writes the pages and completions of `command` below `root`, a folder like `/usr/local/share`:
/// one page for the command and one for each visible subcommand. Returns the written files.
///
/// # Errors
/// If a file can't be written.
pub fn install(command: Command, root: &Path) -> io::Result<Vec<PathBuf>> {
    share::write(root, &files(command)?)
}

/// The files with their places.
fn files(mut command: Command) -> io::Result<Vec<(PathBuf, String)>> {
    command.build();
    let name = command.get_name().to_string();
    let mut files = vec![page(&command, &name)?];
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let full_name = format!("{name}-{}", sub.get_name());
        if sub.get_name() != "help" {
            files.push(page(sub, &full_name)?);
        }
    }
    for (shell, place) in [
        (Shell::Bash, Completion::Bash),
        (Shell::Zsh, Completion::Zsh),
        (Shell::Fish, Completion::Fish),
    ] {
        let mut script = Vec::new();
        generate(shell, &mut command, &name, &mut script);
        files.push((share::completion(place, &name), text(script)?));
    }
    Ok(files)
}

fn page(command: &Command, name: &str) -> io::Result<(PathBuf, String)> {
    let mut page = Vec::new();
    Man::new(command.clone()).title(name.to_uppercase()).render(&mut page)?;
    Ok((share::man_page(1, name), text(page)?))
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn every_option_is_in_every_file() {
        let sub = |name| Command::new(name).about("Does a part").arg(Arg::new("deep").long("deep"));
        let command = Command::new("tool")
            .about("Does something")
            .arg(Arg::new("wide").long("wide").help("How wide"))
            .subcommand(sub("part"))
            .subcommand(sub("secret").hide(true));
        let root = tempfile::tempdir().expect("a folder");
        let written = install(command, root.path()).expect("written");
        let names: Vec<String> = written
            .iter()
            .map(|path| path.strip_prefix(root.path()).expect("inside").display().to_string())
            .collect();
        assert_eq!(
            names,
            [
                "man/man1/tool.1",
                "man/man1/tool-part.1",
                "bash-completion/completions/tool",
                "zsh/site-functions/_tool",
                "fish/vendor_completions.d/tool.fish"
            ]
        );
        let read = |at: usize| std::fs::read_to_string(&written[at]).expect("a file");
        assert!(read(0).contains("How wide") && read(1).contains("deep"));
        for (at, name) in names.iter().enumerate().skip(2) {
            assert!(read(at).contains("wide") && read(at).contains("deep"), "{name}");
        }
    }
}
