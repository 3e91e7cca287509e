//! Rules of ACL SETUSER, one a line: their description makes the same user.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_acl::fuzz::check_rules(data));
