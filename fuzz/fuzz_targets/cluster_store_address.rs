//! Addresses of a cluster store: any text is one or gets an error, and an address survives writing and reading.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_cluster_store::fuzz::run_address(data));
