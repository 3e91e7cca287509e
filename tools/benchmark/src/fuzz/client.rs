//! One client: its connection, its commands, and its replies.
//!
//! A command has one reply, with these exceptions:
//!
//! | command | treatment |
//! |---|---|
//! | SUBSCRIBE and its variants | sent with an UNSUBSCRIBE and a PING; all replies up to the PING's belong
//! to it |
//! | commands that may block forever | sent between MULTI and EXEC |
//! | QUIT | the server closes the connection; the client opens a new one |
//! | RESET | the greetings are sent again |
//! | AUTH and others, which may remove rights | after an error for missing rights, a new connection |

use std::collections::VecDeque;
use std::io;

use crate::control::{Control, Reply};
use crate::session::Session;
use crate::skipper::Types;
use crate::template::encode;

use super::log::{Log, readable};
use super::script::{Planned, Script, is_subscription};
use super::totals::{Totals, code};

/// The most errors kept for the end, if they are shown there.
const KEPT: usize = 100;

/// Bytes of an argument in the lines of the log.
const SHORT: usize = 60;

/// The replies to the sent command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Nothing,
    Reply,
    /// The reply that it is queued, and the reply to EXEC.
    Transaction,
    /// All up to the reply to PING.
    Marker,
}

/// A client.
pub struct Client<'a> {
    /// Its number, from 1.
    pub number: usize,
    node: usize,
    session: &'a Session,
    control: Control,
    script: Script<'a>,
    log: Log,
    expected: Expected,
    in_transaction: bool,
    /// Whether the connection may have lost rights since it was greeted.
    altered: bool,
    marker: u64,
    /// Commands still to be sent.
    pub left: u64,
    pub last: Vec<Vec<u8>>,
    pub totals: Totals,
    /// Errors and their commands.
    errors: VecDeque<(String, String)>,
    error_count: u64,
}

