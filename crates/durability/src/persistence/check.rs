//! `weft-server --check-rdb`: validates an RDB file and, on demand, prints statistics of its
//! content, without a server.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_persist::rdb::file::{self, Layout, Profile, Report};

/// The parsed options.
#[derive(Debug, Default)]
struct Wish {
    path: PathBuf,
    /// Keys, elements and their sizes, by database and type.
    stats: bool,
    layout: Layout,
    /// The file for the statistics, if not the standard output.
    output: Option<PathBuf>,
}

/// Checks the file named by `words` and returns the exit code. `program`: the name of the
/// executable, for the usage.
pub fn run(program: &str, words: &[OsString]) -> i32 {
    let Some(wish) = parse(words) else {
        eprintln!(
            "Usage: {program} <rdb-file-name> [--format table|info|csv] [--stats] [--output <file>]"
        );
        return 1;
    };
    let path = &wish.path;
    println!("[offset 0] Checking RDB file {}", path.display());
    let opened = match File::open(path) {
        Ok(opened) => opened,
        Err(e) => {
            eprintln!("Can't open '{}': {}", path.display(), weft_process::errors::words(&e));
            println!("[offset 0] Check RDB returned error code 1 (0 means success)");
            return 1;
        }
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut terminal = Terminal { wish: &wish, failed: false };
    let checked = file::check(opened, now.as_millis() as i64, &mut terminal);
    i32::from(!checked.is_right || terminal.failed)
}

/// The file comes first, as in the reference, or anywhere among the options.
fn parse(words: &[OsString]) -> Option<Wish> {
    let mut wish = Wish::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--stats") => wish.stats = true,
            Some("--output") => wish.output = Some(words.next()?.into()),
            Some("--format") => {
                wish.layout = match words.next()?.to_str()? {
                    "table" => Layout::Table,
                    "csv" => Layout::Csv,
                    "info" => Layout::Info,
                    _ => return None,
                }
            }
            _ if wish.path.as_os_str().is_empty() => wish.path = word.into(),
            _ => return None,
        }
    }
    (!wish.path.as_os_str().is_empty()).then_some(wish)
}

/// The operator at a terminal.
struct Terminal<'w> {
    wish: &'w Wish,
    /// The statistics could not be written.
    failed: bool,
}

impl Report for Terminal<'_> {
    fn line(&mut self, line: String) {
        println!("{line}");
    }

    fn wants_profile(&self) -> bool {
        self.wish.stats
    }

    fn profile(&mut self, profile: &Profile) {
        let mut text = profile.lines(self.wish.layout).join("\n");
        text.push('\n');
        let Some(path) = &self.wish.output else { return print!("{text}") };
        let written = File::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(e) = written {
            let e = weft_process::errors::words(&e);
            eprintln!("Cannot open output file: '{}': {e}", path.display());
            self.failed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_options_in_any_order() {
        let parse = |text: &str| {
            let words: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
            parse(&words).map(|wish| (wish.path, wish.stats, wish.layout, wish.output))
        };
        let plain = |layout| Some((PathBuf::from("f"), false, layout, None));
        assert_eq!(parse("f"), plain(Layout::Table));
        assert_eq!(parse("f --format csv"), plain(Layout::Csv));
        assert_eq!(parse("--format info f"), plain(Layout::Info));
        let all = parse("f --stats --output o");
        assert_eq!(all, Some(("f".into(), true, Layout::Table, Some("o".into()))));
        for wrong in ["", "--stats", "f g", "f --format", "f --format form", "f --output", "f --x"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
