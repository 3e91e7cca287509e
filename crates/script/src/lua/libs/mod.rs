//! The libraries of scripts besides those of Lua.

use super::state::State;

/// Adds them to the globals.
pub(super) fn open(_: &mut State) {}
