//! What a primary answers to a replica: the same actions however the bytes come, no stream before
//! there is one, and no crash whatever is said.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_replication::fuzz::run_answers(data));
