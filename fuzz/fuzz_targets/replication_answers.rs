//! A primary's replies to a replica: the same actions however the bytes are split, no stream before
//! it begins, and no crash for any reply.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_replication::fuzz::run_answers(data));
