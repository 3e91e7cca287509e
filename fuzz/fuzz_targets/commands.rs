//! The commands on keys: none crashes, whatever its arguments and whatever the keys hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_commands::fuzz::run(data));
