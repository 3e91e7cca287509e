//! The globals KEYS and ARGV.
//!
//! A script can't keep their tables: it has no value that another script sees. So a run uses those of the run before, if
//! they are as new ones would be. It saves two tables a run, which the collector would have to free.

use super::frame::Frame;
use super::state::{Kept, State};
use super::{bytecode, sandbox};
use crate::engine::Input;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// The values are kept under numbers: that takes a third of the time of their names.
#[derive(Debug)]
pub(super) struct Inputs {
    globals: Kept,
    keys: List,
    args: List,
}

impl Inputs {
    pub(super) fn new(state: &mut State) -> Inputs {
        Inputs {
            globals: state.keep(sandbox::push_globals),
            keys: List::new(state, b"KEYS"),
            args: List::new(state, b"ARGV"),
        }
    }

    /// Lets the script that is the last value read the globals' table itself, not its proxy, if it can't change it: a
    /// script changes globals by their names or through `_G`, which stays a proxy. That saves most of the time to find a
    /// global.
    pub(super) fn give_globals(&self, frame: &mut Frame<'_>) {
        if !bytecode::may_set_globals(&frame.byte_code()) {
            State::push_kept(frame, &self.globals);
            frame.set_environment();
        }
    }

    pub(super) fn set(&mut self, frame: &mut Frame<'_>, input: Input<'_>) {
        self.keys.set(frame, &self.globals, input.keys);
        self.args.set(frame, &self.globals, input.args);
    }
}

/// A global with a list of strings.
#[derive(Debug)]
struct List {
    name: Kept,
    /// The table of the last run; of none at first.
    table: Kept,
    start: Option<NonNull<TableStart>>,
    /// The `nodes` of a table that has none.
    no_nodes: *const c_void,
}

impl List {
    fn new(state: &mut State, name: &[u8]) -> List {
        let name = state.keep(|frame| frame.push_bytes(name));
        let mut start = None;
        let table = state.keep(|frame| {
            frame.push_table(0, 0);
            start = start_of(frame);
        });
        // SAFETY: the table was just made, and is kept.
        let no_nodes = start.map_or(std::ptr::null(), |start| unsafe { start.as_ref().nodes });
        List { name, table, start: None, no_nodes }
    }

    fn set(&mut self, frame: &mut Frame<'_>, globals: &Kept, words: &[&[u8]]) {
        if !self.is_as_new(words.len()) {
            self.renew(frame, globals, words.len());
        } else if words.is_empty() {
            return;
        }
        State::push_kept(frame, &self.table);
        frame.set_list(words);
        frame.pop(1);
    }

    /// Whether the table differs from a new one for `len` elements in nothing but their values.
    fn is_as_new(&self, len: usize) -> bool {
        let Some(start) = self.start else { return false };
        // SAFETY: Lua keeps the table, doesn't move it, and doesn't run meanwhile.
        let start = unsafe { start.as_ref() };
        start.metatable.is_null()
            && start.nodes == self.no_nodes
            && usize::try_from(start.array_len) == Ok(len)
    }

    #[cold]
    fn renew(&mut self, frame: &mut Frame<'_>, globals: &Kept, len: usize) {
        State::push_kept(frame, globals);
        State::push_kept(frame, &self.name);
        frame.push_table(len, 0);
        self.start = start_of(frame);
        frame.push_copy(-1);
        State::replace_kept(frame, &self.table);
        frame.set(-3);
        frame.pop(1);
    }
}

/// The start of a table of Lua 5.1 (`Table` in `lobject.h`).
#[derive(Debug)]
#[repr(C)]
struct TableStart {
    next: *const c_void,
    tag: u8,
    mark: u8,
    absent_metamethods: u8,
    log_nodes: u8,
    metatable: *const c_void,
    array: *const c_void,
    /// Elements that are not in `array`. All tables without such elements share one address.
    nodes: *const c_void,
    last_free: *const c_void,
    gray: *const c_void,
    array_len: c_int,
}

/// The start of the table that is the last value.
fn start_of(frame: &Frame<'_>) -> Option<NonNull<TableStart>> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(frame.address(-1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> (State, List, Kept) {
        let mut state = State::new(1 << 30);
        let globals = state.keep(|frame| frame.push_table(0, 0));
        let list = List::new(&mut state, b"KEYS");
        (state, list, globals)
    }

    #[test]
    fn a_table_is_used_again_for_as_many_words() {
        let (mut state, mut list, globals) = list();
        let mut set = |words: &[&[u8]]| {
            state.with(|frame| {
                list.set(frame, &globals, words);
                State::push_kept(frame, &globals);
                frame.get_field(-1, b"KEYS");
                let found: Vec<Vec<u8>> = (1..=words.len() as i64)
                    .map(|n| {
                        frame.get_index(2, n);
                        let word = frame.bytes(-1).expect("a word").to_vec();
                        frame.pop(1);
                        word
                    })
                    .collect();
                assert_eq!(found, words);
                assert_eq!(frame.length(2), words.len());
                frame.address(2)
            })
        };
        let two = set(&[b"a", b"b"]);
        assert_eq!(set(&[b"c", b"d"]), two);
        let none = set(&[]);
        assert_ne!(none, two);
        assert_eq!(set(&[]), none);
        assert_ne!(set(&[b"e"]), none);
    }

    #[test]
    fn a_table_that_was_changed_is_not_used_again() {
        let changes: [fn(&mut Frame<'_>); 4] = [
            |frame| {
                frame.push_bool(true);
                frame.set_field(-2, b"name");
            },
            |frame| {
                for _ in 0..2 {
                    frame.push_bool(true);
                    frame.set_field(-2, b"name");
                    frame.push_nil();
                    frame.set_field(-2, b"name");
                }
            },
            |frame| {
                frame.push_bool(true);
                frame.set_index(-2, 3);
            },
            |frame| {
                frame.push_table(0, 0);
                frame.set_metatable(-2);
            },
        ];
        for change in changes {
            let (mut state, mut list, globals) = list();
            state.with(|frame| {
                list.set(frame, &globals, &[b"a", b"b"]);
                assert!(list.is_as_new(2));
                State::push_kept(frame, &list.table);
                frame.push_nil();
                frame.set_index(-2, 1);
                assert!(list.is_as_new(2), "an element is set again");
                change(frame);
                frame.pop(1);
                assert!(!list.is_as_new(2));
                list.set(frame, &globals, &[b"a", b"b"]);
                assert!(list.is_as_new(2));
            });
        }
    }
}
