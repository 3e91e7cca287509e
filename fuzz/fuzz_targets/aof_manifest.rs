//! Manifests of an append-only log: what is read comes back as it is when it is printed.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_persist::aof::fuzz::run_manifest(data));
