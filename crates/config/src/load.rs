//! Loading a configuration: files, standard input, command line.
//!
//! The three are read in this order and a later one overrides an earlier one.
//! Each is lines; a line is a directive and its arguments
//! ([`tokens`](crate::tokens) says how they are quoted), a comment or blank.
//!
//! Anything wrong stops the start with the file, the line and the reason. That includes a directive
//! that is set twice in one file: one of the lines has no effect, and its author should know. Not a
//! repetition are directives that add up (`save`), other classes of
//! `client-output-buffer-limit`, another spelling with the same value (a dump
//! of CONFIG GET has both `replica-priority` and `slave-priority`), and a line
//! in another file: overriding what an include sets is what includes are for.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::config::{Config, explain};
use crate::directive::{Flags, Id};
use crate::files::{Disk, Files};
use crate::glob;
use crate::kind::Reason;
use crate::special::limit_class;
use crate::suggest;
use crate::table::{self, Name};
use crate::tokens;
use crate::value::Value;

/// Includes may nest so deep; a file that includes itself ends here.
const INCLUDE_DEPTH: usize = 16;

/// Where a configuration comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadArgs {
    /// The file, if any.
    pub file: Option<PathBuf>,
    /// Whether standard input is read after it.
    pub stdin: bool,
    /// One directive a line, from the command line.
    pub options: Vec<Vec<u8>>,
}

/// Why a configuration was not loaded. [`Display`](fmt::Display) is the whole
/// message for the terminal, over several lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// A line is wrong.
    Line {
        /// Where the line stands.
        origin: Origin,
        /// Its number, from 1.
        line: usize,
        /// The line without the white space around it. Messages hide passwords.
        text: String,
        /// The error.
        reason: String,
        /// The name that was probably meant, if the name does not exist.
        meant: Option<String>,
    },
    /// The lines are right, but what they ask for cannot be.
    Whole {
        /// The error.
        reason: String,
    },
}

/// Where a line of configuration stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File(PathBuf),
    /// On standard input.
    Stdin,
    /// On the command line; lines are directives, counted from 1.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(path) => write!(out, "file '{}'", path.display()),
            Origin::Stdin => out.write_str("standard input"),
            Origin::CommandLine => out.write_str("the command line"),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = env!("CARGO_PKG_VERSION");
        let title = |of| format!("\n*** FATAL CONFIG {of}ERROR (Version {version}) ***");
        match self {
            LoadError::Unreadable { path, reason } => {
                write!(out, "Fatal error, can't open config file '{}': {reason}", path.display())
            }
            LoadError::Line { origin, line, text, reason, meant } => {
                let text = shown(text, meant.as_deref());
                match origin {
                    Origin::CommandLine => {
                        writeln!(out, "{}\nReading the command line", title(""))?;
                        write!(out, ">>> '{text}'\n{reason}")?;
                    }
                    Origin::File(_) | Origin::Stdin => {
                        writeln!(out, "{}", title("FILE "))?;
                        writeln!(out, "Reading the configuration file, at line {line}")?;
                        write!(out, ">>> '{text}'\n{reason}\n(line {line} of {origin})")?;
                    }
                }
                match meant {
                    Some(meant) => write!(out, "\nDid you mean '{meant}'?"),
                    None => Ok(()),
                }
            }
            LoadError::Whole { reason } => write!(out, "{}\n{reason}", title("FILE ")),
        }
    }
}

impl std::error::Error for LoadError {}

