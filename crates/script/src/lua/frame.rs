//! The values of one call from Lua to Rust.
//!
//! A function written in Rust is a [`Native`]: it reads its arguments through a [`Frame`], pushes its results and returns
//! their number. It raises an error by pushing the error's value and returning [`Raised`]; the jump happens after the
//! function has returned, so that destructors run.
//!
//! Positions are those of Lua: 1 is the first argument, -1 the last value. An absent position reads as nil. No method
//! calls a metamethod, and no method fails for lack of memory ([`super::memory`]).

pub(super) mod functions;

use super::context::Context;
use super::interrupt::{collect_if_needed, hurry_hook};
use super::shared::{Shared, shared_of};
use mlua_sys::lua51::*;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;

/// A function that Lua can call.
pub type Native = fn(&mut Frame<'_>) -> Result<usize, Raised>;

/// The last value of the frame is raised as an error.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Raised(());

/// Where a running function is.
#[derive(Clone, Debug)]
pub struct Place {
    pub is_lua: bool,
    /// The name of the chunk, with its mark, or its text.
    pub source: Vec<u8>,
    /// -1 if it is unknown.
    pub line: i32,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Absent,
    Nil,
    Boolean,
    LightUserdata,
    Number,
    String,
    Table,
    Function,
    Userdata,
    Thread,
}

impl Kind {
    /// As `type` returns it; "no value" for an absent argument.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Absent => "no value",
            Kind::Nil => "nil",
            Kind::Boolean => "boolean",
            Kind::LightUserdata | Kind::Userdata => "userdata",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Table => "table",
            Kind::Function => "function",
            Kind::Thread => "thread",
        }
    }
}

/// A value that can be an argument of a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word<'a> {
    Text(&'a [u8]),
    Number(f64),
}

/// The values of one call.
#[derive(Debug)]
pub struct Frame<'f> {
    raw: *mut lua_State,
    /// Lua's stack has room for at least so many values of this call. It never gets less during the call.
    room: c_int,
    lifetime: PhantomData<&'f ()>,
}

/// The field of a proxy's metatable with the table that the proxy protects. No script sees that metatable.
pub(super) const REAL: &[u8] = b"__real\0";

/// Values that fit on Lua's stack without a check, less a reserve for the methods' own use.
const RESERVE: c_int = 4;

impl<'f> Frame<'f> {
    /// Bytes of a chunk. Lua 5.1 counts the signs of a long bracket in 32 bits (CVE-2025-46819).
    pub(super) const MOST_SOURCE: usize = 512 << 20;

    /// Bytes that a function may produce outside of Lua's memory. A table that contains another one many times can be
    /// short and its text endless.
    pub(super) const MOST_OUTPUT: usize = 512 << 20;

    /// # Safety
    /// `raw` is a live Lua thread for `'f`, whose limit on memory is suspended.
    pub(super) unsafe fn new(raw: *mut lua_State) -> Self {
        // Lua makes room for `LUA_MINSTACK` values before it calls a function of C, and when it makes a state.
        Frame { raw, room: LUA_MINSTACK, lifetime: PhantomData }
    }

