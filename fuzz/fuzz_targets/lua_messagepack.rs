//! MessagePack that a script unpacks: an error, or values that are the same after they are packed and unpacked
//! again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_script::lua::fuzz::messagepack(data));