impl Config {
    /// The configuration that `args` describe, read from disk.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(args: &LoadArgs) -> Result<Config, LoadError> {
        Config::load_with(args, Arc::new(Disk))
    }

    /// As [`load`](Self::load). Calls `rename` for each `rename-command`, in order, with the old and the new name, since
    /// only the server knows the names of commands.
    ///
    /// # Errors
    /// The first thing that is wrong, errors of `rename` included.
    pub fn load_and_rename<'a>(
        args: &LoadArgs,
        rename: &'a mut RenameCommand<'a>,
    ) -> Result<Config, LoadError> {
        let mut loader = Loader::new(Config::with_files(Arc::new(Disk)));
        loader.rename = Some(rename);
        loader.all(args)?;
        loader.check_whole()?;
        Ok(loader.config)
    }

    /// As [`load`](Self::load), with files reached through `files`.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load_with(args: &LoadArgs, files: Arc<dyn Files>) -> Result<Config, LoadError> {
        let mut loader = Loader::new(Config::with_files(files));
        loader.all(args)?;
        loader.check_whole()?;
        Ok(loader.config)
    }

    /// The log file of `args`, which do not load: wrong lines are left out. So the log gets the
    /// reason.
    pub fn log_file_of(args: &LoadArgs) -> Option<PathBuf> {
        let mut loader = Loader::new(Config::default());
        loader.lenient = true;
        // Standard input has been read already.
        let args = LoadArgs { stdin: false, ..args.clone() };
        let _ = loader.all(&args);
        loader.config.path(Id::LOGFILE)
    }

    /// The configuration that the text of one file describes; `name` is for
    /// messages and, relative to `dir`, the file that REWRITE would replace.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(name: &Path, text: &[u8], files: Arc<dyn Files>) -> Result<Config, LoadError> {
        let mut loader = Loader::new(Config::with_files(files));
        let path = loader.config.absolute(name.as_os_str().as_bytes());
        loader.config.file = Some(path.clone());
        loader.text(&Origin::File(path), text, 0)?;
        Ok(loader.config)
    }
}

fn wrong_line(origin: &Origin, number: usize, line: &[u8], reason: &str) -> LoadError {
    let name = tokens::split(line).unwrap_or_default().into_iter().next().unwrap_or_default();
    let known = table::lookup(&name).is_some();
    let on_command_line = *origin == Origin::CommandLine;
    let meant = if known { None } else { suggest::suggestion(&name, on_command_line) };
    let text = String::from_utf8_lossy(line).into_owned();
    let reason = reason.to_string();
    LoadError::Line { origin: origin.clone(), line: number, text, reason, meant }
}

/// The line as messages show it. It may have a password, also if the name is misspelt.
fn shown(line: &str, meant: Option<&str>) -> String {
    let is_sensitive = |name: &str| {
        let id = Id::from_name(name.as_bytes());
        id.is_some_and(|id| id.directive().flags.contains(Flags::SENSITIVE))
    };
    let end = line.find(|c: char| c.is_ascii_whitespace()).unwrap_or(line.len());
    let name = line[..end].trim_matches(['"', '\'']);
    if is_sensitive(name) || meant.is_some_and(is_sensitive) {
        format!("{name} (redacted)")
    } else {
        line.to_string()
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> LoadError {
    LoadError::Unreadable { path: path.to_path_buf(), reason: explain(error) }
}

/// Renames a command of the server, from the first name to the second.
pub type RenameCommand<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), &'static str> + 'a;

/// A configuration on its way.
struct Loader<'a> {
    config: Config,
    /// Whether a `save` line has been met: the first one replaces the default
    /// and later ones add to it.
    saves: bool,
    /// Whether lines that are wrong are left out.
    lenient: bool,
    /// Applies each `rename-command`.
    rename: Option<&'a mut RenameCommand<'a>>,
}

