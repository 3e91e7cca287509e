//! Responses of etcd to a watch: the same messages however the bytes are divided, in order of their revisions, and no
//! crash for any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_cluster_store::fuzz::run_watch(data));
