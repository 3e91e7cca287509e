//! Files in the RDB format: whatever the bytes are, they are loaded as what comes back when it is
//! written and loaded again, or they are refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_persist::rdb::file::fuzz::run(data));
