//! ACL GENPASS.

use weft_acl::{MAX_PASSWORD_BITS, hex_password};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::core::ConnCx;

const BAD_BITS: Error = Error::new(
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
);
const NO_RANDOMNESS: Error = Error::new("ERR The system has no random numbers");

const DEFAULT_BITS: usize = 256;

pub fn generate(cx: &mut ConnCx<'_>) -> CmdResult {
    let bits = match cx.args.len() {
        2 => DEFAULT_BITS,
        3 => usize::try_from(cx.int(2)?).map_err(|_| BAD_BITS)?,
        _ => return Err(crate::commands::acl::too_many(cx)),
    };
    if bits == 0 || bits > MAX_PASSWORD_BITS {
        return Err(BAD_BITS);
    }
    let mut random = [0; MAX_PASSWORD_BITS / 8];
    let random = &mut random[..bits.div_ceil(8)];
    // A password that can be guessed is worse than none.
    weft_base::rng::os_random(random).map_err(|_| NO_RANDOMNESS)?;
    cx.reply.bulk(hex_password(random, bits).as_bytes());
    Ok(())
}
