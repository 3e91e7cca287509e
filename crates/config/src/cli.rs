//! The command line of the server.
//!
//! ```text
//! weft-server [/path/to/weft.conf] [options] [-]
//! ```
//!
//! Options are directives after two dashes, `--port 6380 --save 900 1`, and override the file; `-`
//! in the first or last place reads standard input between the two. This page turns arguments into
//! lines of configuration; the loader checks and interprets them.
//!
//! The border between two options follows the reference closely, because service files depend on
//! it: an option takes arguments up to the next one that begins with two dashes, but at least one,
//! so that
//! `--requirepass --x` sets a password. `--save` alone is different: an empty
//! list is what scripts produce that want no save points.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::config::to_path;
use crate::load::LoadArgs;
use crate::tokens;

/// The action that a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cli {
    /// Run with this configuration.
    Run(LoadArgs),
    /// Print the version.
    Version,
    /// Print [`USAGE`].
    Help,
    /// Check a file of a snapshot: these words.
    CheckRdb(Vec<OsString>),
    /// Check the files of an append-only log: these words.
    CheckAof(Vec<OsString>),
    /// Write man pages and completions below this folder.
    InstallDocs(PathBuf),
}

/// The answer to `--help`.
pub const USAGE: &str = "\
Usage: weft-server [CONFIG-FILE] [--DIRECTIVE VALUE ...] [-]
       weft-server OPTION

Starts a server. Without arguments it listens on 127.0.0.1 and ::1, port 6379.

  CONFIG-FILE             weft.conf, redis.conf or valkey.conf
  --DIRECTIVE VALUE ...   any directive of weft.conf; overrides the file
  -                       reads more directives from standard input, before the
                          options

Options:
  -h, --help              print this help
  -v, --version           print the version
  --check-rdb FILE        validate a snapshot and print its faults
      --stats                 count keys and elements, by database and type
      --format FORMAT         table, info or csv: the form of these numbers
      --output FILE           write them to a file
  --check-aof FILE        validate an append-only file, or the files that a
                          manifest lists, and print their faults
      --fix                   cut the last file after its valid part
      --truncate-to-timestamp SECONDS
                              cut it before later commands
  --install-docs FOLDER   write man pages and completions for bash, zsh and fish
                          below a folder, for example ~/.local/share

A link named weft-check validates the file that it is given.

Examples:
  weft-server
  weft-server /etc/weft/6379.conf
  weft-server --port 7777 --maxmemory 1gb --maxmemory-policy allkeys-lru
  weft-server /etc/weft/6379.conf --loglevel verbose -
  echo 'maxmemory 128mb' | weft-server -
  weft-server --check-aof --fix appendonlydir/appendonly.aof.manifest
";

/// Reads a command line; `arguments` are those after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Cli {
    let arguments: Vec<Vec<u8>> = arguments.into_iter().map(OsStringExt::into_vec).collect();
    match arguments.first().map(Vec::as_slice) {
        None => return Cli::Run(LoadArgs::default()),
        Some(b"-v" | b"--version") => return Cli::Version,
        Some(b"-h" | b"--help") => return Cli::Help,
        Some(b"--install-docs") if arguments.len() == 2 => {
            return Cli::InstallDocs(file(&arguments[1]));
        }
        Some(b"--check-rdb") => {
            return Cli::CheckRdb(words(&arguments[1..]));
        }
        Some(b"--check-aof") => {
            return Cli::CheckAof(words(&arguments[1..]));
        }
        Some(_) => {}
    }
    let mut args = LoadArgs::default();
    let mut rest = arguments.as_slice();
    if !rest[0].starts_with(b"-") {
        args.file = Some(file(&rest[0]));
        rest = &rest[1..];
    }
    let mut lines = Lines::default();
    for (index, argument) in rest.iter().enumerate() {
        // Where the file would stand, or at the end.
        let edge = args.file.is_none() && index == 0 || index + 1 == rest.len();
        if argument == b"-" && edge {
            args.stdin = true;
        } else if argument.starts_with(b"--") && !lines.needs_argument {
            lines.option(&argument[2..], rest.get(index + 1));
        } else {
            lines.argument(argument);
        }
    }
    args.options = lines.done;
    Cli::Run(args)
}

