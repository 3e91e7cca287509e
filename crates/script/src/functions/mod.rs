//! The libraries of functions, which all threads share.
//!
//! A thread reads the libraries of one moment ([`Libraries`]) and keeps them until [`Functions::version`] has changed. It
//! loads a library into its interpreter when it first calls one of its functions.

mod libraries;
mod library;

pub use libraries::{Found, Libraries};
pub use library::{Function, Head, Library};

use crate::engine::{Failure, Host, Interpreter, Level, LibraryId, Stop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use weft_resp::Reply;

/// How long a library that a client sends may take to load.
const MOST_TIME: Duration = Duration::from_millis(500);

/// The functions of a server.
#[derive(Debug, Default)]
pub struct Functions {
    current: RwLock<Arc<Libraries>>,
    version: AtomicU64,
    /// Restarts of functions that are no longer here.
    restarts: AtomicU64,
}

impl Functions {
    /// Changes whenever the libraries do.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The present libraries.
    pub fn current(&self) -> Arc<Libraries> {
        self.current.read().unwrap_or_else(|p| p.into_inner()).clone()
    }

    /// Replaces the libraries. The caller makes sure that no other thread does so since it has read them: it holds the
    /// whole keyspace.
    pub fn replace(&self, libraries: Libraries) {
        let libraries = Arc::new(libraries);
        let mut current = self.current.write().unwrap_or_else(|p| p.into_inner());
        let gone = current
            .all()
            .filter(|old| libraries.library(&old.name).is_none_or(|new| new.id != old.id));
        self.restarts.fetch_add(gone.map(|old| old.restarts()).sum(), Ordering::Relaxed);
        *current = libraries;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Runs of functions that were undone and began again.
    pub fn restarts(&self) -> u64 {
        let present = self.current().all().map(|library| library.restarts()).sum::<u64>();
        self.restarts.load(Ordering::Relaxed) + present
    }
}

/// Numbers the libraries of this process.
fn next_id() -> LibraryId {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LibraryId(LAST.fetch_add(1, Ordering::Relaxed))
}

/// Whether an existing library of the same name is replaced, and whether the time to load is limited.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub replaces: bool,
    pub is_limited: bool,
}

/// Loads a library into `interpreter`, and adds it to `to`. Returns its name.
///
/// # Errors
/// The text of the error reply, without its code. `to` is of no use any more; the interpreter doesn't have the library.
pub fn load(
    to: &mut Libraries,
    text: &[u8],
    terms: Terms,
    interpreter: &mut impl Interpreter,
    log: &mut dyn FnMut(Level, &[u8]),
) -> Result<Vec<u8>, Vec<u8>> {
    let head = Head::parse(text)?;
    let name = head.name.clone();
    if to.library(&name).is_some() && !terms.replaces {
        return Err([b"Library '", &name[..], b"' already exists"].concat());
    }
    let (id, began) = (next_id(), Instant::now());
    let until = terms.is_limited.then(|| began + MOST_TIME);
    let registered = interpreter.load(id, head.code(text), &mut Loading { until, log })?;
    let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let library = Library::new(id, head, text, registered, ns);
    library
        .and_then(|library| to.add(library))
        .inspect_err(|_| interpreter.retain(|other| other != id))
        .map(|()| name)
}

/// Adds the libraries of a file or of a payload to `to`, in their order. O(libraries).
///
/// # Errors
/// The text of an error reply, without its code.
pub fn load_all<'t>(
    mut to: Libraries,
    texts: impl IntoIterator<Item = &'t [u8]>,
    terms: Terms,
    interpreter: &mut impl Interpreter,
    log: &mut dyn FnMut(Level, &[u8]),
) -> Result<Libraries, Vec<u8>> {
    for text in texts {
        load(&mut to, text, terms, interpreter, log)?;
    }
    Ok(to)
}

/// Loads a library of the server into another interpreter, for a call that `host` serves and may stop. Its log lines are
/// dropped: they were written before.
///
/// # Errors
/// The code has failed or was stopped.
pub fn load_again(
    library: &Library,
    interpreter: &mut impl Interpreter,
    host: &mut dyn Host,
) -> Result<(), Failure> {
    let mut host = LoadingAgain { host, is_stopped: false };
    let loaded = interpreter.load(library.id, library.code(), &mut host);
    match (loaded, host.is_stopped) {
        (Ok(_), _) => Ok(()),
        (Err(_), true) => Err(Failure::Stopped),
        (Err(text), false) => Err(Failure::Error([b"ERR ", &text[..]].concat())),
    }
}

