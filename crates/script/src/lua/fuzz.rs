//! Bodies of the fuzz targets: bytes of any kind for each library, and any text as a script.
//!
//! An interpreter serves many inputs, so that damage of one is found by the next.

use super::interpreter::Lua;
use crate::engine::{Failure, Host, Input, Interpreter, Level, Stop};
use crate::functions::{Libraries, Terms, load_again, load_all};
use crate::sha_of;
use std::cell::RefCell;
use weft_resp::{Proto, Reply};

/// Bytes that a script may use: less than the fuzzer allows.
const MEMORY: usize = 64 << 20;

/// Interrupts until a script is stopped: some 200,000 instructions.
const INTERRUPTS: u32 = 200;

/// Unpacked values are packed, and that is unpacked and packed again: the length is the same, unless values are nested
/// deeper than `pack` writes.
const MESSAGEPACK: &str = "local r = {pcall(cmsgpack.unpack, ARGV[1])} if not r[1] then return 'ok' end \
    local function deep(v, d) if type(v) ~= 'table' then return false end if d > 14 then return true end \
    for k, w in pairs(v) do if deep(k, d + 1) or deep(w, d + 1) then return true end end return false end \
    pcall(cmsgpack.unpack_one, ARGV[1], 1) pcall(cmsgpack.unpack_limit, ARGV[1], 2, 1) \
    for i = 2, #r do local p = cmsgpack.pack(r[i]) \
    if not deep(r[i], 1) and #cmsgpack.pack(cmsgpack.unpack(p)) ~= #p then return 'another length' end end return 'ok'";

/// As [`MESSAGEPACK`], for JSON.
const JSON: &str = "local j = cjson.new() j.encode_invalid_numbers(true) \
    local ok, v = pcall(j.decode, ARGV[1]) if not ok then return 'ok' end \
    local text = j.encode(v) if j.encode(j.decode(text)) ~= text and #j.encode(j.decode(text)) ~= #text \
    then return 'another length' end return 'ok'";

/// The format of a structure, and bytes to unpack by it.
const STRUCTURE: &str = "local size = {pcall(struct.size, ARGV[1])} \
    local r = {pcall(struct.unpack, ARGV[1], ARGV[2])} if not r[1] then return 'ok' end \
    pcall(struct.unpack, ARGV[1], ARGV[2], 3) r[#r] = nil \
    local p = {pcall(struct.pack, ARGV[1], unpack(r, 2))} \
    if size[1] and p[1] and #p[2] ~= size[2] then return 'another size' end return 'ok'";

/// Shows the globals, which no script can change.
const CHECK: &str = "local n = 0 for k in pairs(_G) do n = n + 1 end for k in pairs(string) do n = n + 1 end \
    for k in pairs(redis) do n = n + 1 end return ('x'):upper() .. n .. tostring(rawget(_G, 'x'))";

thread_local! {
    static LUA: RefCell<Lua> = RefCell::new({
        let mut lua = Lua::new();
        lua.limit_memory(MEMORY);
        lua
    });
}

/// Answers commands with replies of all types.
struct Canned(u32);

impl Host for Canned {
    fn call(&mut self, args: &[&[u8]], reply: &mut Reply) -> Result<(), Stop> {
        const BOTH: [&[u8]; 6] = [
            b"+OK\r\n",
            b":7\r\n",
            b"-ERR x\r\n",
            b"$3\r\nabc\r\n",
            b"*2\r\n:1\r\n*0\r\n",
            b"*1\r\n+a\r\n",
        ];
        const RESP3: [&[u8]; 9] = [
            b"_\r\n",
            b"#t\r\n",
            b",1.5\r\n",
            b"(12\r\n",
            b"=5\r\ntxt:x\r\n",
            b"%2\r\n+a\r\n:1\r\n_\r\n:2\r\n",
            b"~2\r\n+a\r\n,nan\r\n",
            b"|1\r\n+a\r\n+b\r\n:4\r\n",
            b">1\r\n%1\r\n,nan\r\n~0\r\n",
        ];
        self.interrupt()?;
        let n = args
            .iter()
            .map(|arg| arg.len() + usize::from(arg.first().copied().unwrap_or(0)))
            .sum::<usize>();
        let is_resp3 = reply.proto == Proto::Resp3 && n & 1 == 1;
        reply.raw(if is_resp3 { RESP3[n / 2 % RESP3.len()] } else { BOTH[n / 2 % BOTH.len()] });
        Ok(())
    }

    fn interrupt(&mut self) -> Result<(), Stop> {
        self.0 = self.0.checked_sub(1).ok_or(Stop)?;
        Ok(())
    }

    fn log(&mut self, _: Level, _: &[u8]) {}

    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool> {
        (args[0].len() > 3).then_some(true)
    }