/// The program's role by the name of a link to it: `weft-check` (a snapshot or a log, by what the
/// file is), `weft-check-rdb`, `weft-check-aof`, or the same names of the servers that it replaces.
/// `None`: the server.
pub fn by_name(program: &OsStr, arguments: impl IntoIterator<Item = OsString>) -> Option<Cli> {
    let name = Path::new(program).file_name()?.to_str()?;
    let tool = ["weft-check", "valkey-check", "redis-check"];
    let which = tool.iter().find_map(|tool| name.strip_prefix(tool))?;
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let is =
        |words: &[&str]| arguments.len() == 1 && words.iter().any(|word| arguments[0] == *word);
    if is(&["-v", "--version"]) {
        return Some(Cli::Version);
    }
    match which {
        "-rdb" => Some(Cli::CheckRdb(arguments)),
        "-aof" => Some(Cli::CheckAof(arguments)),
        "" if is(&["-h", "--help"]) || arguments.is_empty() => Some(Cli::Help),
        "" if arguments.iter().any(|word| is_of_log(word)) => Some(Cli::CheckAof(arguments)),
        "" => Some(Cli::CheckRdb(arguments)),
        _ => None,
    }
}

/// Whether the word is an option for the files of a log, or names one of them. The base of a log
/// has the form of a snapshot, and the name of a file of the log.
fn is_of_log(word: &OsStr) -> bool {
    let ending = Path::new(word).extension();
    word == "--fix"
        || word == "--truncate-to-timestamp"
        || ending.is_some_and(|ending| ending == "aof" || ending == "manifest")
}

fn words(arguments: &[Vec<u8>]) -> Vec<OsString> {
    arguments.iter().map(|word| file(word).into_os_string()).collect()
}

fn file(argument: &[u8]) -> PathBuf {
    to_path(argument)
}

/// Lines of configuration under construction.
#[derive(Default)]
struct Lines {
    done: Vec<Vec<u8>>,
    /// Whether the last option has no argument yet, so that whatever follows
    /// is one.
    needs_argument: bool,
}

impl Lines {
    /// Begins the line of an option: a name, or a whole line in one argument.
    fn option(&mut self, text: &[u8], next: Option<&Vec<u8>>) {
        let only_name = tokens::split(text).is_some_and(|words| words.len() == 1);
        let ends_here = next.is_none_or(|next| next.starts_with(b"--"));
        let mut line = text.to_vec();
        if only_name && text.eq_ignore_ascii_case(b"save") && ends_here {
            line.extend(b" \"\"");
            self.needs_argument = false;
        } else {
            self.needs_argument = only_name;
        }
        self.done.push(line);
    }

