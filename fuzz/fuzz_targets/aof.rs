//! Append-only files: for any bytes, the result doesn't depend on how the bytes are split, and
//! describes the file's content.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_persist::aof::fuzz::run_file(data));
