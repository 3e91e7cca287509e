//! Files of a cluster's map: any text is a map or an error; a map that is written is read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_cluster::file::check_text(data));
