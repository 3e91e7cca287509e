//! The commands on keys: none crashes, whatever its arguments and the values of its keys.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_commands::fuzz::run(data));
