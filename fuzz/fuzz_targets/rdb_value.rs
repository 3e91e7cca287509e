//! Values in the RDB format: whatever the bytes are, they are a value that comes back as it is when
//! it is written and read again, or they are refused, with memory in proportion to them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_persist::rdb::fuzz::run(data));
