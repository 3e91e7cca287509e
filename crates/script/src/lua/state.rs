//! The state of an interpreter: made, filled with libraries, called, closed.
//!
//! Every call into Lua is protected: an error ends it and is returned. A function written in Rust (`Native`) runs between
//! [`super::frame`]'s `run_native` and its return; no destructor is pending there when an error is raised.

use super::context::Context;
use super::frame::Frame;
use super::interrupt::run_hook;
use super::memory::{Memory, allocate};
use super::shared::Shared;
use crate::engine::Host;
use mlua_sys::lua51::*;
use std::ffi::c_int;
use std::ptr::NonNull;

/// A value that Lua keeps until it is released: a compiled function, a table.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Kept(c_int);

/// The libraries that Lua brings.
#[derive(Clone, Copy, Debug)]
pub enum Library {
    /// With `coroutine`.
    Base,
    Table,
    String,
    Math,
    Os,
}

/// A Lua state. It stays on one thread.
#[derive(Debug)]
pub struct State {
    raw: NonNull<lua_State>,
    shared: NonNull<Shared>,
}

impl State {
    /// An empty state. `limit`: bytes that scripts may use.
    pub fn new(limit: usize) -> State {
        let shared = Box::new(Shared { memory: Memory::new(limit), context: Context::default() });
        let shared = NonNull::from(Box::leak(shared));
        // SAFETY: `shared` is a `Shared`, which begins with a `Memory`, and lives until `drop`.
        let raw = unsafe { lua_newstate(allocate, shared.as_ptr().cast()) };
        // Without a limit, an allocation doesn't fail.
        let state = State { raw: NonNull::new(raw).expect("memory for a Lua state"), shared };
        state.shared().memory.set_owner(raw);
        state
    }

    fn shared(&self) -> &Shared {
        // SAFETY: it lives until `drop`, and only shared references are made from it.
        unsafe { self.shared.as_ref() }
    }

    pub fn context(&self) -> &Context {
        &self.shared().context
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.shared().memory.used()
    }

    pub fn set_limit(&mut self, limit: usize) {
        self.shared().memory.set_limit(limit);
    }