/// The host of a call while its library is loaded.
struct LoadingAgain<'a> {
    host: &'a mut dyn Host,
    is_stopped: bool,
}

impl Host for LoadingAgain<'_> {
    fn call(&mut self, _: &[&[u8]], _: &mut Reply) -> Result<(), Stop> {
        Err(Stop)
    }

    fn interrupt(&mut self) -> Result<(), Stop> {
        let end = self.host.interrupt();
        self.is_stopped |= end.is_err();
        end
    }

    fn log(&mut self, _: Level, _: &[u8]) {}

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn set_repl(&mut self, _: bool, _: bool) {}
}

/// The server as a library sees it while it is loaded: it can only log.
struct Loading<'a> {
    until: Option<Instant>,
    log: &'a mut dyn FnMut(Level, &[u8]),
}

impl Host for Loading<'_> {
    fn call(&mut self, _: &[&[u8]], _: &mut Reply) -> Result<(), Stop> {
        Err(Stop)
    }

    fn interrupt(&mut self) -> Result<(), Stop> {
        match self.until {
            Some(until) if Instant::now() > until => Err(Stop),
            Some(_) | None => Ok(()),
        }
    }

    fn log(&mut self, level: Level, message: &[u8]) {
        (self.log)(level, message);
    }

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn set_repl(&mut self, _: bool, _: bool) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lua::Lua;

    fn texts(n: usize) -> Vec<Vec<u8>> {
        let text = |n| format!("#!lua name=l{n}\nredis.register_function('f{n}', function() end)");
        (0..n).map(|n| text(n).into_bytes()).collect()
    }

    fn load_texts(to: Libraries, texts: &[Vec<u8>], replaces: bool) -> Result<Libraries, Vec<u8>> {
        let terms = Terms { replaces, is_limited: false };
        let texts = texts.iter().map(Vec::as_slice);
        load_all(to, texts, terms, &mut Lua::new(), &mut |_, _| {})
    }

    /// A copy of the set for each library would make it quadratic.
    #[test]
    fn loading_many_libraries_copies_no_set() {
        libraries::COPIED.set(0);
        let texts = texts(2000);
        let loaded = load_texts(Libraries::default(), &texts, false).expect("they load");
        let again = load_texts(loaded, &texts, true).expect("they replace themselves");
        assert_eq!(
            (again.all().len(), again.functions(), libraries::COPIED.get()),
            (2000, 2000, 0)
        );
        assert!(again.all().all(|library| again.has_library(library.id)));
        drop(again.clone());
        assert_eq!(libraries::COPIED.get(), 2000);
    }

    /// The call that needs a library can be stopped while the library is loaded again.
    #[test]
    fn stopped_call_ends_the_load() {
        let code = "for n = 1, 1e5 do end redis.register_function('f', function() end)";
        let text = format!("#!lua name=a\n{code}").into_bytes();
        let loaded = load_texts(Libraries::default(), &[text], false).expect("it loads");
        let library = loaded.library(b"a").expect("it is there");
        let mut lua = Lua::new();
        for (until, end) in [(Some(Instant::now()), Err(Failure::Stopped)), (None, Ok(()))] {
            let mut host = Loading { until, log: &mut |_, _| {} };
            assert_eq!(load_again(library, &mut lua, &mut host), end);
            assert_eq!(lua.has(library.id), end.is_ok());
        }
    }

    #[test]
    fn removed_libraries_take_their_functions_along() {
        let loaded = load_texts(Libraries::default(), &texts(3), false).expect("they load");
        let id = loaded.library(b"l1").expect("it is there").id;
        let fewer = loaded.without(b"l1").expect("it was there");
        assert!(!fewer.has_library(id) && fewer.function(b"F1").is_none());
        assert!(fewer.function(b"F2").is_some() && loaded.has_library(id));
        assert!(fewer.without(b"l1").is_none());
        let other = b"#!lua name=l9\nredis.register_function('F2', function() end)".to_vec();
        let error = load_texts(fewer, &[other], false).expect_err("the name is taken");
        assert_eq!(error, b"Function F2 already exists");
    }
}