impl<'a> Client<'a> {
    /// Connects.
    ///
    /// # Errors
    /// If the server can't be reached, or refuses.
    pub fn connect(
        number: usize,
        session: &'a Session,
        script: Script<'a>,
        log: Log,
        left: u64,
    ) -> io::Result<Client<'a>> {
        let node = (number - 1) % session.names.len();
        log.debug(|| format!("[Thread {number}] Connecting to {}...", session.names[node]));
        let control = session.control(node)?;
        log.debug(|| format!("[Thread {number}] Connected successfully"));
        Ok(Client {
            number,
            node,
            session,
            control,
            script,
            log,
            expected: Expected::Nothing,
            in_transaction: false,
            altered: false,
            marker: 0,
            left,
            last: Vec::new(),
            totals: Totals::default(),
            errors: VecDeque::new(),
            error_count: 0,
        })
    }

    /// Whether the last command has no reply.
    pub fn is_waiting(&self) -> bool {
        self.expected != Expected::Nothing
    }

    /// Sends the next command.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn send(&mut self) -> io::Result<()> {
        let Planned { args, wrapped } = self.script.next(self.in_transaction);
        self.last = args;
        let number = self.number;
        self.log
            .debug(|| format!("[Thread {number}] send Command: {}", readable(&self.last, SHORT)));
        self.left -= 1;
        self.totals.sent += 1;
        let mut bytes = Vec::new();
        self.expected = Expected::Reply;
        if is_subscription(&self.last) {
            self.expected = Expected::Marker;
            encode(&self.last, &mut bytes);
            encode(&[ending(&self.last[0])], &mut bytes);
            self.marker += 1;
            encode(&[b"PING".to_vec(), self.mark()], &mut bytes);
        } else if !wrapped {
            encode(&self.last, &mut bytes);
        } else if let Reply::Error(_) = self.control.ask(&["MULTI"])? {
            // Without a transaction it could block forever.
            self.last = vec![b"PING".to_vec()];
            encode(&self.last, &mut bytes);
        } else {
            self.expected = Expected::Transaction;
            encode(&self.last, &mut bytes);
            encode(&["EXEC"], &mut bytes);
        }
        self.control.send(&bytes)
    }

    fn mark(&self) -> Vec<u8> {
        format!("fuzz-mark-{}", self.marker).into_bytes()
    }

    /// Reads the reply to the last command.
    ///
    /// # Errors
    /// If the connection is closed, or the reply is late or malformed.
    pub fn receive(&mut self) -> io::Result<()> {
        let reply = match self.expected {
            Expected::Nothing => return Ok(()),
            Expected::Reply => self.control.reply()?,
            Expected::Transaction => self.executed()?,
            Expected::Marker => self.up_to_mark()?,
        };
        self.expected = Expected::Nothing;
        self.totals.count(&reply);
        self.note(&reply);
        self.follow(&reply)
    }

    /// The reply to the command between MULTI and EXEC.
    fn executed(&mut self) -> io::Result<Reply> {
        let queued = self.control.reply()?;
        let executed = self.control.reply()?;
        Ok(match (&queued, executed) {
            (Reply::Error(_), _) => queued,
            (_, Reply::Items(_, mut items)) if items.len() == 1 => items.remove(0),
            (_, other) => other,
        })
    }

    /// The first value of all up to the reply to PING.
    fn up_to_mark(&mut self) -> io::Result<Reply> {
        let mark = self.mark();
        let mut first = None;
        loop {
            let value = self.control.reply_or_push()?;
            // A client with subscriptions gets an array from PING, in RESP2.
            let is_mark = value.text() == mark
                || value.types() == Types::ARRAY
                    && value.items().get(1).is_some_and(|item| item.text() == mark);
            let refused = matches!(&value, Reply::Error(error) if takes_rights(error));
            if is_mark {
                return Ok(first.unwrap_or(value));
            }
            if refused {
                // PING may be refused too: then there is no mark.
                self.reconnect()?;
                return Ok(first.unwrap_or(value));
            }
            first.get_or_insert(value);
        }
    }

    /// Applies the reply to the state of the connection.
    fn follow(&mut self, reply: &Reply) -> io::Result<()> {
        let error = if let Reply::Error(error) = reply { error.as_str() } else { "" };
        if self.altered && takes_rights(error) {
            return self.reconnect();
        }
        match &self.last[0].to_ascii_uppercase()[..] {
            b"MULTI" => self.in_transaction |= error.is_empty(),
            b"EXEC" | b"DISCARD" => {
                self.in_transaction &= !error.is_empty() && !error.starts_with("EXECABORT");
            }
            b"AUTH" | b"HELLO" | b"ACL" => self.altered = true,
            b"RESET" if reply.text() == b"RESET" => {
                (self.in_transaction, self.altered) = (false, true);
                self.control.greet(self.session.greetings())?;
            }
            b"QUIT" if error.is_empty() => return self.reconnect(),
            _ => {}
        }
        Ok(())
    }

    fn reconnect(&mut self) -> io::Result<()> {
        self.log.debug(|| format!("[Thread {}] Reconnecting", self.number));
        self.control = self.session.control(self.node)?;
        (self.in_transaction, self.altered) = (false, false);
        Ok(())
    }

    /// Logs a reply.
    fn note(&mut self, reply: &Reply) {
        if self.log.0 < crate::options::Level::Debug {
            return;
        }
        let name = readable(&self.last[..1], SHORT);
        self.log.debug(|| format!("[Thread {}] {name}: -> {}", self.number, summary(reply)));
        if let Reply::Error(error) = reply {
            self.error_count += 1;
            if self.errors.len() == KEPT {
                self.errors.pop_front();
            }
            self.errors.push_back((error.clone(), readable(&self.last, SHORT)));
        }
    }

    /// Prints its errors in the form of the reference.
    pub fn print_errors(&self) {
        if self.errors.is_empty() {
            return;
        }
        let tell = |line: &str| self.log.error(&format!("[Thread {}] {line}", self.number));
        tell("=== ERROR SUMMARY ===");
        tell(&format!("Total errors: {}", self.error_count));
        if self.error_count > KEPT as u64 {
            tell(&format!("Showing last {KEPT} errors:"));
        }
        for (nth, (error, command)) in self.errors.iter().enumerate() {
            tell(&format!("Error {}: Command error: {error}", nth + 1));
            tell(&format!("  Command: {command}"));
        }
        tell("=== END ERROR SUMMARY ===");
    }
}

/// The command that ends the subscriptions of a kind.
fn ending(name: &[u8]) -> &'static [u8] {
    match name.first().map(u8::to_ascii_uppercase) {
        Some(b'P') => b"PUNSUBSCRIBE",
        Some(b'S') if name.get(1).is_some_and(|c| c.eq_ignore_ascii_case(&b'S')) => b"SUNSUBSCRIBE",
        _ => b"UNSUBSCRIBE",
    }
}

/// Whether an error says that the client has no right to do that.
fn takes_rights(error: &str) -> bool {
    matches!(code(error), "NOPERM" | "NOAUTH")
}

fn summary(reply: &Reply) -> String {
    match reply {
        Reply::Text(_, text) => {
            let text = text.get(..100).unwrap_or(text);
            String::from_utf8_lossy(text).into_owned()
        }
        Reply::Error(error) => error.clone(),
        Reply::Integer(n) => n.to_string(),
        Reply::Null => "(nil)".to_string(),
        Reply::Items(types, items) => format!("({types} of {} elements)", items.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_ended_by_their_kind() {
        for (name, end) in [
            ("subscribe", "UNSUBSCRIBE"),
            ("UNSUBSCRIBE", "UNSUBSCRIBE"),
            ("PSubscribe", "PUNSUBSCRIBE"),
            ("ssubscribe", "SUNSUBSCRIBE"),
            ("SUNSUBSCRIBE", "UNSUBSCRIBE"),
        ] {
            assert_eq!(ending(name.as_bytes()), end.as_bytes(), "{name}");
        }
    }
}
