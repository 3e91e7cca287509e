//! Compiles and runs scripts.

use super::convert::NotConverted;
use super::frame::{Frame, Kind, Raised};
use super::inputs::Inputs;
use super::state::{Kept, Library, State};
use super::{api, convert, library, libs, sandbox};
use crate::engine::{Failure, Host, Input, Interpreter, LibraryId, Registered, ReplyErrors, Sha};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use weft_resp::Reply;

/// Bytes that the scripts of a thread may use.
const MEMORY_LIMIT: usize = 512 << 20;

/// The first state of `math.random`, that of POSIX `lrand48`. Scripts of a thread continue its sequence.
const FIRST_RANDOM: u64 = 0x1234_abcd_330e;

/// An interpreter for Lua 5.1.
#[derive(Debug)]
pub struct Lua {
    state: State,
    scripts: HashMap<Sha, Kept, RandomState>,
    /// The tables of the functions of libraries.
    libraries: HashMap<LibraryId, Kept, RandomState>,
    /// [`add_position`].
    handler: Kept,
    /// Returns the error's value as it is.
    plain_handler: Kept,
    inputs: Inputs,
    collection: Collection,
}

impl Default for Lua {
    fn default() -> Self {
        Lua::new()
    }
}

impl Lua {
    /// About 100 microseconds.
    pub fn new() -> Lua {
        let mut state = State::new(MEMORY_LIMIT);
        for library in [Library::Base, Library::Table, Library::String, Library::Math, Library::Os]
        {
            state.open(library);
        }
        libs::open(&mut state);
        api::open(&mut state);
        sandbox::close(&mut state);
        state.context().random.set(FIRST_RANDOM);
        library::open(&mut state);
        let handler = state.keep(|frame| frame.push_native(add_position));
        let plain_handler = state.keep(|frame| frame.push_native(|_| Ok(1)));
        let inputs = Inputs::new(&mut state);
        let collection = Collection::new(&mut state);
        Lua {
            state,
            scripts: HashMap::default(),
            libraries: HashMap::default(),
            handler,
            plain_handler,
            inputs,
            collection,
        }
    }

    /// Runs the code of a library, whose functions are registered meanwhile.
    fn run_library(&mut self, code: &[u8], host: &mut dyn Host) -> Result<(), Vec<u8>> {
        let kept = self
            .state
            .compile(code, c"@user_function")
            .map_err(|message| [b"Error compiling function: ", &message[..]].concat())?;
        let end = self.state.call(
            host,
            Self::STEP,
            &self.plain_handler,
            |frame| State::push_kept(frame, &kept),
            |frame, result| match result {
                Ok(()) => Ok(()),
                Err(()) if frame.context().stopped.get() => {
                    Err(b"ERR FUNCTION LOAD timeout".to_vec())
                }
                Err(()) => Err(load_error_text(frame)),
            },
        );
        self.state.release(kept);
        end.map_err(|text| [b"Error registering functions: ", &text[..]].concat())
    }

    fn load_once(
        &mut self,
        library: LibraryId,
        code: &[u8],
        host: &mut dyn Host,
    ) -> Result<Vec<Registered>, Vec<u8>> {
        self.state.with(library::begin);
        let loaded = self.run_library(convert::until_zero(code), host);
        let mut registered = Vec::new();
        let functions = self.state.keep(|frame| registered = library::end(frame));
        self.collect();
        if let Err(text) = loaded {
            self.state.release(functions);
            return Err(text);
        }
        if let Some(old) = self.libraries.insert(library, functions) {
            self.state.release(old);
        }
        Ok(registered)
    }

    /// Changes the memory that scripts may use.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn limit_memory(&mut self, bytes: usize) {
        self.state.set_limit(bytes);
        self.collection.full = bytes / 2;
        self.collection.begin = self.collection.begin.min(bytes / 2);
    }

    /// The errors in the result of the last script. `counted` isn't 0 if it has failed with the error of a command.
    pub fn take_errors(&mut self) -> ReplyErrors {
        self.state.context().errors.take()
    }

    /// Collects all garbage. O(objects).
    pub fn collect_all(&mut self) {
        self.state.collect();
    }

    fn collect(&mut self) {
        self.collection.after_run(&mut self.state);
    }
}

