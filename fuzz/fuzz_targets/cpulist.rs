//! CPU lists: any text parses or gives an error; a parsed list is the same after it is printed and
//! parsed again.
#![no_main]

use weft_base::cpulist::parse;

libfuzzer_sys::fuzz_target!(|data: &str| {
    if let Ok(cpus) = parse(data) {
        let printed = cpus.to_string();
        assert_eq!(parse(&printed).as_ref(), Ok(&cpus), "{printed}");
    }
});
