//! A format and bytes that a script unpacks and packs with `struct`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_script::lua::fuzz::structure(data));
