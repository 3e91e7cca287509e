//! Scripts with the results of Valkey 9.1, and the limits.

mod round_trips;

use crate::engine::{Failure, Host, Input, Interpreter, Level, Sha, Stop};
use crate::lua::Lua;
use weft_resp::{Proto, Reply};

/// A host without commands.
struct NoHost;

impl Host for NoHost {
    fn call(&mut self, _: &[&[u8]], _: &mut Reply) -> Result<(), Stop> {
        Err(Stop)
    }

    fn interrupt(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn log(&mut self, _: Level, _: &[u8]) {}

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn set_repl(&mut self, _: bool, _: bool) {}
}

/// The string or integer that a script returns, or the text of its error without the position at the end.
fn run(lua: &mut Lua, source: &str) -> Vec<u8> {
    let sha = Sha([b'0'; 40]);
    lua.compile(&sha, source.as_bytes()).expect("the script is valid");
    let mut reply = Reply::new(Proto::Resp2);
    match lua.run(&sha, Input { keys: &[], args: &[] }, &mut NoHost, &mut reply) {
        Ok(()) => {
            let bytes = reply.slices(0, usize::MAX).concat();
            let bytes = bytes.strip_suffix(b"\r\n").expect("a line");
            let from = match bytes[0] {
                b'$' => bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1),
                _ => 1,
            };
            bytes[from..].to_vec()
        }
        Err(Failure::Error(text)) => {
            text.strip_suffix(b" script: on @user_script:1.").unwrap_or(&text).to_vec()
        }
        Err(Failure::Stopped) => b"stopped".to_vec(),
    }
}

/// They are read as the tables that they protect. The replies are those of Valkey 9.1.
#[test]
fn protected_tables_are_encoded() {
    let mut lua = Lua::new();
    for name in ["redis", "string", "math", "_G", "{a = redis}", "getmetatable('')"] {
        let error = run(&mut lua, &format!("return cjson.encode({name})"));
        let want = b"ERR user_script:1: Cannot serialise function: type not supported";
        assert_eq!(error.escape_ascii().to_string(), want.escape_ascii().to_string(), "{name}");
    }
    for (source, want) in [
        ("return cmsgpack.pack(os)", &b"\x81\xa5clock\xc0"[..]),
        ("local t = cmsgpack.unpack(cmsgpack.pack({redis})) return t[1].SERVER_NAME", b"valkey"),
        ("return tostring(cmsgpack.unpack(cmsgpack.pack(math)).pi)", b"3.1415926535898"),
        ("return tostring(cmsgpack.unpack(cmsgpack.pack(redis)).call)", b"nil"),
        ("cmsgpack.pack(_G) return tostring(pcall(rawset, redis, 'x', 1))", b"false"),
    ] {
        assert_eq!(run(&mut lua, source), want, "{source}");
    }
}

#[test]
fn scripts_have_the_results_of_valkey() {
    let mut lua = Lua::new();
    let mut lines = include_str!("tests/valkey.txt").lines();
    let mut cases = 0;
    while let Some(source) = lines.next() {
        if source.is_empty() || source.starts_with('#') {
            continue;
        }
        let result = lines.next().and_then(|line| line.strip_prefix("= ")).expect("a result");
        assert_eq!(run(&mut lua, source).escape_ascii().to_string(), result, "{source}");
        cases += 1;
    }
    assert!(cases > 100, "{cases}");
}

/// Lua's stack has 8000 values. The limit here is a few values before that of Valkey.
#[test]
fn deep_values_raise_errors() {
    let mut lua = Lua::new();
    for (source, error) in [
        (
            "local t = {} for i = 1, 9000 do t = {t} end local j = cjson.new() j.encode_max_depth(100000) \
             return select(2, pcall(j.encode, t))",
            "Cannot serialise, excessive nesting (79",
        ),
        (
            "local t = {} for i = 1, 9000 do t = {a = t} end local j = cjson.new() \
             j.encode_max_depth(100000) return select(2, pcall(j.encode, t))",
            "Cannot serialise, excessive nesting (3",
        ),
        (
            "local j = cjson.new() j.decode_max_depth(100000) \
             return select(2, pcall(j.decode, string.rep('[', 9000)))",
            "Found too many nested data structures (79",
        ),
        (
            "local j = cjson.new() j.decode_max_depth(100000) \
             return select(2, pcall(j.decode, string.rep('{\"a\":', 9000)))",
            "Found too many nested data structures (3",
        ),
    ] {
        let got = String::from_utf8(run(&mut lua, source)).expect("text");
        assert!(got.starts_with(error), "{got}");
    }
}

/// A short script can describe a value whose text is endless.
#[test]
fn output_is_limited() {
    let mut lua = Lua::new();
    for call in ["cjson.encode", "cmsgpack.pack"] {
        let source = format!(
            "local s = string.rep('x', 2^20) local t = {{s, s, s, s, s, s, s, s}} \
             for i = 1, 10 do t = {{t, t, t, t}} end return select(2, pcall({call}, t))"
        );
        assert_eq!(run(&mut lua, &source), b"not enough memory");
    }
    let source = "return #struct.pack(string.rep('c0', 600), (function() local s = string.rep('x', 2^20) \
                  local t = {} for i = 1, 600 do t[i] = s end return unpack(t) end)())";
    assert_eq!(run(&mut lua, source), b"ERR not enough memory");
}

/// A function of each library may get all arguments that fit on Lua's stack, and returns or raises an error.
#[test]
fn many_arguments_are_no_danger() {
    let mut lua = Lua::new();
    for n in (7976..=7984).chain(7991..=8000).chain(3998..=4001) {
        for function in [
            "bit.band",
            "bit.tohex",
            "cjson.encode",
            "cjson.decode",
            "cjson.new",
            "cmsgpack.pack",
            "cmsgpack.unpack",
            "cmsgpack.unpack_limit",
            "struct.pack",
            "struct.unpack",
            "struct.size",
            "cjson.encode_max_depth",
        ] {
            for value in ["'b'", "1", "{}"] {
                let source = format!(
                    "local t = {{}} for i = 1, {n} do t[i] = {value} end \
                     return type(pcall(function() local r = {function}(unpack(t)) end))"
                );
                assert_eq!(run(&mut lua, &source), b"boolean", "{source}");
            }
        }
    }
}
