//! The libraries of functions, which all threads share.
//!
//! A thread reads the libraries of one moment ([`Libraries`]) and keeps them until [`Functions::version`] has changed. It
//! loads a library into its interpreter when it first calls one of its functions.

mod libraries;
mod library;

pub use libraries::{Found, Libraries};
pub use library::{Function, Head, Library};

use crate::engine::{Host, Interpreter, Level, LibraryId, Stop};
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

/// Loads a library into `interpreter`. Returns its name, and `to` with it; after an error the interpreter doesn't have
/// it.
///
/// # Errors
/// The text of the error reply, without its code.
pub fn load(
    to: &Libraries,
    text: &[u8],
    terms: Terms,
    interpreter: &mut impl Interpreter,
    log: &mut dyn FnMut(Level, &[u8]),
) -> Result<(Vec<u8>, Libraries), Vec<u8>> {
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
    let libraries = library.and_then(|library| to.with(library));
    libraries
        .inspect_err(|_| interpreter.retain(|other| other != id))
        .map(|libraries| (name, libraries))
}

/// Loads libraries of a file or of a payload, in their order. `replaces`: a later one replaces an earlier one of its name.
///
/// # Errors
/// The text of an error reply, without its code.
pub fn load_all<'t>(
    to: Libraries,
    texts: impl IntoIterator<Item = &'t [u8]>,
    terms: Terms,
    interpreter: &mut impl Interpreter,
    log: &mut dyn FnMut(Level, &[u8]),
) -> Result<Libraries, Vec<u8>> {
    texts.into_iter().try_fold(to, |to, text| {
        load(&to, text, terms, interpreter, log).map(|(_, libraries)| libraries)
    })
}

/// Loads a library of the server into another interpreter. Its log lines are dropped: they were written before.
///
/// # Errors
/// The text of the error reply, without its code.
pub fn load_again(library: &Library, interpreter: &mut impl Interpreter) -> Result<(), Vec<u8>> {
    let mut host = Loading { until: None, log: &mut |_, _| {} };
    interpreter.load(library.id, library.code(), &mut host).map(|_| ())
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
