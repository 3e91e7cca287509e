//! The result of a check: a value of the host, its judgement, and the action.

use std::io;

use serde::Serialize;

use super::Server;

/// How serious a finding is, from harmless to serious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good, or without effect.
    Ok,
    /// The value could not be read, so it is not judged.
    Unknown,
    /// Costs performance under some loads, or is useful to know.
    Advice,
    /// Costs much performance, or breaks a server under load.
    Warning,
}

impl Severity {
    /// The word in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Unknown => "unknown",
            Severity::Advice => "advice",
            Severity::Warning => "warning",
        }
    }
}

/// One fact about the host or the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check, for programs.
    pub check: &'static str,
    /// The setting or resource, as text.
    pub subject: String,
    /// The file that holds the value.
    pub file: String,
    /// The value; none if it can't be read.
    pub value: Option<String>,
    /// The judgement for Weft.
    pub weft: Severity,
    /// The judgement for Redis and Valkey, which fork to save.
    pub redis: Severity,
    /// Why it matters, in a sentence or two.
    pub why: String,
    /// The action, as an imperative sentence without a full stop.
    pub action: Option<String>,
    /// The command, as root, that does it at once; none if no command can.
    pub change: Option<String>,
    /// The source of the present value, and whether it survives a restart.
    pub lasting: Option<String>,
    /// How to make the change survive a restart.
    pub keep: Option<String>,
    /// A page of the kernel's documentation, or of the manual.
    pub see: &'static str,
}

impl Finding {
    /// A finding of `value` in `file`, with severity `Ok` until it is judged. `file` is relative
    /// to the root folder.
    pub fn new(check: &'static str, subject: &str, file: &str, value: impl ToString) -> Finding {
        Finding {
            check,
            subject: subject.to_string(),
            file: format!("/{file}"),
            value: Some(value.to_string()),
            weft: Severity::Ok,
            redis: Severity::Ok,
            why: String::new(),
            action: None,
            change: None,
            lasting: None,
            keep: None,
            see: "",
        }
    }

    /// A file that can't be read: no value and no judgement, only the reason.
    pub fn unreadable(
        check: &'static str,
        subject: &str,
        file: &str,
        error: &io::Error,
        meaning: &str,
    ) -> Finding {
        let mut finding = Finding::new(check, subject, file, "");
        finding.value = None;
        let error = match error.kind() {
            io::ErrorKind::NotFound => "no such file".to_string(),
            io::ErrorKind::PermissionDenied => "permission denied".to_string(),
            _ => error.to_string(),
        };
        finding.unknown(&format!("Not readable: {error}. {meaning}"))
    }

    /// Marks a value that this program does not understand as not judged.
    pub fn unknown(mut self, why: &str) -> Finding {
        (self.weft, self.redis) = (Severity::Unknown, Severity::Unknown);
        self.why = why.trim_end().to_string();
        self
    }

    /// The same judgement for all servers.
    pub fn all(self, severity: Severity, why: &str) -> Finding {
        self.judged(severity, severity, why)
    }

    /// Judgements for Weft, and for Redis and Valkey.
    pub fn judged(mut self, weft: Severity, redis: Severity, why: &str) -> Finding {
        (self.weft, self.redis) = (weft, redis);
        self.why = why.to_string();
        self
    }

    /// Adds the action, the command that does it at once, and how to make that survive a restart.
    /// Adds nothing if there is no value to change.
    pub fn fix(self, action: &str, change: &str, keep: &str) -> Finding {
        let change = self.value.is_some().then(|| change.to_string());
        Finding { change, ..self.advise(action, keep) }
    }

    /// Adds the action if no command on this host can do it.
    pub fn advise(mut self, action: &str, keep: &str) -> Finding {
        if self.value.is_some() {
            self.action = Some(action.to_string());
            self.keep = Some(keep.to_string());
        }
        self
    }

    /// Adds whether the present value survives a restart.
    pub fn lasting(mut self, lasting: impl Into<String>) -> Finding {
        self.lasting = self.value.is_some().then(|| lasting.into());
        self
    }

    /// Adds the page that documents the setting.
    pub fn see(mut self, page: &'static str) -> Finding {
        self.see = page;
        self
    }

    /// The severity for the chosen kind of server.
    pub fn severity(&self, server: Server) -> Severity {
        match server {
            Server::Any => self.weft.max(self.redis),
            Server::Weft => self.weft,
            Server::Redis => self.redis,
        }
    }
}
