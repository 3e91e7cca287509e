//! Scripts that attack the interpreter: published faults of servers with Lua, and others of their kinds.

use super::{Canned, run, sent};
use crate::engine::Failure;
use crate::lua::interpreter::Lua;
use weft_resp::Proto;

/// Runs each script, whose reply contains the text, and then checks that the interpreter is as before.
fn check(scripts: &[(&str, &str)]) {
    const CHECK: &str = "local n = 0 for _, t in pairs({_G, string, redis, cjson, table}) do for k in pairs(t) do n = n + 1 end end \
        return {('x'):upper(), n, tostring(rawget(_G, 'x')), cjson.encode({1}), type(getmetatable(''))}";
    let mut lua = Lua::new();
    lua.limit_memory(16 << 20);
    let before = sent(&mut lua, b"", Proto::Resp2, CHECK);
    for (script, want) in scripts {
        let reply = sent(&mut lua, b"+x\r\n", Proto::Resp2, script);
        let shown = &reply[..reply.len().min(300)];
        assert!(reply.contains(want), "{script}: {shown}");
        assert_eq!(sent(&mut lua, b"", Proto::Resp2, CHECK), before, "after {script}");
    }
}

#[test]
fn published_faults() {
    check(&[
        // CVE-2021-32626: functions in C without room on the stack.
        ("return cmsgpack.pack(unpack({}, 1, 7900))", "Too many arguments"),
        ("return cmsgpack.unpack(('\\145'):rep(9000))", "stack overflow"),
        ("return redis.call(unpack({}, 1, 7990))", "too many arguments"),
        ("return struct.unpack(('b'):rep(8100), ('a'):rep(8100))", "too many results"),
        // CVE-2022-24735: functions and globals that the next script calls.
        ("redis.call = function() end", "readonly table"),
        ("setmetatable(_G, {__index = function() return 1 end})", "readonly table"),
        ("_G.loadstring = nil", "readonly table"),
        // CVE-2022-24736: chunks that aren't any.
        ("return 'a", "unfinished string"),
        ("--[[", "unfinished long comment"),
        ("return [==[", "unfinished long string"),
        ("break", "no loop to break"),
        ("return '\\999'", "escape sequence too large"),
        ("\u{0}", ""),
        // CVE-2022-24834: lengths of escaped text beyond 32 bits, and encoders in general.
        (
            "return cjson.encode({cjson.encode(('\\0'):rep(6e6)), ('\\0'):rep(6e6)})",
            "not enough memory",
        ),
        ("return struct.pack('c2147483647', 'x')", "string too short"),
        ("return struct.pack('>!2147483648i', 1)", "integral size overflow"),
        ("return struct.unpack('c0', ('x'):rep(99), -1)", "data string too short"),
        // CVE-2024-31449.
        ("return bit.tohex(65535, -2147483648)", "0000FFFF"),
        // CVE-2024-46981: finalizers.
        ("newproxy(true)", "nonexistent global variable \\'newproxy\\'"),
        (
            "setmetatable({}, {__gc = function() while true do end end}) collectgarbage() return 1",
            ":1",
        ),
        // CVE-2025-46817.
        ("return {unpack({1, 2, 3}, -2, 2147483647)}", "too many results to unpack"),
        ("return {unpack({1, 2, 3}, -2147483648, 2147483647)}", "too many results to unpack"),
        ("return {unpack({}, 2147483646, 2147483647)}", "*0"),
        // CVE-2025-46818.
        ("getmetatable('').__index = function() end", "readonly table"),
        ("rawset(getmetatable(''), '__index', 1)", "readonly table"),
        ("getmetatable('').__add = 1", "readonly table"),
        (
            "return type(getmetatable(1)) .. type(getmetatable(nil)) .. type(getmetatable(print_or_nil))",
            "nonexistent",
        ),
        ("setmetatable('', {})", "table expected, got string"),
        // CVE-2025-46819.
        ("return loadstring('[' .. ('='):rep(1e6))", "$-1"),
        ("return loadstring('x = [' .. ('='):rep(1e6) .. '[' .. (']='):rep(1e6))", "$-1"),
        // CVE-2025-49844: garbage is collected while the name of a chunk is in use.
        (
            "for n = 1, 200 do collectgarbage() local s = ('x' .. n):rep(1000) loadstring(s .. ' = 1', s) \
             loadstring('return \"' .. s:rep(5) .. '\" ..', '@' .. s) end return 1",
            ":1",
        ),
        // CVE-2025-67733: replies inside of a reply.
        ("return redis.error_reply('A b\\0\\r\\n+OK\\r\\n')", "-A b\\r\\n"),
        ("return {err = 'A b\\r\\n+OK\\r\\n'}", "-A b  +OK"),
        ("return {ok = 'a\\r\\n-b'}", "+a  -b\\r\\n"),
        ("error('a\\r\\n+OK\\r\\n')", "-ERR user_script:1: a  +OK"),
        ("error({err = 'A b\\0\\r\\n+OK\\r\\n'})", "-A b script: on"),
        ("loadstring('\\r\\n+OK\\r\\n(')()", "-ERR user_script:1: attempt to call a nil value"),
    ]);
    let mut lua = Lua::new();
    let script = "redis.setresp(3) return {big_number = '1\\r\\n+OK'}";
    assert_eq!(sent(&mut lua, b"", Proto::Resp3, script), "(1  +OK\\r\\n");
}

