//! A primary's replies, line by line, and their effects.

use super::bulk::{Body, Head};
use super::words::{self, PsyncAnswer, Question};
use super::{Copy, Follower, State};
use crate::action::{Action, Level, Load};
use crate::cx::{Cx, Notification};
use crate::id::ReplicationId;
use crate::planted::{self, Fault};
use crate::settings::DisklessLoad;

impl Follower {
    /// Handles a line of a reply.
    pub(super) fn line(&mut self, cx: &mut Cx<'_>, line: &[u8], is_empty: &dyn Fn() -> bool) {
        let text = || String::from_utf8_lossy(line).into_owned();
        match &mut self.state {
            State::Ping => match words::is_reachable(line) {
                true => {
                    cx.log(Level::Notice, "Primary replied to PING, replication can continue...");
                    let greeting = self.source.map(|source| source.greeting);
                    let (left, bytes) = words::questions(cx.settings, greeting.as_ref());
                    self.state = State::Questions { left: left.into() };
                    self.send(cx, bytes);
                }
                false => self.fail(cx, format!("Error reply to PING from primary: '{}'", text())),
            },
            State::Questions { left } => {
                let question = left.pop_front();
                let ended = left.is_empty();
                let is_greeting = question == Some(Question::Cluster);
                if let Some(question) = question
                    && line.first() == Some(&b'-')
                {
                    match question.refused(&text()) {
                        Ok(note) => cx.log(Level::Notice, note),
                        Err(why) if is_greeting => return self.greeting_refused(cx, why),
                        Err(why) => return self.fail(cx, why),
                    }
                }
                if is_greeting {
                    self.greeted(line);
                }
                if ended {
                    self.ask(cx);
                }
            }
            State::Psync { asked } => {
                let asked = *asked;
                self.psync_answer(cx, asked, PsyncAnswer::parse(line));
            }
            State::Head { of } => {
                let of = *of;
                self.head(cx, of, Head::parse(line), is_empty);
            }
            State::Waiting { .. }
            | State::Connecting
            | State::Body { .. }
            | State::Loading { .. }
            | State::Online { .. } => unreachable!("no lines are read then"),
        }
    }

    fn ask(&mut self, cx: &mut Cx<'_>) {
        let history = cx.stream.history();
        let received_to = if planted::is(Fault::AcksReceived) { self.received_to } else { 0 };
        let from = self.resumable.then_some((history.id, history.offset.max(received_to)));
        match from {
            Some((id, offset)) => {
                cx.log(
                    Level::Notice,
                    format!("Trying a partial resynchronization (request {id}:{}).", offset + 1),
                );
            }
            None => {
                cx.log(Level::Notice, "Partial resynchronization not possible (no cached primary)")
            }
        }
        self.state = State::Psync { asked: from.is_some() };
        self.send(cx, words::psync(from, self.failover));
    }

