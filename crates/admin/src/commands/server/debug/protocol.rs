//! DEBUG PROTOCOL: returns one value of each protocol type, for tests of clients.

use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::core::ConnCx;

const UNKNOWN: Error = Error::new(
    "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|\
     null|array|set|map|attrib|push|verbatim|true|false",
);
const NEEDS_RESP3: Error = Error::new("ERR RESP2 is not supported by this command");

pub fn protocol(cx: &mut ConnCx<'_>) -> CmdResult {
    let kind = cx.args[2].to_ascii_lowercase();
    let in_transaction = cx.in_transaction();
    let reply = &mut *cx.reply;
    match &kind[..] {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.int(12345),
        b"double" => reply.double("3.141"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.int(n);
                reply.boolean(n == 1);
            }
        }
        b"attrib" => {
            if reply.is_resp3() {
                reply.attribute(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.int(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if !reply.is_resp3() {
                return Err(NEEDS_RESP3);
            }
            // A push that a command causes comes after its reply.
            let drops = cx.session.replies.mode.drops() && !in_transaction;
            if !drops {
                reply.bulk(b"Some real reply following the push reply");
            }
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
            if drops {
                // CLIENT REPLY suppresses the reply and keeps the push.
                weft_executor::pubsub::keep(cx.session, reply);
            }
        }
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        _ => return Err(UNKNOWN),
    }
    Ok(())
}
