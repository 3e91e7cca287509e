//! The data of one Lua state that functions written in Rust share.

use crate::engine::{Host, Registered, ReplyErrors};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use weft_resp::Reply;

/// One for each state.
#[derive(Debug, Default)]
pub struct Context {
    host: Cell<Option<NonNull<dyn Host>>>,
    /// The host has stopped the script: every further instruction raises an error.
    pub stopped: Cell<bool>,
    /// Replies of commands are RESP3.
    pub is_resp3: Cell<bool>,
    /// The state of `math.random`.
    pub random: Cell<u64>,
    /// For replies of commands: empty between two calls.
    pub reply: RefCell<Option<Reply>>,
    /// The errors in the result of the last script.
    pub errors: RefCell<ReplyErrors>,
    /// The functions that the library has registered; `None` while no library is loaded.
    pub loading: RefCell<Option<Vec<Registered>>>,
}

impl Context {
    /// Runs `act`, during which [`Context::with_host`] finds `host`.
    pub fn lend<T>(&self, host: &mut dyn Host, act: impl FnOnce() -> T) -> T {
        // SAFETY: only the lifetime changes. The pointer is removed before this function returns, and `act` can't
        // access `host` otherwise, since it is borrowed mutably here.
        let host: NonNull<dyn Host> = unsafe { std::mem::transmute(NonNull::from(host)) };
        let _end = Lent(&self.host, self.host.replace(Some(host)));
        act()
    }

    /// Calls `act` with the host of the running script; `None` without one, as while a library is loaded.
    pub fn with_host<T>(&self, act: impl FnOnce(&mut dyn Host) -> T) -> Option<T> {
        // Absent meanwhile, so that there is never a second reference to it.
        let mut host = self.host.take()?;
        let _end = Lent(&self.host, Some(host));
        // SAFETY: `lend` has put the pointer there and has not returned. `take` makes this the only reference.
        Some(act(unsafe { host.as_mut() }))
    }
}

/// Puts the previous pointer back, even if `act` panics.
struct Lent<'a>(&'a Cell<Option<NonNull<dyn Host>>>, Option<NonNull<dyn Host>>);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}
