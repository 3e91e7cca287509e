//! Keyspace notifications: what a server tells of the commands that it gets.
//!
//! An ear has two connections of its own. One is subscribed to all notifications; the other marks
//! the end of each batch with a message of its own, which comes behind everything that the
//! batch has caused, since the batch was answered before it was sent.
//!
//! That keys have expired is not compared here: a server tells it when it finds them, and which
//! commands find them is its own affair. So is when it looks for them by itself, so that the search
//! is switched off while we listen.

use std::io;

use super::generate::Command;
use super::session::{Target, connect};
use crate::client::Client;
use crate::value::Value;

/// The classes that are listened to: all there are.
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
    /// When the server can't be reached or does not let us subscribe.
    pub fn open(target: &Target) -> io::Result<Ear> {
        let mut subscriber = connect(target)?;
        subscriber.try_cmd(&["PSUBSCRIBE", "__key*@*__:*"])?;
        subscriber.try_cmd(&["SUBSCRIBE", MARK])?;
        Ok(Ear { subscriber, marker: connect(target)? })
    }

    /// What was told since the last call: channel and message, in order.
    ///
    /// # Errors
    /// When a connection fails.
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
                [_, _, channel, message] if is_of_time(&channel.text(), &message.text()) => {}
                [_, _, channel, message] => heard.push(format!("{channel} {message}")),
                _ => return Ok(heard),
            }
        }
    }
}

/// Whether a message tells that a key has expired.
fn is_of_time(channel: &str, message: &str) -> bool {
    let by_key = channel.starts_with("__keyspace@") && message == "expired";
    by_key || channel.starts_with("__keyevent@") && channel.ends_with("__:expired")
}

/// The command, unless it would switch the search for what has expired on.
pub fn without_search(command: &Command) -> Command {
    let mut command = command.clone();
    if let [name, word, on] = &mut command.args[..]
        && name.eq_ignore_ascii_case(b"debug")
        && word.eq_ignore_ascii_case(b"set-active-expire")
    {
        *on = b"0".to_vec();
    }
    command
}

/// Where two servers have told different things, in words.
pub fn difference(ours: &[String], theirs: &[String]) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let at = ours.iter().zip(theirs).take_while(|(our, their)| our == their).count();
    let from = |all: &[String]| {
        let some: Vec<&str> = all[at..].iter().take(8).map(String::as_str).collect();
        if some.is_empty() { "nothing".to_string() } else { some.join(", ") }
    };
    Some(format!("ours tells {}\n  reference tells {}", from(ours), from(theirs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_not_compared() {
        assert!(is_of_time("__keyspace@0__:k", "expired"));
        assert!(is_of_time("__keyevent@12__:expired", "k"));
        assert!(!is_of_time("__keyspace@0__:k", "hexpired"));
        assert!(!is_of_time("__keyevent@0__:set", "expired"));
        assert!(!is_of_time("__keyspace@0__:expired", "set"));
    }

    #[test]
    fn the_first_difference_is_shown() {
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        assert_eq!(difference(&words("a b"), &words("a b")), None);
        let shown = difference(&words("a b c"), &words("a c")).expect("they differ");
        assert_eq!(shown, "ours tells b, c\n  reference tells c");
        assert!(difference(&words("a"), &words("a b")).expect("differ").contains("nothing"));
    }
}
