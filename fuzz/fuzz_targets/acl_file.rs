//! ACL files: any bytes are users or errors; users that are written are read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_acl::fuzz::check_file(data));
