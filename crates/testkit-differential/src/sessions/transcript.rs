//! The frames that a client received, in a form that can be compared between servers.

use std::fmt;
use weft_testkit::client::Reply;
use weft_testkit::value::{Value, quote_short};

/// One reply or push.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Frame {
    /// Its bytes.
    Raw(Vec<u8>),
    /// A frame with facts that differ between servers: the rest, without them.
    Picture(String),
    /// The server has closed the connection.
    End,
    /// No reply, or an invalid one.
    Failed(String),
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frame::Raw(bytes) => write!(f, "{}", quote_short(bytes)),
            Frame::Picture(text) => write!(f, "{text}"),
            Frame::End => write!(f, "(closed)"),
            Frame::Failed(why) => write!(f, "(failed: {why})"),
        }
    }
}

impl Frame {
    pub fn of(reply: &Reply) -> Frame {
        match picture(&reply.value) {
            Some(picture) => Frame::Picture(picture),
            None => Frame::Raw(in_own_protocol(&reply.raw)),
        }
    }

    /// Whether it is the reply to PING with this word.
    pub fn is_answer(&self, word: &str) -> bool {
        let Frame::Raw(raw) = self else { return false };
        let bulk = format!("${}\r\n{word}\r\n", word.len());
        let pong = format!("*2\r\n$4\r\npong\r\n{bulk}");
        raw == bulk.as_bytes() || raw == pong.as_bytes()
    }

    /// Replaces ids of clients by names, where the ids are known.
    pub fn with_names(self, name: impl Fn(i64) -> String) -> Frame {
        match self {
            Frame::Picture(text) if text.contains("redir") => Frame::Picture(renamed(&text, name)),
            Frame::Raw(raw) => match weft_testkit::value::parse(&raw) {
                Ok(Some((Value::Push(items), _))) => match &items[..] {
                    [word, Value::Integer(id)]
                        if word.bytes() == Some(b"tracking-redir-broken") =>
                    {
                        Frame::Picture(format!("redirection to {} is broken", name(*id)))
                    }
                    _ => Frame::Raw(raw),
                },
                _ => Frame::Raw(raw),
            },
            other => other,
        }
    }

    /// `pmessage`, `unsubscribe` and so on, if it is such an array or push.
    fn word(&self) -> Option<&[u8]> {
        let Frame::Raw(raw) = self else { return None };
        if !matches!(raw.first(), Some(b'*' | b'>')) {
            return None;
        }
        let lines: Vec<&[u8]> = raw.split(|b| *b == b'\n').take(3).collect();
        lines.get(2).map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// Whether it is a published message.
    pub fn is_message(&self) -> bool {
        matches!(self.word(), Some(b"message" | b"pmessage" | b"smessage" | b"invalidate"))
    }
}

/// For an invalidation of all keys, the reference uses the null of the reader's protocol, whichever
/// client receives it.
fn in_own_protocol(raw: &[u8]) -> Vec<u8> {
    const PUSHED: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";
    const HEARD: &[u8] = b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n";
    match (raw.strip_prefix(PUSHED), raw.strip_prefix(HEARD)) {
        (Some(b"$-1\r\n"), _) => [PUSHED, b"_\r\n"].concat(),
        (_, Some(b"_\r\n")) => [HEARD, b"$-1\r\n"].concat(),
        _ => raw.to_vec(),
    }
}

/// `redir=7` with a name instead of the id.
fn renamed(text: &str, name: impl Fn(i64) -> String) -> String {
    let mut parts = text.split("redir=");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(part.len());
        let named = match part[..end].parse() {
            Ok(id) if id > 0 => name(id),
            _ => part[..end].to_string(),
        };
        out.push_str(&format!("redir={named}{}", &part[end..]));
    }
    out
}

/// The reply of CLIENT TRACKINGINFO.
fn tracking_info(value: &Value) -> Option<String> {
    let (flags, redirect, prefixes) = match value {
        Value::Map(_) => {
            (value.field("flags")?, value.field("redirect")?, value.field("prefixes")?)
        }
        Value::Array(items) => match &items[..] {
            [a, flags, b, redirect, c, prefixes]
                if is_text(a, "flags") && is_text(b, "redirect") =>
            {
                is_text(c, "prefixes").then_some((flags, redirect, prefixes))?
            }
            _ => return None,
        },
        _ => return None,
    };
    let Value::Integer(redirect) = redirect else { return None };
    Some(format!("tracking {flags} {prefixes} redir={redirect}"))
}

fn is_text(value: &Value, text: &str) -> bool {
    value.bytes() == Some(text.as_bytes())
}

