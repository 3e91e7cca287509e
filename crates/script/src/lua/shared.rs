//! The data of a Lua state outside of it, found from any of its threads.

use super::context::Context;
use super::memory::Memory;
use mlua_sys::lua51::{lua_State, lua_getallocf};

/// The data that Lua's allocator and the functions written in Rust share. `memory` is first: its address is that of the whole.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shared {
    pub(super) memory: Memory,
    pub(super) context: Context,
}

/// # Safety
/// `raw` is a live thread of a `State`, which outlives `'a`.
pub(super) unsafe fn shared_of<'a>(raw: *mut lua_State) -> &'a Shared {
    let mut shared = std::ptr::null_mut();
    // SAFETY: by the contract. `State::new` has set the pointer, and only shared references are made from it.
    unsafe {
        lua_getallocf(raw, &raw mut shared);
        &*shared.cast::<Shared>()
    }
}
