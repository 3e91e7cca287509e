//! The functions of C that Lua calls: they run those written in Rust.

use super::super::interrupt::check_limits;
use super::super::shared::shared_of;
use super::{Frame, Native, Raised};
use mlua_sys::lua51::*;
use std::ffi::{c_int, c_void};

/// Calls the C function in the first upvalue, after the table that a proxy protects has replaced it as argument 1.
unsafe extern "C-unwind" fn run_proxy_reader(raw: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with a live thread and room for 20 values. `make_proxy_reader` has made the closure, so its
    // upvalue is a C function. No value here has a destructor when that raises an error. `Frame` is used with the limit
    // suspended.
    unsafe {
        let function = lua_touserdata(raw, lua_upvalueindex(1));
        let function = std::mem::transmute::<*mut c_void, lua_CFunction>(function);
        let memory = &shared_of(raw).memory;
        let was_limited = memory.suspend();
        if Frame::new(raw).push_real(1) {
            lua_replace(raw, 1);
        }
        memory.restore(was_limited);
        function(raw)
    }
}

/// Converts short texts of digits, and calls the C function in the first upvalue, Lua's `tonumber`, for all else: C takes
/// 1,000 instructions for any text.
unsafe extern "C-unwind" fn run_to_number(raw: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with a live thread and room for 20 values. `make_number_reader` has made the closure, so its
    // upvalue is a C function. The string is an argument, and stays there while its text is read. No value here has a
    // destructor when the function raises an error.
    unsafe {
        if lua_gettop(raw) == 1 && lua_type(raw, 1) == LUA_TSTRING {
            let mut len = 0;
            let start = lua_tolstring(raw, 1, &raw mut len);
            if let Some(number) = digits(std::slice::from_raw_parts(start.cast(), len)) {
                lua_pushnumber(raw, number);
                return 1;
            }
        }
        let function = lua_touserdata(raw, lua_upvalueindex(1));
        let function = std::mem::transmute::<*mut c_void, lua_CFunction>(function);
        function(raw)
    }
}

/// The value of a text of 1 to 15 digits, which a double holds exactly.
fn digits(text: &[u8]) -> Option<f64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let add = |value: i64, byte: &u8| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| value * 10 + i64::from(digit))
    };
    text.iter().try_fold(0, add).map(|value| value as f64)
}

/// Pushes `function`.
///
/// # Safety
/// `raw` is live and has room for two values, and its limit on memory is suspended.
unsafe fn push_native(raw: *mut lua_State, function: Native) {
    // SAFETY: by the contract.
    unsafe {
        lua_pushlightuserdata(raw, function as *mut c_void);
        lua_pushcclosure(raw, run_native, 1);
    }
}

/// Replaces the last value by `function`, whose second upvalue it becomes.
///
/// # Safety
/// `raw` is live, has a value and room for one more, and its limit on memory is suspended.
unsafe fn push_native_with(raw: *mut lua_State, function: Native) {
    // SAFETY: by the contract.
    unsafe {
        lua_pushlightuserdata(raw, function as *mut c_void);
        lua_insert(raw, -2);
        lua_pushcclosure(raw, run_native, 2);
    }
}

/// Runs the function in the first upvalue.
unsafe extern "C-unwind" fn run_native(raw: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with a live thread. `push_native` has made the closure, so its upvalue is a `Native`.
    let (shared, function) = unsafe {
        let function = lua_touserdata(raw, lua_upvalueindex(1));
        (shared_of(raw), std::mem::transmute::<*mut c_void, Native>(function))
    };
    // SAFETY: the thread is live; no value here has a destructor.
    unsafe { check_limits(raw) };
    let was_limited = shared.memory.suspend();
    // SAFETY: the thread is live during the call.
    let result = function(&mut unsafe { Frame::new(raw) });
    shared.memory.restore(was_limited);
    match result {
        Ok(results) => results as c_int,
        // SAFETY: the error's value is on the stack, and no value here has a destructor.
        Err(_) => unsafe { lua_error(raw) },
    }
}

/// The next action of a [`Calling`] function.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// Calls the function that so many arguments follow. One result replaces them.
    Call(usize),
    /// Returns so many results.
    Return(usize),
}