#[test]
fn recursion_ends() {
    check(&[
        ("local function f() return 1 + f() end return f()", "stack overflow"),
        ("local function f() return f() end", ""),
        ("local function f() pcall(f) end f() return 1", ":1"),
        ("local function f() xpcall(f, f) end f() return 1", ":1"),
        ("local function f() return ('x'):gsub('x', f) end return f()", "C stack overflow"),
        ("local function f() coroutine.wrap(f)() end f()", "C stack overflow"),
        (
            "local function f() return loadstring('return ...')(f()) end return f()",
            "stack overflow",
        ),
        (
            "local t = {} t = setmetatable(t, {__index = function(t, k) return t[k] end}) return t.x",
            "stack overflow",
        ),
        ("local t = {} setmetatable(t, {__index = t}) return t.x", "loop in gettable"),
        (
            "local t = setmetatable({}, {__tostring = tostring}) return tostring(t)",
            "stack overflow",
        ),
        (
            "return tostring(setmetatable({}, {__tostring = function(t) return tostring(t) end}))",
            "stack overflow",
        ),
        (
            "local t = {} for n = 1, 50 do t[n] = n end table.sort(t, function() table.sort(t) return true end) return 1",
            "",
        ),
        ("return loadstring('return ' .. ('('):rep(1e5) .. '1' .. (')'):rep(1e5))", "$-1"),
        ("return loadstring('return ' .. ('{'):rep(1e5))", "$-1"),
        ("return loadstring('return ' .. ('-'):rep(2) .. ('not '):rep(1e5) .. '1')", ""),
        ("return loadstring(('do '):rep(1e5))", "$-1"),
        ("return loadstring('return ' .. ('function() return '):rep(1e5))", "$-1"),
        ("return loadstring('return ' .. ('a.'):rep(1e5) .. 'a')", ""),
        ("return loadstring('return ' .. ('a..'):rep(1e5) .. 'a')", "$-1"),
        ("local t = {} t[1] = t return cjson.encode(t)", "excessive nesting"),
        ("local t = {} t.x = t return #cmsgpack.pack(t)", ":"),
        ("local t = {} t[1] = t t[2] = t return #cmsgpack.pack(t)", ":"),
        ("local t = {} t[1] = t return t", "stack limit"),
    ]);
}