/// The settings of a file so far: the directive, and for output limits the class.
type Seen = HashMap<(Id, &'static str), First>;

/// Where a directive was set first.
struct First {
    line: usize,
    spelling: &'static str,
}

impl<'a> Loader<'a> {
    fn new(config: Config) -> Loader<'a> {
        Loader { config, saves: false, lenient: false, rename: None }
    }

    /// Reads everything, in its order.
    fn all(&mut self, args: &LoadArgs) -> Result<(), LoadError> {
        if let Some(file) = &args.file {
            let path = self.config.absolute(file.as_os_str().as_bytes());
            self.config.file = Some(path.clone());
            let read = self.file_or_pattern(&path, 0);
            if !self.lenient {
                read?;
            }
        }
        if args.stdin {
            let content = self.config.files.read_stdin();
            let content = content.map_err(|error| unreadable(Path::new("-"), &error))?;
            self.text(&Origin::Stdin, &content, 0)?;
        }
        self.text(&Origin::CommandLine, &args.options.join(&b'\n'), 0)
    }

    /// Reads one file, or those that a pattern matches.
    fn file_or_pattern(&mut self, path: &Path, depth: usize) -> Result<(), LoadError> {
        let paths = if glob::is_pattern(path.as_os_str().as_bytes()) {
            expand(self.config.files.as_ref(), path)
        } else {
            vec![path.to_path_buf()]
        };
        for path in paths {
            let content = self.config.files.read(&path);
            let content = content.map_err(|error| unreadable(&path, &error))?;
            self.text(&Origin::File(path), &content, depth)?;
        }
        Ok(())
    }

    /// Reads the lines of one source.
    fn text(&mut self, origin: &Origin, text: &[u8], depth: usize) -> Result<(), LoadError> {
        let mut seen = Seen::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let number = index + 1;
            match self.line(origin, number, line, &mut seen, depth) {
                Ok(()) => {}
                Err(_) if self.lenient => {}
                Err(Stop::Inside(error)) => return Err(error),
                Err(Stop::Here(reason)) => return Err(wrong_line(origin, number, line, &reason)),
            }
        }
        Ok(())
    }

    /// Reads one line that is neither blank nor a comment.
    fn line(
        &mut self,
        origin: &Origin,
        number: usize,
        line: &[u8],
        seen: &mut Seen,
        depth: usize,
    ) -> Result<(), Stop> {
        let words = tokens::split(line).ok_or("Unbalanced quotes in configuration line")?;
        let Some((spelled, arguments)) = words.split_first() else {
            return Ok(());
        };
        let name = table::lookup(spelled).ok_or_else(|| unknown(spelled, arguments.len()))?;
        let arguments = spread(name.id, arguments)?;
        let before = self.config.value(name.id).clone();
        self.assign(name.id, &arguments)?;
        if *origin != Origin::CommandLine {
            let same = before == *self.config.value(name.id);
            once(name, number, &arguments, same, seen)?;
        }
        if name.id == Id::RENAME_COMMAND
            && let Some(rename) = &mut self.rename
        {
            rename(&arguments[0], &arguments[1])?;
        }
        if name.id == Id::INCLUDE {
            if depth == INCLUDE_DEPTH {
                return Err(Stop::Here("includes are nested too deeply".into()));
            }
            let path = self.config.absolute(&arguments[0]);
            self.file_or_pattern(&path, depth + 1).map_err(Stop::Inside)?;
        }
        Ok(())
    }

    /// Sets a directive; `save` adds to what an earlier line has set.
    fn assign(&mut self, id: Id, arguments: &[Vec<u8>]) -> Result<(), Reason> {
        if id != Id::SAVE {
            return self.config.assign(id, arguments);
        }
        let before = self.config.save_points().to_vec();
        self.config.assign(id, arguments)?;
        let replaces = !self.saves || matches!(arguments, [only] if only.is_empty());
        self.saves = true;
        if !replaces {
            let points = [before.as_slice(), self.config.save_points()].concat();
            self.config.values[id.index()] = Value::SavePoints(points);
        }
        Ok(())
    }

    /// The checks that need the whole configuration.
    fn check_whole(&mut self) -> Result<(), LoadError> {
        if let Some(path) = self.config.path(Id::LOGFILE)
            && let Err(error) = self.config.files.can_append(&path)
        {
            let path = path.display();
            let reason = format!("Can't open the log file '{path}': {}", explain(&error));
            return Err(LoadError::Whole { reason });
        }
        if self.config.bool(Id::CLUSTER_ENABLED) && self.config.primary().is_some() {
            let reason = "replicaof directive not allowed in cluster mode".to_string();
            return Err(LoadError::Whole { reason });
        }
        Ok(())
    }
}

