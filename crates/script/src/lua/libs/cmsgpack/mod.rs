//! `cmsgpack`: MessagePack.
//!
//! A table with the keys 1 to n is an array, and any other a map. A number that is a 64-bit integer is stored as one, in
//! the shortest form. The types *bin* and *ext* are not supported.

mod pack;
mod unpack;

use super::{Frame, Native, push_functions, set_text};

const FUNCTIONS: [(&str, Native); 4] = [
    ("pack", pack::pack),
    ("unpack", unpack::unpack),
    ("unpack_one", unpack::unpack_one),
    ("unpack_limit", unpack::unpack_limit),
];

pub(super) fn push(frame: &mut Frame<'_>) {
    push_functions(frame, &FUNCTIONS);
    set_text(frame, "_NAME", "cmsgpack");
    set_text(frame, "_VERSION", "lua-cmsgpack 0.4.0");
    set_text(frame, "_COPYRIGHT", "Copyright (C) 2012, Redis Ltd.");
    set_text(frame, "_DESCRIPTION", "MessagePack C implementation for Lua");
}
