//! Any text as a script, in the sandbox: it ends, and changes nothing that the next script sees.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_script::lua::fuzz::script(data));
