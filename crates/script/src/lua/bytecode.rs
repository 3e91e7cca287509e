//! Reads the byte code that Lua 5.1 writes (`ldump.c`), on this machine and from source.

/// The instruction that changes a global by its name.
const SET_GLOBAL: u8 = 7;
/// The bits of an instruction with its number.
const OPERATION: u8 = 0x3f;
/// Bytes before the first function.
const HEADER: usize = 12;

/// Whether a function, or one that it contains, may change a global by its name. True if the byte code can't be read.
pub(super) fn may_set_globals(code: &[u8]) -> bool {
    let mut rest = Rest(code.get(HEADER..).unwrap_or_default());
    rest.function(0) != Some(false) || !rest.0.is_empty()
}

/// The bytes that were not read.
struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    /// Lua limits the nesting of functions to 200.
    const MOST_DEPTH: usize = 250;

    fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn count(&mut self) -> Option<usize> {
        let bytes = self.take(size_of::<i32>())?.try_into().ok()?;
        usize::try_from(i32::from_ne_bytes(bytes)).ok()
    }

    fn items(&mut self, size: usize) -> Option<&'b [u8]> {
        let bytes = self.count()?.checked_mul(size)?;
        self.take(bytes)
    }

    fn string(&mut self) -> Option<()> {
        let len = usize::from_ne_bytes(self.take(size_of::<usize>())?.try_into().ok()?);
        self.take(len).map(|_| ())
    }

    /// Whether the next function may set globals.
    fn function(&mut self, depth: usize) -> Option<bool> {
        if depth > Self::MOST_DEPTH {
            return None;
        }
        self.string()?;
        // Its first and last line, and four numbers of one byte.
        self.take(2 * size_of::<i32>() + 4)?;
        // The operation is in the lowest bits of a number.
        let code = self.items(4)?.as_chunks::<4>().0;
        let mut sets =
            code.iter().any(|word| u32::from_ne_bytes(*word) as u8 & OPERATION == SET_GLOBAL);
        for _ in 0..self.count()? {
            self.constant()?;
        }
        for _ in 0..self.count()? {
            sets |= self.function(depth + 1)?;
        }
        self.debug_data()?;
        Some(sets)
    }

    fn constant(&mut self) -> Option<()> {
        match self.take(1)? {
            [0] => Some(()),
            [1] => self.take(1).map(|_| ()),
            [3] => self.take(size_of::<f64>()).map(|_| ()),
            [4] => self.string(),
            _ => None,
        }
    }

    fn debug_data(&mut self) -> Option<()> {
        // The line of each instruction.
        self.items(size_of::<i32>())?;
        // Local variables, with the first and last instruction of each.
        for _ in 0..self.count()? {
            self.string()?;
            self.take(2 * size_of::<i32>())?;
        }
        // Names of upvalues.
        for _ in 0..self.count()? {
            self.string()?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;

    #[track_caller]
    fn check(source: &str, sets: bool) {
        let mut state = State::new(1 << 30);
        let code = state.with(|frame| {
            assert!(frame.compile(source.as_bytes(), c"@user_script"));
            frame.byte_code()
        });
        assert_eq!(may_set_globals(&code), sets, "{source}");
        for len in 0..code.len() {
            assert!(may_set_globals(&code[..len]), "{source}: {len} bytes");
        }
    }

    #[test]
    fn changes_of_globals_are_found() {
        check("x = 1", true);
        check("function f() end", true);
        check("local function f() return function() y = 1 end end", true);
        check("local t = {} for n = 1, 2 do if t[n] then x = 1 end end", true);
        check("local x = 1; x = 2; return function() x = 3 end", false);
        check("local t = {a = 1, 'b', true, nil, 1.5}; t.x = 2; return t", false);
        check("return redis.call('get', KEYS[1])", false);
        check("for n = 1, 10 do redis.call('incr', KEYS[1]) end", false);
        check("", false);
    }
}