    /// Runs `act` with an empty frame, outside of any script. Its values are removed afterwards, except those that
    /// [`State::keep`] takes.
    pub fn with<T>(&mut self, act: impl FnOnce(&mut Frame<'_>) -> T) -> T {
        let raw = self.raw.as_ptr();
        // SAFETY: the state is live, and its limit doesn't apply outside of scripts.
        unsafe {
            let from = lua_gettop(raw);
            let result = act(&mut Frame::new(raw));
            lua_settop(raw, from);
            result
        }
    }

    /// Adds a library of Lua to its globals.
    pub fn open(&mut self, library: Library) {
        let open = match library {
            Library::Base => luaopen_base,
            Library::Table => luaopen_table,
            Library::String => luaopen_string,
            Library::Math => luaopen_math,
            Library::Os => luaopen_os,
        };
        // SAFETY: the state is live. The functions raise errors only for lack of memory, which has no limit here.
        unsafe {
            let from = lua_gettop(self.raw.as_ptr());
            lua_pushcclosure(self.raw.as_ptr(), open, 0);
            let status = lua_pcall(self.raw.as_ptr(), 0, 0, 0);
            assert_eq!(status, LUA_OK, "a library of Lua");
            lua_settop(self.raw.as_ptr(), from);
        }
    }

    /// Passes Lua's table of globals to `act`, as the first value of a frame.
    pub fn with_globals<T>(&mut self, act: impl FnOnce(&mut Frame<'_>) -> T) -> T {
        // SAFETY: the state is live, and an empty stack has room.
        unsafe { lua_pushvalue(self.raw.as_ptr(), LUA_GLOBALSINDEX) };
        let result = self.with(act);
        // SAFETY: it removes the table.
        unsafe { lua_settop(self.raw.as_ptr(), 0) };
        result
    }

    /// Keeps the value that `act` leaves as the last one.
    pub fn keep(&mut self, act: impl FnOnce(&mut Frame<'_>)) -> Kept {
        let raw = self.raw.as_ptr();
        // SAFETY: the state is live. `luaL_ref` removes one value, which exists: without one, `Frame::push_nil` adds it.
        unsafe {
            let mut frame = Frame::new(raw);
            act(&mut frame);
            if frame.is_empty() {
                frame.push_nil();
            }
            let kept = Kept(luaL_ref(raw, LUA_REGISTRYINDEX));
            lua_settop(raw, 0);
            kept
        }
    }

    /// Pushes a kept value.
    pub fn push_kept(frame: &mut Frame<'_>, kept: &Kept) {
        frame.push_registry(kept.0);
    }

    /// Removes the last value and keeps it in place of another one.
    pub fn replace_kept(frame: &mut Frame<'_>, kept: &Kept) {
        frame.set_registry_at(kept.0);
    }

    /// Releases a kept value.
    pub fn release(&mut self, kept: Kept) {
        // SAFETY: the state is live. A number that isn't in use is ignored.
        unsafe { luaL_unref(self.raw.as_ptr(), LUA_REGISTRYINDEX, kept.0) };
    }

    /// Compiles `source`. `name` appears in errors; it begins with `@`. Byte code is refused.
    ///
    /// # Errors
    /// Lua's message.
    pub fn compile(&mut self, source: &[u8], name: &std::ffi::CStr) -> Result<Kept, Vec<u8>> {
        let raw = self.raw.as_ptr();
        // SAFETY: the state is live. `compile` pushes one value.
        unsafe {
            let mut frame = Frame::new(raw);
            if frame.compile(source, name) {
                return Ok(Kept(luaL_ref(raw, LUA_REGISTRYINDEX)));
            }
            let message = frame.bytes(-1).unwrap_or_default().to_vec();
            lua_settop(raw, 0);
            Err(message)
        }
    }

    /// Calls a function for a script. `push` pushes the function and then its arguments. `handler` gets an error's value
    /// where it is raised, and returns another one. Afterwards, `done` gets a frame whose last value is the result, or
    /// the error's value (`Err`). `step`: instructions between two calls of
    /// [`Host::interrupt`].
    pub fn call<T>(
        &mut self,
        host: &mut dyn Host,
        step: u32,
        handler: &Kept,
        push: impl FnOnce(&mut Frame<'_>),
        done: impl FnOnce(&mut Frame<'_>, Result<(), ()>) -> T,
    ) -> T {
        let raw = self.raw.as_ptr();
        // SAFETY: the state is live. `push` leaves a function and its arguments on the stack, which was empty; without
        // a function, Lua returns an error. No destructor is pending in Rust code below the protected call.
        unsafe {
            let mut frame = Frame::new(raw);
            State::push_kept(&mut frame, handler);
            push(&mut frame);
            let args = frame.len().checked_sub(2).expect("a function");
            lua_sethook(raw, Some(run_hook), LUA_MASKCOUNT, step as c_int);
            self.context().stopped.set(false);
            let answer = self.context().lend(host, || {
                self.shared().memory.restore(true);
                let status = lua_pcall(raw, args as c_int, 1, 1);
                self.shared().memory.restore(false);
                lua_sethook(raw, None, 0, 0);
                let result = if status == LUA_OK { Ok(()) } else { Err(()) };
                done(&mut Frame::new(raw), result)
            });
            lua_settop(raw, 0);
            answer
        }
    }

    /// One step of the collector. `size`: about how many kilobytes it handles; 0 is the smallest step. Returns whether it
    /// has ended a cycle.
    pub fn collect_step(&mut self, size: usize) -> bool {
        // SAFETY: the state is live. No object has a finalizer: scripts can't make any.
        unsafe { lua_gc(self.raw.as_ptr(), LUA_GCSTEP, size as c_int) != 0 }
    }

    /// Lets the collector's steps be small again, after a script that has used much memory.
    pub fn reset_steps(&mut self) {
        self.shared().memory.end_hurry();
    }

    /// Sets the size at which Lua begins a cycle by itself, in percent of the size after the last one.
    pub fn set_pause(&mut self, percent: usize) {
        // SAFETY: as above.
        unsafe { lua_gc(self.raw.as_ptr(), LUA_GCSETPAUSE, percent as c_int) };
    }

    /// Collects all garbage. O(objects).
    pub fn collect(&mut self) {
        // SAFETY: as above.
        unsafe { lua_gc(self.raw.as_ptr(), LUA_GCCOLLECT, 0) };
        self.shared().memory.collected();
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: the state isn't used after this. `shared` was leaked from a box by `new`, and Lua no longer has it.
        unsafe {
            lua_close(self.raw.as_ptr());
            drop(Box::from_raw(self.shared.as_ptr()));
        }
    }
}

#[cfg(test)]
mod tests;
