//! The replication stream: the same units however the bytes are split, none lost, and the same
//! again after they are encoded again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_replication::fuzz::run_stream(data));