/// Why reading a line stopped.
enum Stop {
    /// The line itself is wrong.
    Here(Reason),
    /// Something in a file that it includes is.
    Inside(LoadError),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Stop {
        Stop::Here(reason)
    }
}

impl From<&'static str> for Stop {
    fn from(reason: &'static str) -> Stop {
        Stop::Here(reason.into())
    }
}

/// The error for a directive that is not in the table.
fn unknown(name: &[u8], arguments: usize) -> Reason {
    if name.eq_ignore_ascii_case(b"sentinel") {
        "sentinel directive while not in sentinel mode".into()
    } else if name.contains(&b'.') && arguments == 0 {
        "Module config specified without value".into()
    } else if name.contains(&b'.') {
        "Module Configuration detected without loadmodule directive or no ApplyConfig call: \
         aborting"
            .into()
    } else {
        "Bad directive or wrong number of arguments".into()
    }
}

/// The arguments of a directive that takes several may be one quoted string:
/// `save "900 1"` is `save 900 1`.
pub(crate) fn spread(id: Id, arguments: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Reason> {
    match arguments {
        [only] if !only.is_empty() && id.directive().flags.contains(Flags::MULTI) => {
            tokens::split(only).ok_or_else(|| "Unbalanced quotes in configuration line".into())
        }
        _ => Ok(arguments.to_vec()),
    }
}

/// Refuses what the same source has set before, unless it is another spelling
/// and the value stayed the `same`.
fn once(
    name: Name,
    line: usize,
    arguments: &[Vec<u8>],
    same: bool,
    seen: &mut Seen,
) -> Result<(), Reason> {
    let mut classes: Vec<&'static str> = Vec::new();
    if name.id == Id::CLIENT_OUTPUT_BUFFER_LIMIT {
        classes.extend(arguments.chunks(4).filter_map(|group| limit_class(&group[0])));
        classes.sort_unstable();
        classes.dedup();
    } else if !name.id.directive().flags.contains(Flags::REPEATABLE) {
        classes.push("");
    }
    for class in classes {
        let first = seen.entry((name.id, class)).or_insert(First { line, spelling: name.spelling });
        if first.line != line && !(same && first.spelling != name.spelling) {
            let what = if class.is_empty() { name.spelling } else { class };
            return Err(format!("duplicate: '{what}' is already set at line {}", first.line).into());
        }
    }
    Ok(())
}

/// The value that the lines of one directive give, read in order by a server
/// that is like `config` in everything else; `None` when one of them is wrong.
pub(crate) fn replay(config: &Config, id: Id, lines: &[Vec<Vec<u8>>]) -> Option<Value> {
    let mut loader = Loader::new(Config::with_files(Arc::clone(&config.files)));
    for arguments in lines {
        loader.assign(id, arguments).ok()?;
    }
    Some(loader.config.value(id).clone())
}

/// The files that a pattern matches, in byte order of their paths. Directories in the path may be
/// patterns too. As in a shell, a wildcard does not match a dot at the beginning of a name. A
/// folder that cannot be listed has no matches.
pub(crate) fn expand(files: &dyn Files, pattern: &Path) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::new()];
    for component in pattern.components() {
        let part = component.as_os_str();
        paths = match component {
            Component::Normal(part) if glob::is_pattern(part.as_bytes()) => {
                paths.iter().flat_map(|path| expand_part(files, path, part.as_bytes())).collect()
            }
            _ => paths.iter().map(|path| path.join(part)).collect(),
        };
    }
    paths.sort();
    paths
}

fn expand_part(files: &dyn Files, directory: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    let wanted = |name: &OsStr| {
        let name = name.as_bytes();
        let hidden = name.starts_with(b".") && !pattern.starts_with(b".");
        !hidden && glob::matches(pattern, name, false)
    };
    let names = files.list(directory).unwrap_or_default();
    names.iter().filter(|name| wanted(name)).map(|name| directory.join(name)).collect()
}
