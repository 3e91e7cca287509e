//! Configuration files: any bytes load or give an error; a loaded configuration survives a rewrite.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_config::fuzz_parse(data));
