//! Keyspace notifications of a server for its commands.
//!
//! An ear has two connections. One subscribes to all notifications. The other publishes a mark at
//! the end of each batch. The mark comes after all notifications of the batch, since the batch was
//! answered before the mark was sent.
//!
//! Notifications of expired keys are not compared: a server sends them when it finds the keys, and
//! servers may find them by different commands. The time of active expiry differs too, so it is
//! switched off while an ear listens.

use std::io;

use super::generate::Command;
use super::target::{Target, connect};
use weft_testkit::client::Client;
use weft_testkit::value::Value;

/// The enabled classes: all of them.
pub const CLASSES: &str = "AKEnm";

/// The channel of the marks.
const MARK: &str = "end-of-batch";

/// Listens to one server.
pub struct Ear {
    subscriber: Client,
    marker: Client,
}

impl Ear {
    /// Connects and subscribes.
    ///
    /// # Errors
    /// If the server can't be reached or refuses the subscription.
    pub fn open(target: &Target) -> io::Result<Ear> {
        let mut subscriber = connect(target)?;
        subscriber.try_cmd(&["PSUBSCRIBE", "__key*@*__:*"])?;
        subscriber.try_cmd(&["SUBSCRIBE", MARK])?;
        Ok(Ear { subscriber, marker: connect(target)? })
    }

    /// The notifications since the last call: channel and message, in order.
    ///
    /// # Errors
    /// If a connection fails.
    pub fn heard(&mut self) -> io::Result<Vec<String>> {
        self.marker.try_cmd(&["PUBLISH", MARK, ""])?;
        let mut heard = Vec::new();
        loop {
            let frame = self.subscriber.read_frame()?.value;
            let (Value::Array(words) | Value::Push(words)) = &frame else {
                let what = format!("no message: {frame}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            };
            match &words[..] {
                [_, _, channel, message] if is_expiry(&channel.text(), &message.text()) => {}
                [_, _, channel, message] => heard.push(format!("{channel} {message}")),
                _ => return Ok(heard),
            }
        }
    }
}

/// Whether a message says that a key has expired.
fn is_expiry(channel: &str, message: &str) -> bool {
    let by_key = channel.starts_with("__keyspace@") && message == "expired";
    by_key || channel.starts_with("__keyevent@") && channel.ends_with("__:expired")
}

/// The command, unless it would enable active expiry.
pub fn without_active_expiry(command: &Command) -> Command {
    let mut command = command.clone();
    if let [name, word, on] = &mut command.args[..]
        && name.eq_ignore_ascii_case(b"debug")
        && word.eq_ignore_ascii_case(b"set-active-expire")
    {
        *on = b"0".to_vec();
    }
    command
}

/// The first difference between the notifications of two servers, as text.
pub fn difference(ours: &[String], theirs: &[String]) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let at = ours.iter().zip(theirs).take_while(|(our, their)| our == their).count();
    let from = |all: &[String]| {
        let some: Vec<&str> = all[at..].iter().take(8).map(String::as_str).collect();
        if some.is_empty() { "nothing".to_string() } else { some.join(", ") }
    };
    Some(format!("ours sends {}\n  reference sends {}", from(ours), from(theirs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_keys_are_not_compared() {
        assert!(is_expiry("__keyspace@0__:k", "expired"));
        assert!(is_expiry("__keyevent@12__:expired", "k"));
        assert!(!is_expiry("__keyspace@0__:k", "hexpired"));
        assert!(!is_expiry("__keyevent@0__:set", "expired"));
        assert!(!is_expiry("__keyspace@0__:expired", "set"));
    }

    #[test]
    fn first_difference_is_shown() {
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        assert_eq!(difference(&words("a b"), &words("a b")), None);
        let shown = difference(&words("a b c"), &words("a c")).expect("they differ");
        assert_eq!(shown, "ours sends b, c\n  reference sends c");
        assert!(difference(&words("a"), &words("a b")).expect("differ").contains("nothing"));
    }
}
