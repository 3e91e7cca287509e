//! A replica's requests to its primary, and the meaning of the replies.

use crate::cluster::Greeting;
use crate::id::ReplicationId;
use crate::settings::Settings;
use weft_base::num::parse_i64;
use weft_resp::append_request;

/// A request of the handshake. The replies arrive in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Auth,
    Cluster,
    Port,
    Address,
    Capabilities,
    Version,
}

impl Question {
    /// The meaning of an error reply: `Err` if it ends the attempt.
    ///
    /// # Errors
    /// The reason, if replication is impossible then.
    pub fn refused(self, answer: &str) -> Result<String, String> {
        let option = match self {
            Question::Auth => return Err(format!("Unable to AUTH to PRIMARY: {answer}")),
            Question::Cluster => return Err(format!("Primary refuses this node: {answer}")),
            Question::Port => "listening-port",
            Question::Address => "ip-address",
            Question::Capabilities => "capa",
            Question::Version => "version",
        };
        Ok(format!("(Non critical) Primary does not understand REPLCONF {option}: {answer}"))
    }
}

/// The requests of the handshake, and their bytes.
#[must_use]
pub fn questions(settings: &Settings, greeting: Option<&Greeting>) -> (Vec<Question>, Vec<u8>) {
    let (mut asked, mut out) = (Vec::new(), Vec::new());
    let mut ask = |question, text: &[&[u8]]| {
        asked.push(question);
        append_request(text, &mut out);
    };
    let (user, password) = (settings.user.as_bytes(), settings.password.as_bytes());
    if !user.is_empty() && !password.is_empty() {
        ask(Question::Auth, &[b"AUTH", user, password]);
    } else if !password.is_empty() {
        ask(Question::Auth, &[b"AUTH", password]);
    }
    ask(Question::Port, &[b"REPLCONF", b"listening-port", settings.port.to_string().as_bytes()]);
    if !settings.announce_ip.is_empty() {
        ask(Question::Address, &[b"REPLCONF", b"ip-address", settings.announce_ip.as_bytes()]);
    }
    ask(Question::Capabilities, &[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]);
    ask(Question::Version, &[b"REPLCONF", b"version", settings.version.as_bytes()]);
    if let Some(greeting) = greeting {
        asked.push(Question::Cluster);
        greeting.encode(&mut out);
    }
    (asked, out)
}

/// Requests a continuation after this offset of a history, or a full copy.
#[must_use]
pub fn psync(from: Option<(ReplicationId, u64)>, failover: bool) -> Vec<u8> {
    let (id, offset) = match &from {
        Some((id, offset)) => (&id.as_bytes()[..], (offset + 1).to_string()),
        None => (&b"?"[..], "-1".to_string()),
    };
    let mut out = Vec::new();
    match failover {
        true => append_request(&[b"PSYNC", id, offset.as_bytes(), b"FAILOVER"], &mut out),
        false => append_request(&[b"PSYNC", id, offset.as_bytes()], &mut out),
    }
    out
}

/// Acknowledges the applied offset, and the durable one if there is a log.
#[must_use]
pub fn ack(offset: u64, durable: Option<u64>) -> Vec<u8> {
    let (offset, mut out) = (offset.to_string(), Vec::new());
    match durable.map(|durable| durable.to_string()) {
        Some(durable) => append_request(
            &[b"REPLCONF", b"ACK", offset.as_bytes(), b"FACK", durable.as_bytes()],
            &mut out,
        ),
        None => append_request(&[b"REPLCONF", b"ACK", offset.as_bytes()], &mut out),
    }
    out
}

/// Whether the replica can continue after this reply to its PING. A primary that requires a
/// password counts as reachable.
#[must_use]
pub fn is_reachable(answer: &[u8]) -> bool {
    [&b"+"[..], b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted"]
        .iter()
        .any(|begin| answer.starts_with(begin))
}

/// A primary's reply to PSYNC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PsyncAnswer {
    /// A sign of life of the primary.
    Wait,
    /// A full copy follows, then the stream from this position. `None` if the position was invalid,
    /// so the replica can't continue later.
    Full(Option<(ReplicationId, u64)>),
    /// The stream follows, under this id if it has changed.
    Continue(Option<ReplicationId>),
    /// A temporary refusal.
    Retry(String),
    /// The primary doesn't support the request, or refuses it.
    Unknown(String),
}