#[test]
fn memory_is_not_exhausted() {
    check(&[
        ("local s = 'x' while true do s = s .. s end", "not enough memory"),
        ("local t = {} for n = 1, 1e9 do t[n] = n .. '' end", "not enough memory"),
        ("return ('x'):rep(1e9)", "not enough memory"),
        (
            "return table.concat({('x'):rep(1e7), ('x'):rep(1e7)}, ('x'):rep(1e7)):rep(9)",
            "not enough memory",
        ),
        ("return ('x'):rep(1e6):gsub('x', 'xxxxxxxxxxxxxxxxxxxx')", "not enough memory"),
        (
            "local t = {} for n = 1, 1e9 do t[n] = coroutine.create(function() end) end",
            "not enough memory",
        ),
        (
            "local t = {} for n = 1, 1e9 do t[n] = loadstring('return ' .. n) end",
            "not enough memory",
        ),
        (
            "local s = ('x'):rep(2^20) local t = {} for i = 1, 5 do t[i] = s end for i = 1, 9 do t = {t, t, t, t} end return t",
            "too large",
        ),
        ("return string.format('%99999d', 1)", "invalid format (width or precision too long)"),
        ("return string.format('%.99999f', 1)", "invalid format (width or precision too long)"),
        (
            "return string.format(('%s'):rep(9), ('x'):rep(1e7), ('x'):rep(1e7), 1, 1, 1, 1, 1, 1, ('x'):rep(3e7))",
            "not enough memory",
        ),
        ("table.insert({}, -2^31, 1)", "not enough memory"),
        ("local t = {} t[2^53] = 1 t[-1] = 1 t[2^31] = 1 return #t", ":0"),
        ("return table.concat({}, 'x', 1, 2^31 - 1)", "invalid value"),
        ("return {string.byte(('x'):rep(1e5), 1, -1)}", "string slice too long"),
        ("return #string.char(unpack({}, 1, 7900))", "number expected"),
    ]);
}

#[test]
fn the_sandbox_has_no_exit() {
    check(&[
        ("return getfenv(0)", "nonexistent global variable"),
        ("setfenv(1, {})", "nonexistent global variable"),
        ("return debug", "nonexistent global variable"),
        ("return io", "nonexistent global variable"),
        ("return package", "nonexistent global variable"),
        ("return require('os')", "nonexistent global variable"),
        ("return dofile('/etc/passwd')", "nonexistent global variable"),
        ("return loadfile('/etc/passwd')", "nonexistent global variable"),
        ("return os.execute('true')", "attempt to call field \\'execute\\' (a nil value)"),
        ("return os.getenv('PATH')", "attempt to call field \\'getenv\\' (a nil value)"),
        ("return string.dump(loadstring('return 1')):sub(1, 4)", "$4\\r\\n\\x1bLua"),
        ("return loadstring(string.dump(function() end))", "$-1"),
        (
            "local s = string.dump(function() end) return load(function() local r = s s = nil return r end)",
            "$-1",
        ),
        ("local f = loadstring('x = 1') f()", "readonly table"),
        ("local f = load(function() return nil end) return f()", "$-1"),
        ("loadstring('return _G')().x = 1", "readonly table"),
        ("local _, t = pairs(_G) rawset(t, 'x', 1)", "readonly table"),
        ("coroutine.wrap(function() x = 1 end)()", "readonly table"),
        ("local t = setmetatable({}, {__newindex = _G}) t.x = 1", "readonly table"),
        ("local t = setmetatable({}, {__newindex = string}) t.upper = 1", "readonly table"),
        ("table.sort(_G, function() return true end) table.remove(_G) return 1", ":1"),
        (
            "for k, f in pairs(table) do pcall(f, _G, 1, 1) pcall(f, string, 'upper', 1) end return 1",
            ":1",
        ),
        (
            "for k, f in pairs(table) do pcall(f, _G, function(k, v) string[k] = 1 end) end return 1",
            ":1",
        ),
        (
            "for _, t in pairs({string, math, coroutine, cjson, struct, bit, cmsgpack}) do for k, f in pairs(t) do \
          if type(f) == 'function' then for _, a in pairs({1, 'x', _G, string, getmetatable('')}) do pcall(f, a, a, a) end end end end return 1",
            ":1",
        ),
        ("return getmetatable(_G).__newindex", "$-1"),
        ("return getmetatable(redis) == nil and 1 or 2", ":1"),
    ]);
}

