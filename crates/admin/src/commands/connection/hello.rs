//! HELLO: sets the protocol version, the user and the client's name; returns facts of the server.

use crate::commands::connection::auth::authenticate;
use crate::commands::connection::client::names::{check_name, set_name};
use crate::commands::connection::{HANDSHAKE, plain};
use std::sync::atomic::Ordering;
use weft_base::num::parse_i64;
use weft_command_spec::{Secrets, Spec, Special};
use weft_commands::{CmdResult, Error};
use weft_config::Id;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_resp::Proto;
use weft_state::command_table::NOTHING;
use weft_state::version::VERSION;

const NOT_A_VERSION: Error = Error::new("ERR Protocol version is not an integer or out of range");
const NO_PROTO: Error = Error::new("NOPROTO unsupported protocol version");
const NO_AUTH: Error = Error::new(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
     <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
     RESP protocol version at the same time",
);

/// The Redis version reported to old clients; the same as in INFO.
const REDIS_VERSION: &str = "7.2.4";

pub const HELLO: ServerCommand = ServerCommand {
    spec: Spec {
        history: &[
            (
                "6.2.0",
                "The version may be left out: then the protocol stays, and only the facts are returned.",
            ),
            ("8.1.0", "Returns the availability zone, if one is configured."),
        ],
        special: Special::secrets(Secrets::AfterAuth),
        ..plain(
            "hello",
            -1,
            HANDSHAKE,
            "6.0.0",
            "Negotiates the protocol and authenticates.",
            "[arguments=(protover:integer [AUTH auth=(username password)] [SETNAME clientname])]",
            hello,
        )
        .spec
    },
    needs: NOTHING,
    run: hello,
    subcommands: &[],
};

/// The parsed arguments.
#[derive(Default)]
struct TrackingOptions<'a> {
    proto: Option<Proto>,
    auth: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl<'a> TrackingOptions<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Self, Error> {
        let Some((version, mut rest)) = args.split_first() else {
            return Ok(TrackingOptions::default());
        };
        let proto = match parse_i64(version).ok_or(NOT_A_VERSION)? {
            2 => Proto::Resp2,
            3 => Proto::Resp3,
            _ => return Err(NO_PROTO),
        };
        let mut wishes = TrackingOptions { proto: Some(proto), ..TrackingOptions::default() };
        while let Some((option, after)) = rest.split_first() {
            rest = match after {
                [user, password, after @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                    wishes.auth = Some((user, password));
                    after
                }
                [name, after @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                    check_name(name)?;
                    wishes.name = Some(name);
                    after
                }
                _ => {
                    let text = [b"ERR Syntax error in HELLO option '", *option, b"'"].concat();
                    return Err(Error::owned(text));
                }
            };
        }
        Ok(wishes)
    }
}

fn hello(cx: &mut ConnCx<'_>) -> CmdResult {
    let wishes = TrackingOptions::parse(&cx.args[1..])?;
    if let Some((user, password)) = wishes.auth {
        authenticate(cx, user, password)?;
    }
    if cx.session.identity.must_log_in {
        return Err(NO_AUTH);
    }
    if let Some(name) = wishes.name {
        set_name(&cx.session.shared, name);
    }
    if let Some(proto) = wishes.proto {
        speak(cx, proto);
    }
    introduce(cx);
    Ok(())
}

/// Changes the protocol, beginning with this reply.
pub fn speak(cx: &mut ConnCx<'_>, proto: Proto) {
    cx.session.proto = proto;
    cx.reply.proto = proto;
    cx.session.shared.activity.resp.store(number_of(proto), Ordering::Relaxed);
}

fn number_of(proto: Proto) -> u32 {
    match proto {
        Proto::Resp2 => 2,
        Proto::Resp3 => 3,
    }
}

/// The reply: facts of the server.
fn introduce(cx: &mut ConnCx<'_>) {
    let config = cx.core.srv.config();
    let (server, version) = match config.bool(Id::EXTENDED_REDIS_COMPATIBILITY) {
        true => ("redis", REDIS_VERSION),
        false => ("weft", VERSION),
    };
    let zone = config.bytes(Id::AVAILABILITY_ZONE);
    let reply = &mut *cx.reply;
    reply.map(7 + usize::from(!zone.is_empty()));
    let mut text = |field: &str, value: &str| {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    };
    text("server", server);
    text("version", version);
    reply.bulk(b"proto");
    reply.int(i64::from(number_of(cx.session.proto)));
    reply.bulk(b"id");
    reply.int(cx.session.shared.id as i64);
    let mut text = |field: &str, value: &str| {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    };
    text("mode", cx.core.srv.nodes.cluster.mode());
    text("role", "master");
    reply.bulk(b"modules");
    reply.array(0);
    if !zone.is_empty() {
        reply.bulk(b"availability_zone");
        reply.bulk(zone);
    }
}
