//! `REPLCONF`: a replica's options and acknowledgements.

use super::{Phase, Primary};
use crate::action::{Action, ConnId, Parts};
use crate::cx::Cx;
use crate::id::ReplicationId;
use weft_base::num::parse_i64;

/// Limit of an address in bytes, including its terminator.
const HOST_MAX: usize = 256;

/// An effect of REPLCONF apart from the reply.
pub(crate) enum ReplconfEffect {
    Nothing,
    /// Acknowledge this server's offset to its primary now.
    GetAck,
}

/// The result of an option.
enum OptionResult {
    /// Continue with the next option.
    Ok,
    Error(String),
}

impl Primary {
    /// Handles `REPLCONF` with these arguments, without its name.
    pub(crate) fn replconf(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        peer: &str,
        args: &[&[u8]],
    ) -> ReplconfEffect {
        if !args.len().is_multiple_of(2) {
            reply(cx, conn, "-ERR syntax error");
            return ReplconfEffect::Nothing;
        }
        for (at, pair) in args.chunks_exact(2).enumerate() {
            let (name, value) = (pair[0], pair[1]);
            let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
            if is("ack") {
                self.ack(cx, conn, value, &args[2 * at + 2..]);
                return ReplconfEffect::Nothing;
            }
            if is("getack") {
                return ReplconfEffect::GetAck;
            }
            match self.set_option(conn, peer, name, value) {
                OptionResult::Ok => {}
                OptionResult::Error(text) => {
                    reply(cx, conn, &format!("-ERR {text}"));
                    return ReplconfEffect::Nothing;
                }
            }
        }
        reply(cx, conn, "+OK");
        ReplconfEffect::Nothing
    }

    fn set_option(&mut self, conn: ConnId, peer: &str, name: &[u8], value: &[u8]) -> OptionResult {
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        let guest = self.entry(conn, peer);
        let text = String::from_utf8_lossy(value);
        let not_a_number =
            || OptionResult::Error("value is not an integer or out of range".to_string());
        if is("listening-port") {
            match parse_i64(value) {
                Some(port) => guest.announced.port = port,
                None => return not_a_number(),
            }
        } else if is("ip-address") {
            if value.len() >= HOST_MAX {
                return OptionResult::Error(format!(
                    "REPLCONF ip-address provided by replica instance is too long: {} bytes",
                    value.len()
                ));
            }
            guest.announced.address = (!value.is_empty()).then(|| text.into_owned());
        } else if is("capa") {
            // Unknown capabilities are ignored.
            guest.announced.eof |= value.eq_ignore_ascii_case(b"eof");
            guest.announced.psync2 |= value.eq_ignore_ascii_case(b"psync2");
        } else if is("version") {
            match version(&text) {
                Some(version) => guest.announced.version = version,
                None => return OptionResult::Error(format!("Unrecognized version format: {text}")),
            }
        } else if is("rdb-only") {
            match parse_i64(value) {
                Some(flag @ 0..=1) => guest.announced.rdb_only = flag == 1,
                Some(_) => {
                    return OptionResult::Error(
                        "value is out of range, value must between 0 and 1".to_string(),
                    );
                }
                None => return not_a_number(),
            }
        } else if is("rdb-filter-only") {
            let Some(filters) = weft_base::words::split(value) else {
                return OptionResult::Error("Missing rdb-filter-only values".to_string());
            };
            guest.announced.parts = Parts { data: false, functions: false };
            for filter in filters {
                if !filter.eq_ignore_ascii_case(b"functions") {
                    let filter = String::from_utf8_lossy(&filter);
                    return OptionResult::Error(format!(
                        "Unsupported rdb-filter-only option: {filter}"
                    ));
                }
                guest.announced.parts.functions = true;
            }
        } else {
            return OptionResult::Error(format!(
                "Unrecognized REPLCONF option: {}",
                String::from_utf8_lossy(name)
            ));
        }
        OptionResult::Ok
    }

    /// Handles `ack OFFSET [fack OFFSET]`, which has no reply.
    fn ack(&mut self, cx: &mut Cx<'_>, conn: ConnId, offset: &[u8], rest: &[&[u8]]) {
        let end = cx.stream.offset();
        let Some(replica) = self.replicas.get_mut(&conn).filter(|replica| replica.is_replica())
        else {
            return;
        };
        // An acknowledged offset can't exceed the end of the stream.
        let number =
            |text: &[u8]| parse_i64(text).and_then(|n| u64::try_from(n).ok()).map(|n| n.min(end));
        let before = (replica.acks.applied, replica.acks.durable);
        let Some(offset) = number(offset) else { return };
        replica.acks.applied = replica.acks.applied.max(offset);
        if let [name, value, ..] = rest
            && name.eq_ignore_ascii_case(b"fack")
        {
            let Some(offset) = number(value) else { return };
            replica.acks.durable = replica.acks.durable.max(offset);
        }
        replica.acks.time = cx.now;
        match &mut replica.phase {
            Phase::Online { started: false } => self.start_stream(cx, conn),
            Phase::Sending { confirmed, .. } => *confirmed = true,
            Phase::Guest
            | Phase::Waiting { .. }
            | Phase::Snapshot { .. }
            | Phase::Online { started: true } => {}
        }
        if self
            .replicas
            .get(&conn)
            .is_some_and(|replica| (replica.acks.applied, replica.acks.durable) != before)
        {
            cx.out.push(Action::Acknowledged);
        }
        self.report_ack(cx, conn);
    }

    /// Handles a bare line end: a replica that is loading is alive.
    pub(crate) fn newline(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        if let Some(replica) = self.replicas.get_mut(&conn) {
            replica.acks.time = cx.now;
        }
    }
}

pub(super) fn reply(cx: &mut Cx<'_>, conn: ConnId, line: &str) {
    cx.out.push(Action::Reply { conn, bytes: format!("{line}\r\n").into_bytes() });
}

/// Parses `9.1.0` as 0x090100.
fn version(text: &str) -> Option<u32> {
    let number = |part: &str| {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse::<u8>().ok()).flatten()
    };
    let mut parts = text.split('.').map(number);
    let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(u32::from_be_bytes([0, major, minor, patch]))
}

/// The line that begins a full synchronization.
pub(super) fn full_resync(id: ReplicationId, offset: u64) -> String {
    format!("+FULLRESYNC {id} {offset}")
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_parsed() {
        assert_eq!(version("9.1.0"), Some(0x09_01_00));
        assert_eq!(version("255.255.255"), Some(0xff_ff_ff));
        assert_eq!(version("256.0.0"), None);
        assert_eq!(version("9.1"), None);
        assert_eq!(version("9.1.0.0"), None);
        assert_eq!(version("a.b.c"), None);
        assert_eq!(version("+9.1.0"), None);
    }
}
