//! The replication stream: the same units however the bytes come, none left out, and the same again
//! when they are written again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_replication::fuzz::run_stream(data));
