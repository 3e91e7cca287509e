//! Values in the RDB format: any bytes are refused, or decode to a value that is the same after it
//! is encoded and decoded again. Memory is in proportion to the bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_persist::rdb::fuzz::run(data));
