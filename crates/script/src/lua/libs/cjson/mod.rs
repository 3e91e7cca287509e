//! `cjson`: JSON. Each table of functions (`cjson.new`) has its own [`settings`].

mod decode;
mod encode;
mod settings;

use super::{Frame, Native, Raised, set_text};

const FUNCTIONS: [(&str, Native); 10] = [
    ("encode", encode::encode),
    ("decode", decode::decode),
    ("encode_sparse_array", settings::encode_sparse_array),
    ("encode_max_depth", settings::encode_max_depth),
    ("decode_max_depth", settings::decode_max_depth),
    ("encode_number_precision", settings::encode_number_precision),
    ("encode_keep_buffer", settings::encode_keep_buffer),
    ("encode_invalid_numbers", settings::encode_invalid_numbers),
    ("decode_invalid_numbers", settings::decode_invalid_numbers),
    ("new", new),
];

/// Pushes a table of the functions, which share new settings.
pub(super) fn push(frame: &mut Frame<'_>) {
    frame.push_table(0, FUNCTIONS.len() + 3);
    settings::push(frame);
    for (name, function) in FUNCTIONS {
        frame.push_copy(-1);
        frame.push_native_with(function);
        frame.set_field(-3, name.as_bytes());
    }
    frame.pop(1);
    frame.push_null();
    frame.set_field(-2, b"null");
    set_text(frame, "_NAME", "cjson");
    set_text(frame, "_VERSION", "2.1.0");
}

fn new(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    push(frame);
    Ok(1)
}
