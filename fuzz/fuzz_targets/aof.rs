//! Files of an append-only log: whatever the bytes are, what is found does not depend on how they
//! come, and is what stands there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_persist::aof::fuzz::run_file(data));
