//! Payloads of FUNCTION RESTORE: refused, or libraries whose dump has the same texts. They are loaded and called.
#![no_main]

use weft_persist::rdb::file::{dump_functions, restore_functions};
use weft_persist::rdb::{VERSION, crc64};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut payload = [data, &VERSION.to_le_bytes()].concat();
    let sum = crc64(&payload);
    payload.extend(sum.to_le_bytes());
    let Ok(texts) = restore_functions(&payload) else { return };
    for compress in [false, true] {
        let again = dump_functions(texts.iter().map(Vec::as_slice), compress);
        assert_eq!(restore_functions(&again).as_ref(), Ok(&texts));
    }
    weft_script::lua::fuzz::libraries(&texts);
});
