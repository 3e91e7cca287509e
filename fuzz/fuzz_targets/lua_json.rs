//! JSON that a script decodes: an error, or values that are the same after they are encoded and decoded again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_script::lua::fuzz::json(data));