impl Interpreter for Lua {
    fn compile(&mut self, sha: &Sha, body: &[u8]) -> Result<(), Vec<u8>> {
        let kept = self.state.compile(body, c"@user_script").map_err(|message| {
            [b"ERR Error compiling script (new function): ", &message[..]].concat()
        })?;
        self.state.with(|frame| {
            State::push_kept(frame, &kept);
            self.inputs.give_globals(frame);
        });
        if let Some(old) = self.scripts.insert(*sha, kept) {
            self.state.release(old);
        }
        Ok(())
    }

    fn knows(&self, sha: &Sha) -> bool {
        self.scripts.contains_key(sha)
    }

    fn forget(&mut self, sha: &Sha) {
        if let Some(kept) = self.scripts.remove(sha) {
            self.state.release(kept);
        }
    }

    fn run(
        &mut self,
        sha: &Sha,
        input: Input<'_>,
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Result<(), Failure> {
        let kept = self.scripts.get(sha).expect("a script is compiled before it runs");
        self.state.context().is_resp3.set(false);
        let end = self.state.call(
            host,
            Self::STEP,
            &self.handler,
            |frame| {
                self.inputs.set(frame, input);
                State::push_kept(frame, kept);
            },
            |frame, result| append_result(frame, result, reply),
        );
        self.collect();
        end
    }

    /// If other libraries leave too little memory, they are forgotten: their next calls load them again.
    fn load(
        &mut self,
        library: LibraryId,
        code: &[u8],
        host: &mut dyn Host,
    ) -> Result<Vec<Registered>, Vec<u8>> {
        match self.load_once(library, code, host) {
            Err(text) if text.ends_with(b"not enough memory") && !self.libraries.is_empty() => {
                self.retain(|_| false);
                self.state.collect();
                self.load_once(library, code, host)
            }
            loaded => loaded,
        }
    }

    fn has(&self, library: LibraryId) -> bool {
        self.libraries.contains_key(&library)
    }

    fn has_libraries(&self) -> bool {
        !self.libraries.is_empty()
    }

    fn retain(&mut self, is_kept: impl Fn(LibraryId) -> bool) {
        let gone = self.libraries.extract_if(|id, _| !is_kept(*id));
        gone.for_each(|(_, functions)| self.state.release(functions));
    }

    fn call(
        &mut self,
        (library, number): (LibraryId, usize),
        input: Input<'_>,
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Result<(), Failure> {
        let functions = self.libraries.get(&library).expect("a library is loaded before its calls");
        self.state.context().is_resp3.set(false);
        let end = self.state.call(
            host,
            Self::STEP,
            &self.handler,
            |frame| {
                library::enter(frame);
                State::push_kept(frame, functions);
                frame.get_index(-1, number as i64 + 1);
                frame.remove(-2);
                for list in [input.keys, input.args] {
                    frame.push_table(list.len(), 0);
                    frame.set_list(list);
                }
            },
            |frame, result| append_result(frame, result, reply),
        );
        self.state.with(library::leave);
        self.collect();
        end
    }

    fn memory(&self) -> usize {
        self.state.memory()
    }
}

/// When the collector runs between two scripts. Each cycle marks the libraries, which are most of a small state: so it
/// begins only once there is much garbage.
#[derive(Debug)]
struct Collection {
    /// More bytes than this: a cycle begins, or the one in progress continues.
    begin: usize,
    /// More bytes than this after a run: all garbage is collected. Else a script that has used up the memory would leave
    /// none to the next one.
    full: usize,
}

impl Collection {
    /// Bytes of garbage at which a cycle begins in a small state.
    const LEAST: usize = 512 << 10;
    /// The size of a step in kilobytes.
    const STEP_SIZE: usize = 16;

    fn new(state: &mut State) -> Collection {
        let mut collection = Collection { begin: 0, full: MEMORY_LIMIT / 2 };
        collection.cycle_ended(state);
        collection
    }

    /// Sets the size at which the next cycle begins, between scripts and, for a script that uses much more, within one.
    fn cycle_ended(&mut self, state: &mut State) {
        let live = state.memory();
        self.begin = live + live.max(Self::LEAST);
        state.set_pause((100 + 200 * Self::LEAST / live.max(1)).clamp(200, 1000));
    }

    #[inline]
    fn after_run(&mut self, state: &mut State) {
        if state.memory() > self.begin {
            self.step(state);
        }
    }

    #[cold]
    fn step(&mut self, state: &mut State) {
        state.reset_steps();
        if state.memory() > self.full {
            state.collect();
            self.full = self.full.max(state.memory() * 3 / 2);
            self.cycle_ended(state);
        } else if state.collect_step(Self::STEP_SIZE) {
            self.cycle_ended(state);
        }
    }
}

/// Appends the result of a script, which is the last value, or returns its error.
fn append_result(
    frame: &mut Frame<'_>,
    result: Result<(), ()>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    match result {
        _ if frame.context().stopped.get() => Err(Failure::Stopped),
        Ok(()) => convert::append(frame, reply).map_err(|why| match why {
            NotConverted::TooLarge => {
                frame.context().errors.take();
                Failure::Error(b"ERR the result of the script is too large".to_vec())
            }
            NotConverted::Stopped => Failure::Stopped,
        }),
        Err(()) => Err(Failure::Error(error_text(frame))),
    }
}

/// The text of the error that has ended the code of a library: the last value, from a handler that returns it as it is.
fn load_error_text(frame: &mut Frame<'_>) -> Vec<u8> {
    if frame.kind(-1) == Kind::Table {
        frame.get_field(-1, b"err");
        return convert::until_zero(frame.bytes(-1).unwrap_or(b"ERR unknown error")).to_vec();
    }
    [b"ERR ", convert::until_zero(frame.bytes(-1).unwrap_or(b"unknown error"))].concat()
}

/// The handler of a script's errors: makes a table with the text and the position.
fn add_position(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    // Level 1 has raised the error; if it isn't written in Lua, its caller is shown.
    let place = frame.place(1).filter(|place| place.is_lua).or_else(|| frame.place(2));
    if frame.is_proxy(1) {
        // The reference says where its own handler has failed, too.
        push_error(frame, b"Attempt to modify a readonly table");
    } else if frame.kind(1) == Kind::Table {
        frame.push_copy(1);
    } else {
        let text = match frame.kind(1) {
            Kind::String | Kind::Number => frame.bytes(1).unwrap_or_default().to_vec(),
            Kind::Boolean if frame.is_true(1) => b"true".to_vec(),
            Kind::Boolean => b"false".to_vec(),
            Kind::Nil => b"nil".to_vec(),
            kind if frame.address(1) == 0 => format!("{}: (nil)", kind.name()).into_bytes(),
            kind => format!("{}: {:#x}", kind.name(), frame.address(1)).into_bytes(),
        };
        push_error(frame, &text);
    }
    if let Some(place) = place {
        frame.push_bytes(&place.source);
        frame.set_field(-2, b"source");
        frame.push_number(f64::from(place.line));
        frame.set_field(-2, b"line");
    }
    Ok(1)
}

fn push_error(frame: &mut Frame<'_>, text: &[u8]) {
    frame.push_table(0, 3);
    frame.push_bytes(&[b"ERR ", text].concat());
    frame.set_field(-2, b"err");
}

/// The text of the error reply for the error value that is the last value.
fn error_text(frame: &mut Frame<'_>) -> Vec<u8> {
    if frame.kind(-1) != Kind::Table {
        // Without memory for the handler.
        let text = frame.bytes(-1).unwrap_or(b"execution failure");
        return [b"ERR Error running script, ", text].concat();
    }
    let mut field = |name: &[u8]| {
        frame.get_field(-1, name);
        let text = frame.bytes(-1).map(|text| convert::until_zero(text).to_vec());
        frame.pop(1);
        text
    };
    let (text, source, line) = (field(b"err"), field(b"source"), field(b"line"));
    let mut text = text.unwrap_or_else(|| b"ERR unknown error".to_vec());
    if convert::is_counted(frame) {
        frame.context().errors.borrow_mut().counted += 1;
    }
    if let (Some(source), Some(line)) = (source, line) {
        text.extend_from_slice(b" script: on ");
        text.extend_from_slice(&source);
        text.push(b':');
        text.extend_from_slice(&line);
        text.push(b'.');
    }
    text
}

#[cfg(test)]
mod tests;