    fn set_repl(&mut self, _: bool, _: bool) {}
}

fn run(lua: &mut Lua, script: &[u8], args: &[&[u8]], interrupts: u32) -> Result<Vec<u8>, Failure> {
    let sha = sha_of(script);
    lua.compile(&sha, script).map_err(Failure::Error)?;
    let mut reply = Reply::new(Proto::Resp3);
    let input = Input { keys: &[b"k"], args };
    let result = lua.run(&sha, input, &mut Canned(interrupts), &mut reply);
    lua.forget(&sha);
    result.map(|()| reply.slices(0, usize::MAX).concat())
}

fn check_library(script: &str, args: &[&[u8]]) {
    let reply = LUA.with_borrow_mut(|lua| run(lua, script.as_bytes(), args, u32::MAX));
    let out_of_memory =
        matches!(&reply, Err(Failure::Error(text)) if text.ends_with(b"not enough memory"));
    assert!(out_of_memory || reply == Ok(b"$2\r\nok\r\n".to_vec()), "{reply:?}");
}

/// # Panics
/// A guarantee of `cmsgpack` is violated.
pub fn messagepack(data: &[u8]) {
    check_library(MESSAGEPACK, &[data]);
}

/// # Panics
/// A guarantee of `cjson` is violated.
pub fn json(data: &[u8]) {
    check_library(JSON, &[data]);
}

/// The first byte is the length of the format.
///
/// # Panics
/// A guarantee of `struct` is violated.
pub fn structure(data: &[u8]) {
    let [len, data @ ..] = data else { return };
    let (format, data) = data.split_at(usize::from(*len).min(data.len()));
    check_library(STRUCTURE, &[format, data]);
}

/// # Panics
/// The script has changed what the next one sees.
pub fn script(data: &[u8]) {
    LUA.with_borrow_mut(|lua| {
        let before = run(lua, CHECK.as_bytes(), &[], u32::MAX);
        let _ = run(lua, data, &[b"a", b"1"], INTERRUPTS);
        assert_eq!(run(lua, CHECK.as_bytes(), &[], u32::MAX), before);
    });
}

/// Loads libraries as FUNCTION RESTORE does, calls their functions, and loads them into another interpreter.
///
/// # Panics
/// A set of libraries contradicts itself, or a library has changed what scripts see.
pub fn libraries(texts: &[Vec<u8>]) {
    LUA.with_borrow_mut(|lua| {
        let before = run(lua, CHECK.as_bytes(), &[], u32::MAX);
        let terms = Terms { replaces: false, is_limited: true };
        let texts = texts.iter().map(Vec::as_slice);
        if let Ok(all) = load_all(Libraries::default(), texts, terms, lua, &mut |_, _| {}) {
            check_libraries(lua, &all);
        }
        lua.retain(|_| false);
        assert_eq!(run(lua, CHECK.as_bytes(), &[], u32::MAX), before);
    });
}

fn check_libraries(lua: &mut Lua, all: &Libraries) {
    let mut functions = 0;
    for library in all.all() {
        assert!(all.has_library(library.id) && lua.has(library.id));
        assert!(all.library(&library.name).is_some_and(|found| found.id == library.id));
        for (number, function) in library.functions.iter().enumerate() {
            assert!(all.function(&function.name).is_some());
            functions += 1;
            let input = Input { keys: &[b"k"], args: &[b"a", b"1"] };
            let mut reply = Reply::new(Proto::Resp3);
            let _ = lua.call((library.id, number), input, &mut Canned(INTERRUPTS), &mut reply);
        }
        // Another interpreter may have less memory left, so an error is possible.
        let mut other = Lua::new();
        other.limit_memory(MEMORY);
        let again = load_again(library, &mut other, &mut Canned(INTERRUPTS));
        assert_eq!(again.is_ok(), other.has(library.id));
    }
    assert!(all.functions() <= functions);
}

#[cfg(test)]
mod tests {
    #[test]
    fn bodies_accept_samples() {
        super::messagepack(
            b"\x82\xa1a\x93\x01\xcb\x3f\xf1\x99\x99\x99\x99\x99\x9a\xc0\x02\x90\xff",
        );
        super::json(br#"{"a":[1,2.5,null,"\u00e9"],"b":{}}"#);
        super::structure(b"\x05>I2bsabcd\0\0");
        super::script(b"local r = redis.call('get', KEYS[1]) return {r, pcall(string.upper, r)}");
        let library = b"#!lua name=a\nredis.register_function('f', function(keys) return keys end)";
        super::libraries(&[library.to_vec(), library.to_vec()]);
        super::libraries(&[library.to_vec()]);
    }
}