#[test]
fn yields_stop_at_functions_that_are_not_written_in_lua() {
    let boundary = "attempt to yield across metamethod/C-call boundary";
    for call in [
        "('a'):gsub('a', function() coroutine.yield() end)",
        "table.sort({3, 2, 1}, function() coroutine.yield() end)",
        "pcall(coroutine.yield)",
        "setmetatable({}, {__index = function() coroutine.yield() end}).x()",
        "load(function() coroutine.yield() end)",
        "tostring(setmetatable({}, {__tostring = function() coroutine.yield() end}))",
    ] {
        let script = format!(
            "local c = coroutine.create(function() local r = {{{call}}} return table.concat({{tostring(r[1]), tostring(r[2])}}) end) \
             local r = {{coroutine.resume(c)}} return tostring(r[2])"
        );
        check(&[(&script, boundary)]);
    }
    check(&[
        ("coroutine.yield(1)", "attempt to yield"),
        ("return coroutine.wrap(function() return redis.call('x') end)()", "+x"),
    ]);
}

#[test]
fn error_values_are_no_danger() {
    check(&[
        (
            "error(setmetatable({}, {__index = function() while true do end end, __tostring = error}))",
            "unknown error",
        ),
        ("error(setmetatable({err = 5}, {__newindex = error}))", "-5"),
        ("local t = {} t.err = t error(t)", "unknown error"),
        ("return setmetatable({}, {__index = function() error('x') end, __len = error})", "*0"),
        ("error(coroutine.create(function() end))", "thread"),
        ("error(redis)", "readonly table"),
        ("error(cjson.null)", "userdata: (nil)"),
        ("error(('x'):rep(1e6))", "xxxx"),
    ]);
}

/// An error handler doesn't keep a script alive that was stopped, whatever the script waits for.
#[test]
fn stopped_scripts_end() {
    let mut lua = Lua::new();
    lua.limit_memory(16 << 20);
    for script in [
        "while true do pcall(string.rep, 'x', 1e9) end",
        "return ('x'):rep(2e7):gsub('', ('%0'):rep(1e5))",
        "local t = {} while true do pcall(function() t[#t + 1] = ('x'):rep(1e6) .. #t end) end",
        "local t = {} while true do pcall(function() while true do t[#t + 1] = {} end end) end",
        "while true do pcall(error, setmetatable({}, {__tostring = function() while true do end end})) end",
        "while true do xpcall(error, function() while true do end end) end",
        "local function f() pcall(f) while true do end end f()",
        "while true do ('a'):rep(30):find(('a?'):rep(30) .. ('a'):rep(31)) end",
        "table.sort({3, 2, 1}, function() while true do end end)",
        "table.foreach({1}, function() while true do end end)",
        "while true do pcall(table.sort, {3, 2, 1}, function() while true do end end) end",
        "while true do pcall(coroutine.wrap(function() while true do pcall(coroutine.yield) end end)) end",
        "tostring(setmetatable({}, {__tostring = function() while true do end end}))",
        "return setmetatable({}, {__eq = function() while true do end end}) == setmetatable({}, {__eq = 1}) or (function() while true do end end)()",
        "while true do loadstring('x')() end while true do end",
        "while true do pcall(loadstring(('a = 1 '):rep(1000))) end",
    ] {
        let end = run(&mut lua, Canned(b"+x\r\n", 60), Proto::Resp2, script);
        assert!(matches!(end, Err(Failure::Stopped | Failure::Error(_))), "{script}: {end:?}");
        assert_eq!(sent(&mut lua, b"", Proto::Resp2, "return 1"), ":1\\r\\n", "after {script}");
    }
}