/// The comparable part of HELLO, CLIENT LIST and INFO.
fn picture(value: &Value) -> Option<String> {
    if let Some(info) = tracking_info(value) {
        return Some(info);
    }
    match value {
        Value::Map(_) => {
            let proto = value.field("proto").filter(|_| value.field("modules").is_some());
            return proto.map(|proto| format!("greeting, {proto}"));
        }
        Value::Array(items) => {
            let modules = |item: &Value| item.bytes() == Some(b"modules");
            if items.iter().any(modules) {
                return Some(format!("greeting, {}", items[5]));
            }
            let pictures: Vec<Option<String>> = items.iter().map(picture).collect();
            // The reply of EXEC, if one of its commands has such a reply.
            return pictures.iter().any(Option::is_some).then(|| {
                let all = items.iter().zip(pictures);
                let all = all.map(|(item, picture)| picture.unwrap_or_else(|| item.to_string()));
                all.collect::<Vec<_>>().join(", ")
            });
        }
        _ => {}
    }
    let text = match value {
        Value::Bulk(bytes) | Value::Verbatim(_, bytes) => String::from_utf8_lossy(bytes),
        _ => return None,
    };
    if text.starts_with("id=") && text.contains(" ssub=") {
        const FIELDS: [&str; 7] = ["flags=", "sub=", "psub=", "ssub=", "multi=", "redir=", "resp="];
        let mut lines: Vec<String> = text.lines().map(|line| chosen(line, &FIELDS)).collect();
        lines.sort();
        return Some(lines.join("; "));
    }
    if text.starts_with("# ") {
        let fields = [
            "pubsub_channels:",
            "pubsub_patterns:",
            "pubsubshard_",
            "pubsub_clients:",
            "tracking_",
        ];
        let lines = text.lines().filter(|line| fields.iter().any(|field| line.starts_with(field)));
        return Some(lines.collect::<Vec<_>>().join("; "));
    }
    None
}

fn chosen(line: &str, fields: &[&str]) -> String {
    let words = line.split(' ').filter(|word| fields.iter().any(|field| word.starts_with(field)));
    words.collect::<Vec<_>>().join(" ")
}

/// Sorts frames without a fixed order: one message to several patterns, consecutive invalidations,
/// and the names of a command without arguments.
pub fn sorted(frames: Vec<Frame>) -> Vec<Frame> {
    let mut out: Vec<Frame> = Vec::with_capacity(frames.len());
    let mut begin = 0;
    for frame in frames {
        let joins = out.last().is_some_and(|last| may_be_reordered(last, &frame));
        if !joins {
            sort(&mut out[begin..]);
            begin = out.len();
        }
        out.push(frame);
    }
    sort(&mut out[begin..]);
    out
}

fn sort(run: &mut [Frame]) {
    let of_many =
        run.first().and_then(Frame::word).is_some_and(|word| word.ends_with(b"unsubscribe"));
    if !of_many {
        return run.sort();
    }
    // The count decreases whatever the order is: names and counts are sorted separately.
    let split = |frame: &Frame| match frame {
        Frame::Raw(raw) => {
            let at = raw.iter().rposition(|b| *b == b':').unwrap_or(raw.len());
            (raw[..at].to_vec(), raw[at..].to_vec())
        }
        Frame::Picture(_) | Frame::End | Frame::Failed(_) => unreachable!("has a word"),
    };
    let (mut names, counts): (Vec<_>, Vec<_>) = run.iter().map(split).unzip();
    names.sort();
    for ((place, name), count) in run.iter_mut().zip(names).zip(counts) {
        *place = Frame::Raw([name, count].concat());
    }
}

/// Whether two frames may have either order.
fn may_be_reordered(one: &Frame, other: &Frame) -> bool {
    match (one.word(), other.word()) {
        (Some(b"pmessage"), Some(b"pmessage")) => {
            channel_and_message(one) == channel_and_message(other)
        }
        // The reference sends a client its own keys after those of BCAST.
        (Some(b"invalidate"), Some(b"invalidate")) => true,
        (Some(a), Some(b)) => a == b && a.ends_with(b"unsubscribe"),
        _ => false,
    }
}

/// Channel and message of a `pmessage`.
fn channel_and_message(frame: &Frame) -> Option<Vec<Value>> {
    let Frame::Raw(raw) = frame else { return None };
    let (value, _) = weft_testkit::value::parse(raw).ok()??;
    Some(value.items().get(2..)?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Frame {
        Frame::Raw(text.replace('|', "\r\n").into_bytes())
    }

    #[test]
    fn patterns_and_unsubscribed_names_have_no_order() {
        let one = |p: &str| raw(&format!(">4|$8|pmessage|$1|{p}|$1|c|$1|m|"));
        let left = |name: &str, n: u8| raw(&format!("*3|$11|unsubscribe|$1|{name}|:{n}|"));
        assert_eq!(sorted(vec![one("b"), one("a")]), sorted(vec![one("a"), one("b")]));
        let ours = vec![left("x", 1), left("y", 0)];
        assert_eq!(sorted(ours.clone()), sorted(vec![left("y", 1), left("x", 0)]));
        assert_ne!(sorted(ours), sorted(vec![left("x", 0), left("y", 1)]));
        let other = raw(">4|$8|pmessage|$1|a|$1|c|$1|n|");
        assert_ne!(sorted(vec![one("b"), other.clone()]), sorted(vec![other, one("b")]));
    }

    #[test]
    fn ping_reply_is_recognized_in_every_state() {
        assert!(raw("$1|w|").is_answer("w"));
        assert!(raw("*2|$4|pong|$1|w|").is_answer("w"));
        assert!(!raw("$1|v|").is_answer("w"));
        assert!(raw(">3|$7|message|$1|c|$1|m|").is_message());
    }
}