    /// Adds an argument to the last option's line. Without an option it is a
    /// line of its own, which the loader will not know.
    fn argument(&mut self, argument: &[u8]) {
        let quoted = tokens::quote(argument);
        match self.done.last_mut() {
            Some(line) => {
                line.push(b' ');
                line.extend(quoted);
            }
            None => self.done.push(quoted),
        }
        self.needs_argument = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::{Id, Status};

    fn run(arguments: &[&str]) -> (Option<PathBuf>, bool, Vec<String>) {
        match parse(arguments.iter().map(OsString::from)) {
            Cli::Run(args) => {
                let text = |line| String::from_utf8(line).unwrap();
                (args.file, args.stdin, args.options.into_iter().map(text).collect())
            }
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    fn options(arguments: &[&str]) -> Vec<String> {
        let (file, stdin, options) = run(arguments);
        assert_eq!((file, stdin), (None, false), "{arguments:?}");
        options
    }

    #[test]
    fn version_and_help() {
        for (argument, expected) in [
            ("-v", Cli::Version),
            ("--version", Cli::Version),
            ("-h", Cli::Help),
            ("--help", Cli::Help),
        ] {
            assert_eq!(parse([OsString::from(argument)]), expected);
        }
        let docs = ["--install-docs", "/a"].map(OsString::from);
        assert_eq!(parse(docs), Cli::InstallDocs("/a".into()));
        let check = ["--check-rdb", "/a"].map(OsString::from);
        assert_eq!(parse(check), Cli::CheckRdb(vec!["/a".into()]));
    }

    #[test]
    fn links() {
        let by_name = |program: &str, words: &[&str]| {
            by_name(OsStr::new(program), words.iter().map(OsString::from))
        };
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let rdb = |of: &[&str]| Some(Cli::CheckRdb(words(of)));
        let log = |of: &[&str]| Some(Cli::CheckAof(words(of)));
        assert_eq!(by_name("weft-server", &["a.aof"]), None);
        assert_eq!(by_name("/bin/weft-check", &["a.rdb", "--stats"]), rdb(&["a.rdb", "--stats"]));
        assert_eq!(by_name("weft-check", &["d/a.manifest"]), log(&["d/a.manifest"]));
        assert_eq!(by_name("weft-check", &["--fix", "a"]), log(&["--fix", "a"]));
        assert_eq!(by_name("weft-check-rdb", &["a.aof"]), rdb(&["a.aof"]));
        assert_eq!(by_name("valkey-check-aof", &[]), log(&[]));
        assert_eq!(by_name("weft-check", &[]), Some(Cli::Help));
        assert_eq!(by_name("weft-check-aof", &["-v"]), Some(Cli::Version));
        assert_eq!(by_name("weft-checker", &[]), None);
    }

    /// The examples of the help work in this version.
    #[test]
    fn help_names_only_what_works() {
        let options = USAGE.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        let options = options.map(|name| name.trim_end_matches([',', '.']));
        let own = [
            "version",
            "help",
            "check-rdb",
            "install-docs",
            "check-aof",
            "fix",
            "truncate-to-timestamp",
            "stats",
            "format",
            "output",
            // A placeholder.
            "DIRECTIVE",
        ];
        let directives: Vec<&str> = options.filter(|name| !own.contains(name)).collect();
        assert!(directives.len() >= 4, "{directives:?}");
        for name in directives {
            let id = Id::from_name(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(id.directive().status, Status::Effective, "{name}");
        }
    }

    #[test]
    fn file_and_stdin() {
        assert_eq!(run(&[]), (None, false, vec![]));
        assert_eq!(run(&["a.conf"]), (Some("a.conf".into()), false, vec![]));
        assert_eq!(run(&["-"]), (None, true, vec![]));
        assert_eq!(run(&["a.conf", "-"]), (Some("a.conf".into()), true, vec![]));
        let (file, stdin, lines) = run(&["a.conf", "--port", "1", "-"]);
        assert_eq!((file, stdin), (Some("a.conf".into()), true));
        assert_eq!(lines, [r#"port "1""#]);
        let (_, stdin, lines) = run(&["--logfile", "-", "--port", "1"]);
        assert_eq!((stdin, lines), (false, vec![r#"logfile "-""#.into(), r#"port "1""#.into()]));
    }

    #[test]
    fn options_and_arguments() {
        for (arguments, lines) in [
            (vec!["--port", "1", "--bind", "a", "b"], vec![r#"port "1""#, r#"bind "a" "b""#]),
            (vec!["--port 6380", "--timeout", "1"], vec!["port 6380", r#"timeout "1""#]),
            (vec!["--save", "900 1"], vec![r#"save "900 1""#]),
            (vec!["--save"], vec![r#"save """#]),
            (vec!["--save", ""], vec![r#"save """#]),
            (vec!["--save", "--port", "1"], vec![r#"save """#, r#"port "1""#]),
            (vec!["--requirepass", "--x"], vec![r#"requirepass "--x""#]),
            (vec!["--requirepass", "a\"b c"], vec![r#"requirepass "a\"b c""#]),
            (vec!["-x"], vec![r#""-x""#]),
            (vec!["--port=1"], vec!["port=1"]),
        ] {
            assert_eq!(options(&arguments), lines, "{arguments:?}");
        }
    }
}