impl PsyncAnswer {
    #[must_use]
    pub fn parse(line: &[u8]) -> PsyncAnswer {
        let mut parts = line.split(|byte| *byte == b' ');
        match parts.next() {
            None | Some(b"") if line.is_empty() => return PsyncAnswer::Wait,
            Some(b"+FULLRESYNC") => {
                let (id, offset) = (parts.next(), parts.next());
                let id = id.and_then(ReplicationId::parse);
                let offset =
                    offset.and_then(parse_i64).and_then(|offset| u64::try_from(offset).ok());
                return PsyncAnswer::Full(id.zip(offset));
            }
            Some(b"+CONTINUE") => {
                return PsyncAnswer::Continue(parts.next().and_then(ReplicationId::parse));
            }
            Some(_) | None => {}
        }
        let text = String::from_utf8_lossy(line).into_owned();
        let later = [&b"-NOMASTERLINK"[..], b"-LOADING"];
        match later.iter().any(|begin| line.starts_with(begin)) {
            true => PsyncAnswer::Retry(text),
            false => PsyncAnswer::Unknown(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshake_follows_the_settings() {
        let text = |settings: &Settings| {
            let (asked, bytes) = questions(settings, None);
            (asked.len(), String::from_utf8(bytes).expect("text").replace("\r\n", " "))
        };
        let mut settings = Settings::default();
        assert_eq!(
            text(&settings),
            (
                3,
                "*3 $8 REPLCONF $14 listening-port $4 6379 *5 $8 REPLCONF $4 capa $3 eof $4 capa \
                 $6 psync2 *3 $8 REPLCONF $7 version $5 9.1.0 "
                    .to_string()
            )
        );
        settings.password = "secret".to_string();
        assert!(text(&settings).1.starts_with("*2 $4 AUTH $6 secret *3"));
        settings.user = "me".to_string();
        settings.announce_ip = "10.0.0.1".to_string();
        let (asked, bytes) = text(&settings);
        assert_eq!(asked, 5);
        assert!(bytes.starts_with("*3 $4 AUTH $2 me $6 secret *3"));
        assert!(bytes.contains("$10 ip-address $8 10.0.0.1 *5"));
        assert!(Question::Auth.refused("-ERR no").is_err());
        assert!(Question::Version.refused("-ERR no").is_ok());
    }

    #[test]
    fn psync_replies_are_parsed() {
        let id = ReplicationId::from_random([0x5a; 20]);
        let parse = |text: &str| PsyncAnswer::parse(text.replace("ID", id.as_str()).as_bytes());
        assert_eq!(parse(""), PsyncAnswer::Wait);
        assert_eq!(parse("+FULLRESYNC ID 0"), PsyncAnswer::Full(Some((id, 0))));
        assert_eq!(parse("+FULLRESYNC ID -1"), PsyncAnswer::Full(None));
        assert_eq!(parse("+FULLRESYNC ID"), PsyncAnswer::Full(None));
        assert_eq!(parse("+FULLRESYNC 12 34"), PsyncAnswer::Full(None));
        assert_eq!(parse("+CONTINUE"), PsyncAnswer::Continue(None));
        assert_eq!(parse("+CONTINUE ID"), PsyncAnswer::Continue(Some(id)));
        for later in ["-NOMASTERLINK Can't SYNC", "-LOADING x"] {
            assert_eq!(parse(later), PsyncAnswer::Retry(later.to_string()));
        }
        for unknown in ["-ERR unknown command", "+OK", " ", "+FULLRESYNCx", "$5"] {
            assert_eq!(parse(unknown), PsyncAnswer::Unknown(unknown.to_string()));
        }
    }

    #[test]
    fn psync_and_ack_are_encoded() {
        let id = ReplicationId::from_random([1; 20]);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text").replace("\r\n", " ");
        assert_eq!(text(psync(None, false)), "*3 $5 PSYNC $1 ? $2 -1 ");
        assert_eq!(
            text(psync(Some((id, 9)), true)),
            format!("*4 $5 PSYNC $40 {id} $2 10 $8 FAILOVER ")
        );
        assert_eq!(text(ack(12, None)), "*3 $8 REPLCONF $3 ACK $2 12 ");
        assert_eq!(text(ack(12, Some(3))), "*5 $8 REPLCONF $3 ACK $2 12 $4 FACK $1 3 ");
        assert!(
            is_reachable(b"+PONG") && is_reachable(b"-NOAUTH x") && !is_reachable(b"-LOADING x")
        );
    }
}
