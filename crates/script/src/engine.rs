//! The two traits between an engine and the executor.
//!
//! The executor runs a script through [`Interpreter`]. The script calls commands through [`Host`].

use crate::flags::ScriptFlags;
use std::hash::{Hash, Hasher};
use weft_resp::Reply;

/// The script must end now. No error handler of the script runs any more, and the host knows the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop;

/// The levels of `redis.log`, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug,
    Verbose,
    Notice,
    Warning,
}

/// The server as a running script sees it.
pub trait Host {
    /// Runs a command of at least one word. Appends its reply in `reply`'s protocol; a failure is an error reply, whose
    /// text begins with an error code.
    ///
    /// # Errors
    /// The script must end, and nothing was appended.
    fn call(&mut self, args: &[&[u8]], reply: &mut Reply) -> Result<(), Stop>;

    /// Called every [`Interpreter::STEP`] instructions or so.
    ///
    /// # Errors
    /// The script must end.
    fn interrupt(&mut self) -> Result<(), Stop>;

    /// Writes to the server's log.
    fn log(&mut self, level: Level, message: &[u8]);

    /// Whether the script's user may run the command; `None`: there is no such command with this number of arguments.
    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool>;

    /// `redis.set_repl`: where the effects of the next commands go. `to_log`: to the append-only file.
    fn set_repl(&mut self, to_log: bool, to_replicas: bool);
}

/// Why a script has not run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The text of the error reply, with its code.
    Error(Vec<u8>),
    /// The host has stopped it.
    Stopped,
}

/// The error replies in a script's result, for the server's statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyErrors {
    /// Errors that commands of the script have returned: they were counted with these commands.
    pub counted: u64,
    /// The codes of the other ones.
    pub new: Vec<Vec<u8>>,
}

/// The arguments of one run.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub keys: &'a [&'a [u8]],
    pub args: &'a [&'a [u8]],
}

/// An interpreter. Each thread that runs scripts has one; it is made at the first use.
pub trait Interpreter {
    /// Instructions between two calls of [`Host::interrupt`].
    const STEP: u32 = 1000;

    /// Compiles a script and keeps it under its hash, for [`Interpreter::run`]. O(bytes).
    ///
    /// # Errors
    /// The text of the error reply.
    fn compile(&mut self, sha: &Sha, body: &[u8]) -> Result<(), Vec<u8>>;

    /// Whether the script is compiled.
    fn knows(&self, sha: &Sha) -> bool;

    /// Forgets a script.
    fn forget(&mut self, sha: &Sha);

    /// Runs a compiled script and appends its result to `reply`, in its protocol. Replies of commands are RESP2 until the
    /// script calls `redis.setresp(3)`. After a failure, `reply` may have a part of it.
    ///
    /// # Errors
    /// The script has failed or was stopped.
    fn run(
        &mut self,
        sha: &Sha,
        input: Input<'_>,
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Result<(), Failure>;

    /// Runs the code of a library and keeps the functions that it registers, for [`Interpreter::call`]. Nothing is kept
    /// after an error. The code calls no commands; `host` gets what it logs, and may stop it.
    ///
    /// # Errors
    /// The text of the error reply, without its code.
    fn load(
        &mut self,
        library: LibraryId,
        code: &[u8],
        host: &mut dyn Host,
    ) -> Result<Vec<Registered>, Vec<u8>>;

    /// Whether the library is loaded.
    fn has(&self, library: LibraryId) -> bool;

    /// Whether any library is loaded.
    fn has_libraries(&self) -> bool;

    /// Forgets the libraries that are not kept.
    fn retain(&mut self, is_kept: impl Fn(LibraryId) -> bool);

    /// As [`Interpreter::run`], for the function with this number among those that a loaded library has registered.
    ///
    /// # Errors
    /// The function has failed or was stopped.
    fn call(
        &mut self,
        function: (LibraryId, usize),
        input: Input<'_>,
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Result<(), Failure>;

    /// Bytes in use.
    fn memory(&self) -> usize;
}

/// The SHA-1 of a script, in lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sha(pub [u8; 40]);

impl Hash for Sha {
    /// 16 digits: 64 bits of a hash already.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let digits = self.0.first_chunk().expect("40 digits");
        state.write_u128(u128::from_ne_bytes(*digits));
    }
}

/// A library in the interpreters of all threads. A library that replaces another has a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LibraryId(pub u64);

/// A function as its library has registered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub name: Vec<u8>,
    pub description: Option<Vec<u8>>,
    pub flags: ScriptFlags,
}
