//! Manifests of an append-only file: a parsed manifest is the same after it is printed and parsed
//! again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_persist::aof::fuzz::run_manifest(data));
