//! Functions in Rust, stopped scripts, limited memory.

use super::*;
use crate::engine::{Level, Stop};
use crate::lua::{Kind, Raised};
use weft_resp::Reply;

/// Stops a script after a number of interruptions.
struct Counting(u32);

impl Host for Counting {
    fn call(&mut self, _: &[&[u8]], _: &mut Reply) -> Result<(), Stop> {
        Err(Stop)
    }

    fn interrupt(&mut self) -> Result<(), Stop> {
        self.0 = self.0.checked_sub(1).ok_or(Stop)?;
        Ok(())
    }

    fn log(&mut self, _: Level, _: &[u8]) {}

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn set_repl(&mut self, _: bool, _: bool) {}
}

fn twice(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let Some(n) = frame.number(1) else { return Err(frame.bad_type(1, "number")) };
    frame.push_number(n * 2.0);
    Ok(1)
}

fn state() -> State {
    let mut state = State::new(1 << 20);
    for library in [Library::Base, Library::Table, Library::String, Library::Math] {
        state.open(library);
    }
    state.with_globals(|frame| {
        frame.push_native(twice);
        frame.set_field(1, b"twice");
    });
    state
}

/// The result of a script as text, or its error.
fn run(state: &mut State, source: &str, steps: u32) -> Result<String, String> {
    let kept = state
        .compile(source.as_bytes(), c"@user_script")
        .map_err(|e| String::from_utf8_lossy(&e).into_owned())?;
    let handler = state.keep(|frame| frame.push_native(|_| Ok(1)));
    let result = state.call(
        &mut Counting(steps),
        100,
        &handler,
        |frame| State::push_kept(frame, &kept),
        |frame, result| {
            let text = match frame.kind(-1) {
                Kind::String | Kind::Number => {
                    String::from_utf8_lossy(frame.bytes(-1).unwrap_or_default()).into_owned()
                }
                kind => kind.name().to_string(),
            };
            result.map(|()| text.clone()).map_err(|()| text)
        },
    );
    state.release(kept);
    state.release(handler);
    result
}

#[test]
fn functions_in_rust_return_values_and_raise_errors() {
    let mut state = state();
    assert_eq!(run(&mut state, "return twice(4)", 9), Ok("8".into()));
    let error = "user_script:1: bad argument #1 to 'twice' (number expected, got table)";
    assert_eq!(run(&mut state, "return twice({})", 9), Err(error.into()));
    assert_eq!(
        run(&mut state, "return select(2, pcall(twice, {}))", 9),
        Ok("bad argument #1 to '?' (number expected, got table)".into())
    );
    assert_eq!(run(&mut state, "return ", 9), Ok("nil".into()));
    assert_eq!(
        run(&mut state, "x(", 9),
        Err("user_script:1: unexpected symbol near '<eof>'".into())
    );
    assert_eq!(
        run(&mut state, "\x1bLua", 9),
        Err("user_script:1: unexpected symbol near 'char(27)'".into())
    );
}

#[test]
fn no_error_handler_continues_a_stopped_script() {
    let mut state = state();
    for source in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local f = coroutine.wrap(function() while true do end end) while true do pcall(f) end",
    ] {
        assert!(run(&mut state, source, 50).is_err(), "{source}");
    }
    assert_eq!(run(&mut state, "return twice(4)", 9), Ok("8".into()));
}

#[test]
fn memory_is_limited_and_freed() {
    let mut state = state();
    state.collect();
    let before = state.memory();
    for source in [
        "return string.rep('x', 2000000)",
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "local function f(x) return {f(x)} end return f(1)",
    ] {
        assert!(run(&mut state, source, u32::MAX).is_err(), "{source}");
        state.collect();
        state.collect();
        assert!(state.memory() < before + 200_000, "{source}: {} {before}", state.memory());
    }
}