    fn shared(&self) -> &'f Shared {
        // SAFETY: the state is live.
        unsafe { shared_of(self.raw) }
    }

    /// The data of this Lua state.
    pub fn context(&self) -> &'f Context {
        &self.shared().context
    }

    /// The number of values: at the beginning, that of the arguments.
    pub fn len(&self) -> usize {
        // SAFETY: the state is live.
        unsafe { lua_gettop(self.raw) as usize }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The absolute position of `at`, which must exist.
    fn at(&self, at: i32) -> c_int {
        let len = self.len() as c_int;
        let absolute = if at < 0 { len + 1 + at } else { at };
        assert!(absolute >= 1 && absolute <= len, "position {at} of {len}");
        absolute
    }

    /// The position of `at`, which may be absent. No pseudo-index.
    fn maybe(&self, at: i32) -> Option<c_int> {
        let len = self.len() as c_int;
        let absolute = if at < 0 { len + 1 + at } else { at };
        (absolute >= 1 && absolute <= len).then_some(absolute)
    }

    /// Makes room for `n` more values. Returns false if the stack would exceed Lua's limit (8000 values).
    pub fn reserve(&mut self, n: usize) -> bool {
        let len = self.len();
        len.saturating_add(n).saturating_add(RESERVE as usize) <= self.room as usize
            || self.grow(len, n)
    }

    #[cold]
    fn grow(&mut self, len: usize, n: usize) -> bool {
        let n = c_int::try_from(n).unwrap_or(c_int::MAX - RESERVE);
        // SAFETY: the state is live. It returns 0 for too many, and can't fail for lack of memory.
        let has_room =
            n < c_int::MAX - RESERVE && unsafe { lua_checkstack(self.raw, n + RESERVE) != 0 };
        if has_room {
            self.room = len as c_int + n + RESERVE;
        }
        has_room
    }

    /// Makes room for one value, and some for the methods' own use.
    fn room(&mut self) {
        assert!(
            self.reserve(1),
            "the Lua stack overflows: call `reserve` before pushing many values"
        );
    }

    pub fn kind(&self, at: i32) -> Kind {
        let Some(at) = self.maybe(at) else { return Kind::Absent };
        // SAFETY: the position exists.
        match unsafe { lua_type(self.raw, at) } {
            LUA_TNIL => Kind::Nil,
            LUA_TBOOLEAN => Kind::Boolean,
            LUA_TLIGHTUSERDATA => Kind::LightUserdata,
            LUA_TNUMBER => Kind::Number,
            LUA_TSTRING => Kind::String,
            LUA_TTABLE => Kind::Table,
            LUA_TFUNCTION => Kind::Function,
            LUA_TUSERDATA => Kind::Userdata,
            LUA_TTHREAD => Kind::Thread,
            kind => unreachable!("Lua has no type {kind}"),
        }
    }

    /// A number, or a string that Lua converts to one.
    pub fn number(&self, at: i32) -> Option<f64> {
        let at = self.maybe(at)?;
        // SAFETY: the position exists.
        unsafe { (lua_isnumber(self.raw, at) != 0).then(|| lua_tonumber(self.raw, at)) }
    }

    /// A string, or a number, which becomes a string in place, as Lua writes it. Don't call it for a key during
    /// [`Frame::next`]: check [`Frame::kind`] first.
    pub fn bytes(&self, at: i32) -> Option<&[u8]> {
        let at = self.maybe(at)?;
        let mut len = 0;
        // SAFETY: the position exists. The string stays there while `self` is borrowed: every method that removes or
        // replaces values takes `&mut self`, and Lua doesn't move strings.
        unsafe {
            let start = lua_tolstring(self.raw, at, &raw mut len);
            (!start.is_null()).then(|| std::slice::from_raw_parts(start.cast(), len))
        }
    }

    /// Calls `visit` with each value, until one is neither a string nor a number. Returns whether all were visited.
    pub(super) fn each_word<'a>(&'a self, mut visit: impl FnMut(Word<'a>)) -> bool {
        for at in 1..=self.len() as c_int {
            // SAFETY: the position exists. For strings, see `bytes`.
            let word = unsafe {
                match lua_type(self.raw, at) {
                    LUA_TSTRING => {
                        let mut len = 0;
                        let start = lua_tolstring(self.raw, at, &raw mut len);
                        Word::Text(std::slice::from_raw_parts(start.cast(), len))
                    }
                    LUA_TNUMBER => Word::Number(lua_tonumber(self.raw, at)),
                    _ => return false,
                }
            };
            visit(word);
        }
        true
    }

    /// Whether the value is neither nil nor false. False if it is absent.
    pub fn is_true(&self, at: i32) -> bool {
        // SAFETY: the position exists.
        self.maybe(at).is_some_and(|at| unsafe { lua_toboolean(self.raw, at) != 0 })
    }

    /// The address of a light userdata, table or function: equal for equal objects.
    pub fn address(&self, at: i32) -> usize {
        // SAFETY: the position exists.
        self.maybe(at).map_or(0, |at| unsafe { lua_topointer(self.raw, at) as usize })
    }

    /// The length of a string or of a table's array part, as `#` returns it.
    pub fn length(&self, at: i32) -> usize {
        // SAFETY: the position exists.
        unsafe { lua_objlen(self.raw, self.at(at)) }
    }

    /// Removes the last `n` values.
    pub fn pop(&mut self, n: usize) {
        let left = self.len().checked_sub(n).expect("there are so many values");
        // SAFETY: `left` is at most the number of values.
        unsafe { lua_settop(self.raw, left as c_int) };
    }

    /// Removes the value at `at`; those after it move down.
    pub fn remove(&mut self, at: i32) {
        // SAFETY: the position exists.
        unsafe { lua_remove(self.raw, self.at(at)) };
    }

    /// Moves the last value to `at`; those from there on move up.
    pub fn insert(&mut self, at: i32) {
        // SAFETY: the position exists.
        unsafe { lua_insert(self.raw, self.at(at)) };
    }

    pub fn push_nil(&mut self) {
        self.room();
        // SAFETY: there is room, as below.
        unsafe { lua_pushnil(self.raw) };
    }

    pub fn push_bool(&mut self, value: bool) {
        self.room();
        // SAFETY: there is room.
        unsafe { lua_pushboolean(self.raw, c_int::from(value)) };
    }

    pub fn push_number(&mut self, value: f64) {
        self.room();
        // SAFETY: there is room.
        unsafe { lua_pushnumber(self.raw, value) };
    }

    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.room();
        // SAFETY: there is room, and the slice is readable. Lua copies it. The pointer of an empty slice isn't null.
        unsafe { lua_pushlstring_(self.raw, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// The light userdata of the null pointer, as `cjson.null`.
    pub fn push_null(&mut self) {
        self.room();
        // SAFETY: there is room.
        unsafe { lua_pushlightuserdata(self.raw, std::ptr::null_mut()) };
    }

    /// Pushes the value at `at` again.
    pub fn push_copy(&mut self, at: i32) {
        self.room();
        let at = self.at(at);
        // SAFETY: there is room, and the position exists.
        unsafe { lua_pushvalue(self.raw, at) };
    }

    /// Pushes a new table with room for `array` elements and `fields` others.
    pub fn push_table(&mut self, array: usize, fields: usize) {
        /// More than that is added as the table grows.
        const MOST: usize = 1 << 20;
        self.room();
        // SAFETY: there is room.
        unsafe { lua_createtable(self.raw, array.min(MOST) as c_int, fields.min(MOST) as c_int) };
    }

    /// Pushes `range` of the string at `at`.
    ///
    /// # Panics
    /// If the value is no string, or is shorter.
    pub fn push_part(&mut self, at: i32, range: std::ops::Range<usize>) {
        self.room();
        assert_eq!(self.kind(at), Kind::String, "position {at}");
        let part = &self.bytes(at).expect("it is a string")[range];
        let (start, len) = (part.as_ptr(), part.len());
        // SAFETY: there is room. The string stays at its position, so the collector keeps it, and Lua copies the part.
        unsafe { lua_pushlstring_(self.raw, start.cast(), len) };
    }

    /// Pushes the value that belongs to the running function; nil if it has none.
    pub fn push_own(&mut self) {
        self.room();
        let mut info = std::mem::MaybeUninit::<lua_Debug>::zeroed();
        // SAFETY: there is room. Level 0 exists only during a call, and then it is the function written in Rust that uses
        // this frame; Lua reads an absent upvalue as nil.
        unsafe {
            if lua_getstack(self.raw, 0, info.as_mut_ptr()) == 0 {
                lua_pushnil(self.raw);
            } else {
                lua_pushvalue(self.raw, lua_upvalueindex(2));
            }
        }
    }

    /// Pushes the value that the registry keeps under `number`; nil if there is none.
    pub(super) fn push_registry(&mut self, number: c_int) {
        self.room();
        // SAFETY: there is room, and the registry is a table.
        unsafe { lua_rawgeti_(self.raw, LUA_REGISTRYINDEX, number) };
    }

    /// Removes the last value, and the registry keeps it under `number` in place of another one.
    pub(super) fn set_registry_at(&mut self, number: c_int) {
        assert!(!self.is_empty());
        // SAFETY: the registry is a table, and there is a value.
        unsafe { lua_rawseti_(self.raw, LUA_REGISTRYINDEX, number) };
    }

    /// Pushes the field `name` of the registry, which scripts can't see.
    pub(super) fn get_registry(&mut self, name: &[u8]) {
        self.push_bytes(name);
        // SAFETY: the registry is a table, and the key is on the stack.
        unsafe { lua_rawget_(self.raw, LUA_REGISTRYINDEX) };
    }

    /// Removes the last value and makes it the field `name` of the registry.
    pub(super) fn set_registry(&mut self, name: &[u8]) {
        assert!(!self.is_empty());
        self.push_bytes(name);
        // SAFETY: the registry is a table; key and value are on the stack.
        unsafe {
            lua_insert(self.raw, -2);
            lua_rawset(self.raw, LUA_REGISTRYINDEX);
        }
    }

    /// Removes the last value, a table, and makes it the environment of functions that are compiled from here on.
    pub(super) fn set_globals(&mut self) {
        assert_eq!(self.kind(-1), Kind::Table);
        // SAFETY: the last value is a table.
        unsafe { lua_replace(self.raw, LUA_GLOBALSINDEX) };
    }

    /// Compiles `source` and pushes the function, or the error's message and returns false. Byte code is refused. `name`
    /// appears in errors.
    pub(super) fn compile(&mut self, source: &[u8], name: &CStr) -> bool {
        self.room();
        // After a space, byte code is text with a syntax error.
        let as_text;
        let source = match source.first() {
            Some(first) if *first == LUA_SIGNATURE[0] => {
                as_text = [b" ", source].concat();
                &as_text[..]
            }
            Some(_) | None => source,
        };
        if source.len() > Self::MOST_SOURCE {
            self.push_bytes(b"not enough memory");
            return false;
        }
        // SAFETY: there is room; source and name are readable. The function is protected and pushes one value, so that
        // the limit can apply. The collector is off, since the parser of Lua 5.1 doesn't protect the chunk's name from
        // it (CVE-2025-49844).
        unsafe {
            collect_if_needed(self.raw);
            lua_gc(self.raw, LUA_GCSTOP, 0);
            self.shared().memory.set_compiling(true);
            self.shared().memory.restore(true);
            let status =
                luaL_loadbuffer(self.raw, source.as_ptr().cast(), source.len(), name.as_ptr());
            self.shared().memory.suspend();
            self.shared().memory.set_compiling(false);
            lua_gc(self.raw, LUA_GCRESTART, 0);
            status == LUA_OK
        }
    }

    /// Removes the last value, a table, and makes it the environment of the function before it.
    pub(super) fn set_environment(&mut self) {
        assert!(self.kind(-1) == Kind::Table && self.kind(-2) == Kind::Function);
        // SAFETY: both exist and have these types.
        unsafe { lua_setfenv(self.raw, -2) };
    }

    /// Calls the function that `args` arguments follow, and replaces all of them by its results: `results` of them, or
    /// all. An error is returned, and its value replaces them.
    pub(super) fn call(&mut self, args: usize, results: Option<usize>) -> Result<(), ()> {
        assert!(args < self.len() && self.reserve(results.unwrap_or(0)));
        let results = results.map_or(LUA_MULTRET, |n| n as c_int);
        // SAFETY: the function and its arguments are on the stack. The call is protected: no jump leaves it, so that the
        // limit can apply.
        unsafe {
            self.shared().memory.restore(true);
            let status = lua_pcall(self.raw, args as c_int, results, 0);
            self.shared().memory.suspend();
            if status == LUA_OK { Ok(()) } else { Err(()) }
        }
    }

    /// Bytes that the state uses.
    pub(super) fn memory(&self) -> usize {
        self.shared().memory.used()
    }

    /// Raises an error if the state uses more memory than scripts may. A function whose results can be much larger than
    /// its arguments calls it for each of them.
    pub(super) fn check_memory(&mut self) -> Result<(), Raised> {
        // SAFETY: the thread is live, and the values that the caller uses are on the stack.
        unsafe { collect_if_needed(self.raw) };
        match self.shared().memory.is_full() {
            true => Err(self.out_of_memory()),
            false => Ok(()),
        }
    }

    /// Raises an error if a script may not use so many bytes more.
    pub(super) fn check_room(&mut self, bytes: usize) -> Result<(), Raised> {
        if !self.shared().memory.has_room(bytes) {
            self.collect();
        }
        match self.shared().memory.has_room(bytes) {
            true => Ok(()),
            false => Err(self.out_of_memory()),
        }
    }

    /// Raises an error if a function's output of `len` bytes is too long.
    pub(super) fn check_output(&mut self, len: usize) -> Result<(), Raised> {
        match len <= Self::MOST_OUTPUT {
            true => Ok(()),
            false => Err(self.out_of_memory()),
        }
    }

    /// Raises the error of Lua for lack of memory. There may be no room for another value.
    pub(super) fn out_of_memory(&mut self) -> Raised {
        self.pop(self.len());
        self.push_bytes(b"not enough memory");
        Raised(())
    }

    /// Collects all garbage. O(objects).
    pub(super) fn collect(&mut self) {
        // SAFETY: the state is live. No object has a finalizer: scripts can't make any.
        unsafe { lua_gc(self.raw, LUA_GCCOLLECT, 0) };
        self.shared().memory.collected();
    }

    /// One step of the collector, of about `size` kilobytes. Returns whether it has ended a cycle.
    pub(super) fn collect_step(&mut self, size: i32) -> bool {
        // SAFETY: as above.
        unsafe { lua_gc(self.raw, LUA_GCSTEP, size) != 0 }
    }

    /// Ends the script: no error handler of it runs any more, since each further instruction raises an error.
    pub(super) fn stop(&mut self) -> Raised {
        self.context().stopped.set(true);
        self.push_bytes(b"stopped");
        // SAFETY: the state is live.
        unsafe { hurry_hook(self.raw) };
        Raised(())
    }

    /// Raises the last value if the host has stopped the script. For a caller of [`Frame::call`].
    pub(super) fn check_stopped(&mut self) -> Result<(), Raised> {
        if self.context().stopped.get() { Err(self.raise()) } else { Ok(()) }
    }

    fn table(&self, at: i32) -> c_int {
        assert_eq!(self.kind(at), Kind::Table, "position {at}");
        self.at(at)
    }

    /// Pushes element `n` of the table at `at`.
    pub fn get_index(&mut self, at: i32, n: i64) {
        let table = self.table(at);
        self.room();
        // SAFETY: it is a table, and there is room.
        unsafe { lua_rawgeti_(self.raw, table, n as c_int) };
    }

    /// Pushes the field `name` of the table at `at`.
    pub fn get_field(&mut self, at: i32, name: &[u8]) {
        let table = self.table(at);
        self.push_bytes(name);
        // SAFETY: it is a table, and the key is on the stack.
        unsafe { lua_rawget_(self.raw, table) };
    }

    /// Replaces the last value, a key, by its value in the table at `at`.
    pub fn get(&mut self, at: i32) {
        let table = self.table(at);
        // SAFETY: it is a table, and `table` found it, so there is at least one value.
        unsafe { lua_rawget_(self.raw, table) };
    }

    /// Removes the last value and makes it element `n` of the table at `at`.
    pub fn set_index(&mut self, at: i32, n: i64) {
        let table = self.table(at);
        assert_ne!(table as usize, self.len(), "the value follows the table");
        // SAFETY: it is a table, and there is a value.
        unsafe { lua_rawseti_(self.raw, table, n as c_int) };
    }

    /// Makes `words` the first elements of the last value, a table.
    pub(super) fn set_list(&mut self, words: &[&[u8]]) {
        let table = self.table(-1);
        self.room();
        for (n, word) in words.iter().enumerate() {
            // SAFETY: it is a table, and there is room. See `push_bytes`.
            unsafe {
                lua_pushlstring_(self.raw, word.as_ptr().cast(), word.len());
                lua_rawseti_(self.raw, table, n as c_int + 1);
            }
        }
    }

    /// Removes the last value and makes it the field `name` of the table at `at`.
    pub fn set_field(&mut self, at: i32, name: &[u8]) {
        let table = self.table(at);
        assert_ne!(table as usize, self.len(), "the value follows the table");
        self.push_bytes(name);
        // SAFETY: it is a table; key and value are on the stack. A string is a valid key.
        unsafe {
            lua_insert(self.raw, -2);
            lua_rawset(self.raw, table);
        }
    }

    /// Removes the last two values, a key and its value, and adds them to the table at `at`. Returns false, and only
    /// removes them, if the key is nil or not a number.
    pub fn set(&mut self, at: i32) -> bool {
        let table = self.table(at);
        assert!(table as usize + 2 <= self.len(), "key and value follow the table");
        let is_valid = match self.kind(-2) {
            Kind::Nil => false,
            Kind::Number => !self.number(-2).is_some_and(f64::is_nan),
            _ => true,
        };
        if !is_valid {
            self.pop(2);
            return false;
        }
        // SAFETY: it is a table; key and value are on the stack, and the key is valid.
        unsafe { lua_rawset(self.raw, table) };
        true
    }

    /// Replaces the last value, a key of the table at `at` (nil: before the first), by the next key and its value.
    /// Returns false, and only removes the key, at the end. The table's keys must not change meanwhile.
    pub fn next(&mut self, at: i32) -> bool {
        let table = self.table(at);
        assert_ne!(table as usize, self.len(), "the key follows the table");
        self.room();
        // SAFETY: it is a table, and the key is one of its keys or nil, since it comes from this method and the table
        // doesn't change.
        unsafe { lua_next(self.raw, table) != 0 }
    }

    /// Pushes the metatable of the value at `at`, if it has one.
    pub fn push_metatable(&mut self, at: i32) -> bool {
        self.room();
        let at = self.at(at);
        // SAFETY: the position exists, and there is room.
        unsafe { lua_getmetatable(self.raw, at) != 0 }
    }

    /// Pushes the table that the proxy at `at` protects; false, and nothing, if it is no proxy.
    pub(super) fn push_real(&mut self, at: i32) -> bool {
        if self.kind(at) != Kind::Table || !self.push_metatable(at) {
            return false;
        }
        self.get_field(-1, REAL);
        self.remove(-2);
        if self.kind(-1) == Kind::Table {
            return true;
        }
        self.pop(1);
        false
    }

    pub(super) fn is_proxy(&mut self, at: i32) -> bool {
        let is_proxy = self.push_real(at);
        if is_proxy {
            self.pop(1);
        }
        is_proxy
    }

    /// Removes the last value, a table or nil, and makes it the metatable of the table at `at`.
    pub fn set_metatable(&mut self, at: i32) {
        let table = self.table(at);
        assert!(matches!(self.kind(-1), Kind::Table | Kind::Nil) && table as usize != self.len());
        // SAFETY: both exist and have these types.
        unsafe { lua_setmetatable(self.raw, table) };
    }

    /// Raises the last value as it is.
    pub fn raise(&mut self) -> Raised {
        assert!(!self.is_empty(), "an error has a value");
        Raised(())
    }

    /// Raises a string after the position in the script (`user_script:1: `), as Lua's own functions do.
    pub fn error(&mut self, message: impl AsRef<[u8]>) -> Raised {
        self.error_at(1, message.as_ref())
    }

    /// As [`Frame::error`], with the position of the function at `level`: 0 is this one, 1 its caller.
    pub fn error_at(&mut self, level: usize, message: &[u8]) -> Raised {
        let mut text = self.position(level);
        text.extend_from_slice(message);
        self.push_bytes(&text);
        Raised(())
    }

    /// `user_script:1: `, or nothing if the function at `level` isn't written in Lua.
    pub fn position(&mut self, level: usize) -> Vec<u8> {
        self.room();
        // SAFETY: there is room; it pushes a string.
        unsafe { luaL_where(self.raw, level as c_int) };
        let text = self.bytes(-1).unwrap_or_default().to_vec();
        self.pop(1);
        text
    }

    /// Where the function at `level` is; `None` without one.
    pub fn place(&self, level: usize) -> Option<Place> {
        let mut info = std::mem::MaybeUninit::<lua_Debug>::zeroed();
        // SAFETY: zeros are a valid `lua_Debug`. Lua fills in the fields that are read, if there is such a function:
        // strings that live as long as it.
        unsafe {
            if lua_getstack(self.raw, level as c_int, info.as_mut_ptr()) == 0 {
                return None;
            }
            lua_getinfo(self.raw, c"Sl".as_ptr(), info.as_mut_ptr());
            let info = info.assume_init();
            Some(Place {
                is_lua: CStr::from_ptr(info.what) != c"C",
                source: CStr::from_ptr(info.source).to_bytes().to_vec(),
                line: info.currentline,
            })
        }
    }

    /// Raises `bad argument #N to 'NAME' (PROBLEM)`, with the name by which the script has called this function.
    pub fn bad_argument(&mut self, at: usize, problem: impl AsRef<[u8]>) -> Raised {
        let (name, is_method) = self.own_name();
        let name = String::from_utf8_lossy(&name).into_owned();
        let start = match (is_method, at) {
            (true, 1) => format!("calling '{name}' on bad self ("),
            (true, at) => format!("bad argument #{} to '{name}' (", at - 1),
            (false, at) => format!("bad argument #{at} to '{name}' ("),
        };
        self.error([start.as_bytes(), problem.as_ref(), b")"].concat())
    }

    /// Raises that argument `at` is not a `wanted`.
    pub fn bad_type(&mut self, at: usize, wanted: &str) -> Raised {
        let got = self.kind(at as i32).name();
        self.bad_argument(at, format!("{wanted} expected, got {got}"))
    }

    /// The name of this function in the call, and whether it was called as a method.
    fn own_name(&self) -> (Vec<u8>, bool) {
        let mut info = std::mem::MaybeUninit::<lua_Debug>::zeroed();
        // SAFETY: as in `line`. `name` and `namewhat` are null or strings that live as long as the function.
        unsafe {
            if lua_getstack(self.raw, 0, info.as_mut_ptr()) == 0 {
                return (b"?".to_vec(), false);
            }
            lua_getinfo(self.raw, c"n".as_ptr(), info.as_mut_ptr());
            let info = info.assume_init();
            if info.name.is_null() {
                return (b"?".to_vec(), false);
            }
            let is_method = !info.namewhat.is_null() && CStr::from_ptr(info.namewhat) == c"method";
            (CStr::from_ptr(info.name).to_bytes().to_vec(), is_method)
        }
    }
}
