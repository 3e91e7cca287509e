//! A script: its text, the flags of its first line, and the history of its runs.

use crate::engine::Sha;
use crate::flags::ScriptFlags;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Which shards a script must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Scope {
    /// The shards of its declared keys. It may get more while it runs, or start over.
    #[default]
    Keys,
    /// All; other threads run commands without keys meanwhile.
    AllShards,
}

/// Facts that earlier runs of a script have shown.
#[derive(Debug, Default)]
pub struct History {
    scope: AtomicU8,
    is_long: AtomicBool,
    /// Runs that were undone and began again.
    restarts: AtomicU64,
}

impl History {
    pub fn scope(&self) -> Scope {
        match self.scope.load(Ordering::Relaxed) {
            0 => Scope::Keys,
            _ => Scope::AllShards,
        }
    }

    /// A run needed this scope.
    pub fn widen(&self, scope: Scope) {
        self.scope.fetch_max(scope as u8, Ordering::Relaxed);
    }

    /// Whether the last run was too long for an I/O thread.
    pub fn is_long(&self) -> bool {
        self.is_long.load(Ordering::Relaxed)
    }

    pub fn set_long(&self, is_long: bool) {
        if self.is_long() != is_long {
            self.is_long.store(is_long, Ordering::Relaxed);
        }
    }

    pub fn count_restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }
}

/// A script in the cache.
#[derive(Debug)]
pub struct Script {
    pub sha: Sha,
    pub body: Box<[u8]>,
    /// Of its first line; `None` without one: such a script may do everything.
    pub flags: Option<ScriptFlags>,
    pub history: History,
    /// When a thread has last found it in the cache, in the cache's own count.
    pub(crate) used: AtomicU64,
    /// Whether a thread that knows it has used it since the cache last looked for one to evict.
    pub(crate) is_recent: AtomicBool,
    /// Whether it is still in the cache.
    pub(crate) is_live: AtomicBool,
}

impl Script {
    /// A script with this text, not in a cache yet.
    ///
    /// # Errors
    /// The text of the error reply: the first line is invalid.
    pub fn new(sha: Sha, body: &[u8]) -> Result<Script, Vec<u8>> {
        let flags = flags_of(body)?;
        Ok(Script {
            sha,
            body: body.into(),
            flags,
            history: History::default(),
            used: AtomicU64::new(0),
            is_recent: AtomicBool::new(false),
            is_live: AtomicBool::new(false),
        })
    }

    /// Whether it is still in the cache.
    pub fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// Protects it from eviction. Writes only once after each eviction: many threads share the script.
    pub fn note_use(&self) {
        if !self.is_recent.load(Ordering::Relaxed) {
            self.is_recent.store(true, Ordering::Relaxed);
        }
    }

    /// The source for the interpreter: without the first line's text, but with its line end, so that lines keep their
    /// numbers.
    pub fn source(&self) -> &[u8] {
        match self.flags {
            None => &self.body,
            Some(_) => &self.body[first_line(&self.body).len()..],
        }
    }

    /// Approximate bytes of its text and entry.
    pub fn memory(&self) -> usize {
        size_of::<Script>() + self.body.len()
    }
}

/// The text before the first line end.
fn first_line(body: &[u8]) -> &[u8] {
    &body[..body.iter().position(|b| *b == b'\n').unwrap_or(body.len())]
}

/// The flags of a script's first line; `None` if it doesn't begin with `#!`.
///
/// # Errors
/// The text of the error reply.
pub fn flags_of(body: &[u8]) -> Result<Option<ScriptFlags>, Vec<u8>> {
    if !body.starts_with(b"#!") {
        return Ok(None);
    }
    let line = first_line(body);
    if line.len() == body.len() {
        return Err(b"ERR Invalid script shebang".to_vec());
    }
    let mut words = line[2..].split(|b| *b == b' ').filter(|word| !word.is_empty());
    let engine = words.next().ok_or_else(|| b"ERR Invalid engine in script shebang".to_vec())?;
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err([b"ERR Could not find scripting engine '", engine, b"'"].concat());
    }
    let mut flags = ScriptFlags::default();
    for word in words {
        let Some(names) = word.strip_prefix(b"flags=") else {
            return Err([b"ERR Unknown lua shebang option: ", word].concat());
        };
        for name in names.split(|b| *b == b',').filter(|name| !name.is_empty()) {
            if !flags.add(name) {
                return Err([b"ERR Unexpected flag in script shebang: ", name].concat());
            }
        }
    }
    Ok(Some(flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(body: &str) -> Result<Option<ScriptFlags>, String> {
        flags_of(body.as_bytes()).map_err(|e| String::from_utf8_lossy(&e).into_owned())
    }

    #[test]
    fn first_lines() {
        assert_eq!(flags("return 1"), Ok(None));
        assert_eq!(flags("#!lua\nreturn 1"), Ok(Some(ScriptFlags::default())));
        let both = ScriptFlags { no_writes: true, allow_stale: true, ..ScriptFlags::default() };
        assert_eq!(flags("#!lua flags=no-writes,allow-stale\nreturn 1"), Ok(Some(both)));
        assert_eq!(flags("#!lua"), Err("ERR Invalid script shebang".into()));
        assert_eq!(flags("#!js\nx"), Err("ERR Could not find scripting engine 'js'".into()));
        assert_eq!(flags("#!lua name=x\n"), Err("ERR Unknown lua shebang option: name=x".into()));
        assert_eq!(
            flags("#!lua flags=x\n"),
            Err("ERR Unexpected flag in script shebang: x".into())
        );
    }

    #[test]
    fn lines_keep_their_numbers() {
        let sha = Sha([b'0'; 40]);
        let script = Script::new(sha, b"#!lua flags=no-writes\nreturn 1").expect("a script");
        assert_eq!(script.source(), b"\nreturn 1");
        assert_eq!(Script::new(sha, b"return 1").expect("a script").source(), b"return 1");
    }
}
