//! How a running script ends against its will: the host stops it, or it exceeds a limit.
//!
//! Lua calls [`run_hook`] every few instructions. Functions written in Rust call [`check_limits`] before they run.

use super::shared::shared_of;
use mlua_sys::lua51::*;
use std::ffi::{CStr, c_int};

/// Arguments of a function in Rust: they leave room for its own values (Lua's limit is 8000).
const MOST_ARGUMENTS: c_int = 7960;

/// Raises a string.
///
/// # Safety
/// `raw` is live and has room for one value. The caller has no value with a destructor.
unsafe fn raise(raw: *mut lua_State, message: &'static CStr) -> ! {
    // SAFETY: by the contract. The limit is suspended while the string is made.
    unsafe {
        let memory = &shared_of(raw).memory;
        let was_limited = memory.suspend();
        lua_pushlstring_(raw, message.as_ptr(), message.count_bytes());
        memory.restore(was_limited);
        lua_error(raw)
    }
}

/// Collects garbage if there is much.
///
/// # Safety
/// `raw` is live.
#[inline]
pub(super) unsafe fn collect_if_needed(raw: *mut lua_State) {
    // SAFETY: by the contract.
    unsafe {
        if shared_of(raw).memory.needs_collection() {
            collect(raw);
        }
    }
}

/// As above.
#[cold]
unsafe fn collect(raw: *mut lua_State) {
    // SAFETY: by the contract. The limit is suspended, so that no error is raised.
    unsafe {
        let memory = &shared_of(raw).memory;
        if !memory.end_hurry() {
            return;
        }
        let was_limited = memory.suspend();
        lua_gc(raw, LUA_GCCOLLECT, 0);
        memory.collected();
        memory.restore(was_limited);
    }
}

/// Raises an error if the script uses more memory than it may, or calls a function with too many arguments. No
/// allocation of a function in Rust is refused: this ends a script that only calls such functions.
///
/// # Safety
/// `raw` is live, with room for one value. The caller has no value with a destructor.
pub(super) unsafe fn check_limits(raw: *mut lua_State) {
    // SAFETY: by the contract.
    unsafe {
        collect_if_needed(raw);
        if shared_of(raw).memory.is_exceeded() {
            raise(raw, c"not enough memory");
        }
        if lua_gettop(raw) > MOST_ARGUMENTS {
            raise(raw, c"too many arguments");
        }
    }
}

/// Calls the hook at every instruction from here on.
///
/// # Safety
/// `raw` is live.
pub(super) unsafe fn hurry_hook(raw: *mut lua_State) {
    // SAFETY: by the contract.
    unsafe { lua_sethook(raw, Some(run_hook), LUA_MASKCOUNT, 1) };
}

/// Called every few instructions of a running script.
pub(super) unsafe extern "C-unwind" fn run_hook(raw: *mut lua_State, _: *mut lua_Debug) {
    // SAFETY: Lua calls this with a live thread.
    let shared = unsafe {
        collect_if_needed(raw);
        shared_of(raw)
    };
    let was_limited = shared.memory.suspend();
    let is_stopped = shared.context.stopped.get()
        || shared.context.with_host(|host| host.interrupt().is_err()).unwrap_or(false);
    if is_stopped {
        shared.context.stopped.set(true);
        // SAFETY: the thread is live; Lua leaves room for a hook. From now on each instruction raises an error, so that
        // no `pcall` of the script continues.
        unsafe {
            hurry_hook(raw);
            lua_pushlstring_(raw, c"stopped".as_ptr(), 7);
        }
    }
    shared.memory.restore(was_limited);
    if is_stopped {
        // SAFETY: the error's value is on the stack, and no value here has a destructor.
        unsafe { lua_error(raw) };
    }
}