    fn psync_answer(&mut self, cx: &mut Cx<'_>, asked: bool, answer: PsyncAnswer) {
        let failing_over = self.failover;
        match answer {
            PsyncAnswer::Wait => {}
            PsyncAnswer::Full(None) if self.source.is_some() => {
                self.fail(cx, "Primary replied with wrong +FULLRESYNC syntax.");
            }
            PsyncAnswer::Full(of) => {
                cx.notifications.push(Notification::Accepted);
                // Requested once: a later attempt is an ordinary one.
                self.failover = false;
                match of {
                    Some((id, offset)) => {
                        cx.log(Level::Notice, format!("Full resync from primary: {id}:{offset}"))
                    }
                    None => {
                        cx.log(Level::Warning, "Primary replied with wrong +FULLRESYNC syntax.")
                    }
                }
                self.state = State::Head { of };
            }
            PsyncAnswer::Continue(_) if !asked => {
                self.fail(cx, "Primary continues a history that it was not asked for");
            }
            PsyncAnswer::Continue(id) => {
                cx.notifications.push(Notification::Accepted);
                self.continued(cx, id);
            }
            PsyncAnswer::Retry(text) => {
                if failing_over {
                    cx.notifications.push(Notification::Refused);
                }
                self.fail(
                    cx,
                    format!(
                        "Primary is currently unable to PSYNC but should be in the future: {text}"
                    ),
                );
            }
            PsyncAnswer::Unknown(text) if failing_over => {
                cx.notifications.push(Notification::Refused);
                self.fail(cx, format!("Unexpected reply to PSYNC from primary: {text}"));
            }
            PsyncAnswer::Unknown(text) if self.source.is_some() => {
                self.fail(cx, format!("Unexpected reply to PSYNC from primary: {text}"));
            }
            PsyncAnswer::Unknown(text) => {
                let (level, note) = match text.starts_with("-ERR") {
                    true => (
                        Level::Notice,
                        format!(
                            "Primary does not support PSYNC or is in error state (reply: {text})"
                        ),
                    ),
                    false => {
                        (Level::Warning, format!("Unexpected reply to PSYNC from primary: {text}"))
                    }
                };
                cx.log(level, note);
                cx.log(Level::Notice, "Retrying with SYNC...");
                self.state = State::Head { of: None };
                self.send(cx, b"SYNC\r\n".to_vec());
            }
        }
    }

    fn continued(&mut self, cx: &mut Cx<'_>, id: Option<ReplicationId>) {
        cx.log(Level::Notice, "Successful partial resynchronization with primary.");
        if let Some(id) = id
            && cx.stream.continued(id)
        {
            cx.log(Level::Notice, format!("Primary replication ID changed to {id}"));
            if !planted::is(Fault::ChainNotCut) {
                cx.notifications.push(Notification::CutReplicas);
            }
        }
        cx.log(
            Level::Notice,
            "PRIMARY <-> REPLICA sync: Primary accepted a Partial Resynchronization.",
        );
        self.go_online(cx, true);
    }

    fn head(
        &mut self,
        cx: &mut Cx<'_>,
        of: Option<(ReplicationId, u64)>,
        head: Head,
        is_empty: &dyn Fn() -> bool,
    ) {
        let body = match head {
            Head::Wait => return,
            Head::Length(left) => Body::Length { left },
            Head::Mark(mark) => Body::Mark { mark, tail: Vec::new() },
            Head::Refused(text) => {
                return self.fail(cx, format!("PRIMARY aborted replication with an error: {text}"));
            }
            Head::Unknown(text) => {
                return self.fail(
                    cx,
                    format!(
                        "Bad protocol from PRIMARY, the first byte is not '$' (we received '{text}'), \
                         are you sure the host and port are right?"
                    ),
                );
            }
        };
        let load = match cx.settings.diskless_load {
            DisklessLoad::FlushBeforeLoad => Load::Direct,
            DisklessLoad::OnEmptyDb if is_empty() => Load::Direct,
            DisklessLoad::SwapDb => {
                let id = cx.stream.history().id;
                Load::Staged { serve: self.resumable && of.is_some_and(|(of, _)| of == id) }
            }
            DisklessLoad::OnEmptyDb | DisklessLoad::Disabled => Load::File,
        };
        let (bytes, text) = match &body {
            Body::Length { left } => (Some(*left), format!("receiving {left} bytes from primary")),
            Body::Mark { .. } => (None, "receiving streamed RDB from primary with EOF".to_string()),
        };
        let place = if load == Load::File { "to disk" } else { "to parser" };
        cx.log(Level::Notice, format!("PRIMARY <-> REPLICA sync: {text} {place}"));
        let copy = Copy { of, load };
        if load == Load::Direct && !self.drop_data(cx, &copy) {
            return;
        }
        cx.out.push(Action::BeginLoad { link: self.link, load, bytes });
        self.state = State::Body { copy, body };
    }
}
