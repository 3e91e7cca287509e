//! The meaning of etcd's errors: the codes of gRPC, and etcd's own words where a code has several meanings.
//!
//! The words are those of etcd 3.4 to 3.6 (`api/v3rpc/rpctypes/error.go`). An unknown error counts as doubt.

use crate::store::Error;
use serde_json::Value;

/// A request without the result that was asked for, though an endpoint answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Certainly not done, and another endpoint would reject it as well.
    NotDone(String),
    Refused(String),
    LeaseGone,
    /// Certainly not done: the token has expired, or there is none and etcd wants one.
    NeedsToken(String),
    /// Certainly not done: etcd knows no users, so no login is possible.
    NoUsers,
    /// Certainly not done by this endpoint, which can't at the moment.
    TryElsewhere(String),
    /// Perhaps done.
    Unknown(String),
}

impl Rejection {
    /// The answer to a request, by its HTTP status and body.
    pub fn of_reply(status: u16, body: &[u8]) -> Rejection {
        let value: Option<Value> = serde_json::from_slice(body).ok();
        // The first message of a stream.
        if let Some(error) = value.as_ref().and_then(|v| v.get("error")).filter(|e| e.is_object()) {
            return Rejection::of_stream(error);
        }
        let code = value.as_ref().and_then(|value| value.get("code")).and_then(Value::as_u64);
        let (Some(value), Some(code)) = (&value, code) else {
            let why = format!("HTTP status {status} without an error of etcd");
            // A server that doesn't know the path hasn't executed it. A proxy that fails may have passed it on.
            return match status {
                400..=499 => Rejection::NotDone(format!("{why}; is this an etcd 3.4 or later?")),
                _ => Rejection::Unknown(why),
            };
        };
        Rejection::new(code, message(value))
    }

    /// The error that ends a stream of responses.
    pub fn of_stream(error: &Value) -> Rejection {
        let code = error.get("grpc_code").or_else(|| error.get("code")).and_then(Value::as_u64);
        Rejection::new(code.unwrap_or(UNKNOWN), message(error))
    }

    /// The reason why etcd cancelled a watch, which has no code.
    pub fn of_cancelled(reason: &str) -> Rejection {
        let reason = reason.to_string();
        match reason.as_str() {
            text if text.contains("permission denied") => Rejection::Refused(reason),
            text if text.contains("invalid auth token") || text.contains("user name is empty") => {
                Rejection::NeedsToken(reason)
            }
            _ => Rejection::TryElsewhere(reason),
        }
    }

    fn new(code: u64, why: String) -> Rejection {
        let says = |words: &str| why.contains(words);
        match code {
            UNAUTHENTICATED => Rejection::NeedsToken(why),
            PERMISSION_DENIED => Rejection::Refused(why),
            INVALID_ARGUMENT if says("user name is empty") => Rejection::NeedsToken(why),
            INVALID_ARGUMENT if says("revision of auth store is old") => Rejection::NeedsToken(why),
            INVALID_ARGUMENT if says("authentication failed") => Rejection::Refused(why),
            FAILED_PRECONDITION if says("authentication is not enabled") => Rejection::NoUsers,
            NOT_FOUND if says("requested lease not found") => Rejection::LeaseGone,
            INVALID_ARGUMENT | FAILED_PRECONDITION | NOT_FOUND | OUT_OF_RANGE | UNIMPLEMENTED
            | ALREADY_EXISTS => Rejection::NotDone(why),
            // Before the request is proposed to the other members.
            RESOURCE_EXHAUSTED if says("too many requests") => Rejection::TryElsewhere(why),
            UNAVAILABLE if says("etcdserver: no leader") => Rejection::TryElsewhere(why),
            UNKNOWN if says("raft proposal dropped") => Rejection::TryElsewhere(why),
            // Among them: a timeout after the proposal, a change of the leader, and "database space exceeded", which
            // etcd also returns for the put that it executed last.
            _ => Rejection::Unknown(why),
        }
    }
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Error {
        match rejection {
            Rejection::NotDone(why) => Error::NotDone(why),
            Rejection::Refused(why) | Rejection::NeedsToken(why) => Error::Refused(why),
            Rejection::LeaseGone => Error::LeaseGone,
            Rejection::NoUsers => Error::NotDone("authentication is not enabled".to_string()),
            Rejection::TryElsewhere(why) => Error::Unavailable(why),
            Rejection::Unknown(why) => Error::Unknown(why),
        }
    }
}

fn message(error: &Value) -> String {
    let text = error.get("message").or_else(|| error.get("error")).and_then(Value::as_str);
    text.unwrap_or("no words").to_string()
}

// The codes of gRPC (google/rpc/code.proto).
const UNKNOWN: u64 = 2;
const INVALID_ARGUMENT: u64 = 3;
const NOT_FOUND: u64 = 5;
const ALREADY_EXISTS: u64 = 6;
const PERMISSION_DENIED: u64 = 7;
const RESOURCE_EXHAUSTED: u64 = 8;
const FAILED_PRECONDITION: u64 = 9;
const OUT_OF_RANGE: u64 = 11;
const UNIMPLEMENTED: u64 = 12;
const UNAVAILABLE: u64 = 14;
const UNAUTHENTICATED: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_remains_unless_the_error_excludes_it() {
        let of = |code: u64, message: &str| {
            let body = format!(r#"{{"error":"x","message":"{message}","code":{code}}}"#);
            Error::from(Rejection::of_reply(500, body.as_bytes()))
        };
        let is_unknown = |code, message| matches!(of(code, message), Error::Unknown(_));
        assert!(is_unknown(14, "etcdserver: request timed out"));
        assert!(is_unknown(14, "etcdserver: leader changed"));
        assert!(is_unknown(8, "etcdserver: mvcc: database space exceeded"));
        assert!(is_unknown(99, "new"));
        assert!(matches!(of(14, "etcdserver: no leader"), Error::Unavailable(_)));
        assert!(matches!(of(8, "etcdserver: too many requests"), Error::Unavailable(_)));
        assert!(matches!(of(3, "etcdserver: request is too large"), Error::NotDone(_)));
        assert!(matches!(of(7, "etcdserver: permission denied"), Error::Refused(_)));
        assert_eq!(of(5, "etcdserver: requested lease not found"), Error::LeaseGone);
    }

    #[test]
    fn answers_of_other_servers_are_recognized() {
        assert!(matches!(Rejection::of_reply(404, b"not found"), Rejection::NotDone(_)));
        assert!(matches!(Rejection::of_reply(502, b"<html>"), Rejection::Unknown(_)));
        assert!(matches!(Rejection::of_reply(200, b""), Rejection::Unknown(_)));
    }
}
