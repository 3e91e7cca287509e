//! Addresses of a cluster store: any text is one or gets an error, and what is written is read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_cluster_store::fuzz::run_address(data));
