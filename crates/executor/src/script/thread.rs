//! The interpreter of a thread, the scripts that it has compiled, and the libraries that it has loaded.

use super::code::Code;
use super::known::{Known, KnownScripts};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_resp::Reply;
use weft_script::engine::{Failure, Host, Input, Interpreter, ReplyErrors, Sha};
use weft_script::functions::{Found, Libraries, load_again};
use weft_script::lua::Lua;
use weft_script::{Script, sha_of};
use weft_state::server::Server;

/// Bytes of compiled scripts, about. More would leave too little memory to run them: it forgets all, too.
const MOST_COMPILED_BYTES: usize = 256 << 20;

/// The interpreter of one thread. It is made when the thread runs its first script.
pub struct ThreadScripts {
    lua: Lua,
    known: KnownScripts,
    /// The libraries that the thread has last seen, and their version. The interpreter may have fewer of them, and has
    /// no others.
    libraries: Arc<Libraries>,
    version: u64,
    /// The memory that INFO counts for it.
    published: usize,
}

impl Default for ThreadScripts {
    fn default() -> Self {
        ThreadScripts {
            lua: Lua::new(),
            known: KnownScripts::default(),
            libraries: Arc::default(),
            version: 0,
            published: 0,
        }
    }
}

impl ThreadScripts {
    /// The script with this hash, compiled. `None`: the server doesn't have it.
    pub fn by_hash(&mut self, srv: &Server, sha: &[u8]) -> Option<Arc<Script>> {
        let mut sha = Sha(sha.try_into().ok()?);
        sha.0.make_ascii_lowercase();
        match self.known.find(&sha) {
            Known::Script(script) => {
                script.note_use();
                return Some(script);
            }
            Known::Gone => self.lua.forget(&sha),
            Known::No => {}
        }
        let script = srv.scripts.cache.find(&sha)?;
        // It was compiled before it was added to the cache, on this or another thread.
        self.compile(&script).ok()?;
        self.keep(srv, &script);
        Some(script)
    }

    /// The script with this text, compiled and in the server's cache. `is_kept`: SCRIPT LOAD.
    ///
    /// # Errors
    /// The text of the error reply.
    pub fn by_text(
        &mut self,
        srv: &Server,
        body: &[u8],
        is_kept: bool,
    ) -> Result<Arc<Script>, Vec<u8>> {
        let sha = sha_of(body);
        if let Some(found) = self.by_hash(srv, &sha.0)
            && !is_kept
        {
            return Ok(found);
        }
        let script = Script::new(sha, body)?;
        if !self.lua.knows(&sha) {
            self.compile(&script)?;
        }
        let script = srv.scripts.cache.add(script, is_kept);
        self.keep(srv, &script);
        Ok(script)
    }

    fn compile(&mut self, script: &Script) -> Result<(), Vec<u8>> {
        if self.lua.memory() > MOST_COMPILED_BYTES {
            let others = self.known.take_others(&script.sha);
            others.iter().for_each(|sha| self.lua.forget(sha));
            self.lua.collect_all();
        }
        self.lua.compile(&script.sha, script.source())
    }

    fn keep(&mut self, srv: &Server, script: &Arc<Script>) {
        let forgotten = self.known.keep(script, srv.scripts.cache.flushes());
        forgotten.iter().for_each(|sha| self.lua.forget(sha));
    }

    /// The function with this name. Expected O(1); O(libraries) after they have changed.
    pub fn function(&mut self, srv: &Server, name: &[u8]) -> Option<Found> {
        self.renew(srv);
        self.libraries.function(name).cloned()
    }

    /// Forgets the libraries that the server no longer has, if any has changed.
    fn renew(&mut self, srv: &Server) {
        let version = srv.scripts.functions.version();
        if version == self.version {
            return;
        }
        self.libraries = srv.scripts.functions.current();
        self.version = version;
        self.lua.retain(|id| self.libraries.has_library(id));
    }

    /// The interpreter, for a change of the libraries.
    pub fn interpreter(&mut self) -> &mut Lua {
        &mut self.lua
    }

    /// Runs a compiled script or a function, and appends its result to `reply`.
    ///
    /// # Errors
    /// It has failed or was stopped.
    pub fn run(
        &mut self,
        srv: &Server,
        code: &Code,
        keys: &[&[u8]],
        args: &[&[u8]],
        reply: &mut Reply,
        host: &mut dyn Host,
    ) -> Result<(), Failure> {
        let input = Input { keys, args };
        match code {
            Code::Script(script) => {
                // The memory of deleted libraries is free for the script.
                if self.lua.has_libraries() {
                    self.renew(srv);
                }
                self.lua.run(&script.sha, input, host, reply)
            }
            Code::Function(Found { library, number }) => {
                if !self.lua.has(library.id) {
                    load_again(library, &mut self.lua, host)?;
                }
                self.lua.call((library.id, *number), input, host, reply)
            }
        }
    }

    /// The errors in the result of the last run.
    pub fn take_errors(&mut self) -> ReplyErrors {
        self.lua.take_errors()
    }

    /// Counts the interpreter's memory in the server's total, if it has changed.
    pub fn publish(&mut self, srv: &Server) {
        /// Smaller changes are not worth an atomic operation.
        const STEP: usize = 16 << 10;
        let (used, before) = (self.lua.memory(), self.published);
        if used.abs_diff(before) > STEP {
            srv.scripts.interpreters.fetch_add(used.wrapping_sub(before), Ordering::Relaxed);
            self.published = used;
        }
    }
}
