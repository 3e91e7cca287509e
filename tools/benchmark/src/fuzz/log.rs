//! Lines of the fuzzer, in the form of the reference: `[15:41:35] [INFO ] ...`, errors on standard
//! error. The time is UTC.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::options::Level;

/// Prints the lines of the level.
#[derive(Clone, Copy, Debug)]
pub struct Log(pub Level);

impl Log {
    pub fn error(&self, line: &str) {
        if self.0 >= Level::Error {
            eprintln!("{} [ERROR] {line}", clock());
        }
    }

    pub fn info(&self, line: &str) {
        if self.0 >= Level::Info {
            say(&format!("{} [INFO ] {line}\n", clock()));
        }
    }

    /// Takes a closure, since most runs don't print the line.
    pub fn debug(&self, line: impl FnOnce() -> String) {
        if self.0 >= Level::Debug {
            say(&format!("{} [DEBUG] {}\n", clock(), line()));
        }
    }
}

/// Prints and flushes, so that a reader sees the line now. Ends the program when the pipe is
/// closed.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

fn clock() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("[{:02}:{:02}:{:02}]", now / 3600 % 24, now / 60 % 60, now % 60)
}

/// A command as text: arguments other than plain words are quoted and escaped, long ones cut after
/// `longest` bytes, with their size.
pub fn readable(args: &[Vec<u8>], longest: usize) -> String {
    const MOST: usize = 100;
    let mut words: Vec<String> = args.iter().take(MOST).map(|arg| word(arg, longest)).collect();
    if args.len() > MOST {
        words.push(format!("... ({} arguments)", args.len()));
    }
    words.join(" ")
}

fn word(arg: &[u8], longest: usize) -> String {
    let shown = &arg[..arg.len().min(longest)];
    let is_plain = !shown.is_empty() && shown.iter().all(|byte| byte.is_ascii_graphic());
    let text = match is_plain && !shown.contains(&b'"') && !shown.contains(&b'\\') {
        true => String::from_utf8_lossy(shown).into_owned(),
        false => format!("\"{}\"", shown.escape_ascii()),
    };
    if shown.len() < arg.len() { format!("{text}... ({} bytes)", arg.len()) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_readable() {
        let args = [&b"SET"[..], b"a b", b"", b"\xff\r\n", b"\"", b"xxxxxxxxxxxx"].map(Vec::from);
        assert_eq!(readable(&args, 8), r#"SET "a b" "" "\xff\r\n" "\"" xxxxxxxx... (12 bytes)"#);
        let many = vec![b"a".to_vec(); 101];
        assert!(readable(&many, 8).ends_with(" a ... (101 arguments)"));
    }
}
