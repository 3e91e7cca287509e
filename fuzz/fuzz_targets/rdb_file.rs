//! RDB files: any bytes are refused, or load as data that are the same after they are written and
//! loaded again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_persist::rdb::file::fuzz::run(data));
