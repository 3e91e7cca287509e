//! The request parser: the same requests and errors however the bytes are split.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_resp::fuzz_parse(data));