/// A function that calls functions of the script between two runs of its own. The second argument is false at first.
pub type Calling = fn(&mut Frame<'_>, bool) -> Result<Next, Raised>;

/// Runs the function in the first upvalue, and the calls that it asks for.
unsafe extern "C-unwind" fn run_calling(raw: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with a live thread. `push_calling` has made the closure, so its upvalue is a `Calling`.
    let (shared, function) = unsafe {
        let function = lua_touserdata(raw, lua_upvalueindex(1));
        (shared_of(raw), std::mem::transmute::<*mut c_void, Calling>(function))
    };
    // SAFETY: the thread is live; no value here has a destructor.
    unsafe { check_limits(raw) };
    let mut is_resumed = false;
    loop {
        let was_limited = shared.memory.suspend();
        // SAFETY: the thread is live during the call.
        let next = function(&mut unsafe { Frame::new(raw) }, is_resumed);
        shared.memory.restore(was_limited);
        match next {
            Ok(Next::Return(results)) => return results as c_int,
            // SAFETY: `function` has pushed a function and so many arguments. No value here has a destructor when an
            // error is raised.
            Ok(Next::Call(args)) => unsafe { lua_call(raw, args as c_int, 1) },
            // SAFETY: the error's value is on the stack, and no value here has a destructor.
            Err(_) => unsafe { lua_error(raw) },
        }
        is_resumed = true;
    }
}

/// Appends byte code to a vector (`lua_Writer`).
unsafe extern "C-unwind" fn append_code(
    _: *mut lua_State,
    start: *const c_void,
    len: usize,
    code: *mut c_void,
) -> c_int {
    // SAFETY: `Frame::byte_code` passes the vector. Lua passes readable bytes; for none, the pointer may be null.
    unsafe {
        if len > 0 {
            (*code.cast::<Vec<u8>>())
                .extend_from_slice(std::slice::from_raw_parts(start.cast(), len));
        }
    }
    0
}

/// Returns element 2 of table 1, as Lua's `[]`.
unsafe extern "C-unwind" fn run_index(raw: *mut lua_State) -> c_int {
    // SAFETY: `Frame::push_index_function` names the arguments.
    unsafe { lua_gettable(raw, 1) };
    1
}

impl Frame<'_> {
    /// Pushes a function.
    pub fn push_native(&mut self, function: Native) {
        self.room();
        // SAFETY: the state is live and there is room.
        unsafe { push_native(self.raw, function) };
    }

    /// Replaces the last value by a function to which it belongs ([`Frame::push_own`]).
    pub fn push_native_with(&mut self, function: Native) {
        assert!(!self.is_empty(), "a function with a value");
        self.room();
        // SAFETY: the state is live, there is room for one value more, and the last value exists.
        unsafe { push_native_with(self.raw, function) };
    }

    /// Pushes a function that calls others.
    pub fn push_calling(&mut self, function: Calling) {
        self.room();
        // SAFETY: the state is live and there is room for two values.
        unsafe {
            lua_pushlightuserdata(self.raw, function as *mut c_void);
            lua_pushcclosure(self.raw, run_calling, 1);
        }
    }

    /// Pushes a function that reads a table, its first argument, with metamethods. The second argument is the key.
    pub fn push_index_function(&mut self) {
        self.room();
        // SAFETY: the state is live and there is room.
        unsafe { lua_pushcclosure(self.raw, run_index, 0) };
    }

    /// Replaces the last value, a C function without upvalues, by one that calls it with the table that a proxy in its
    /// first argument protects.
    pub fn make_proxy_reader(&mut self) {
        self.wrap(run_proxy_reader);
    }

    /// Replaces the last value, Lua's `tonumber`, by a faster one.
    pub fn make_number_reader(&mut self) {
        self.wrap(run_to_number);
    }

    /// Replaces the last value, a C function without upvalues, by `wrapper` with its address as the only upvalue.
    fn wrap(&mut self, wrapper: lua_CFunction) {
        self.room();
        // SAFETY: there is room. The wrappers expect the address of a C function.
        unsafe {
            let function = lua_tocfunction(self.raw, -1).expect("a C function");
            lua_pushlightuserdata(self.raw, function as *mut c_void);
            lua_pushcclosure(self.raw, wrapper, 1);
            lua_remove(self.raw, -2);
        }
    }

    /// The byte code of the last value, a function written in Lua.
    pub fn byte_code(&mut self) -> Vec<u8> {
        let mut code = Vec::new();
        self.room();
        // SAFETY: the state is live, and `append_code` gets the vector. A value that isn't a function written in Lua is
        // refused. The call is unprotected: it allocates nothing in Lua.
        unsafe { lua_dump_(self.raw, append_code, (&raw mut code).cast()) };
        code
    }
}
