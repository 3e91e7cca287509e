//! What a check says.

use std::io;

use serde::Serialize;

use super::Server;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be, or without effect.
    Ok,
    /// It could not be read here, so nothing is said.
    Unknown,
    /// Costs something under some loads, or is worth knowing.
    Advice,
    /// Costs much, or breaks something when it matters.
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

/// One thing about the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check, for programs.
    pub check: &'static str,
    /// What was looked at, as people call it.
    pub subject: String,
    /// The file that holds it.
    pub file: String,
    /// What stands there; none where it cannot be read.
    pub value: Option<String>,
    /// What that means to Weft.
    pub weft: Severity,
    /// What it means to Redis and Valkey, which fork to save.
    pub redis: Severity,
    /// Why it matters.
    pub why: String,
    /// The command, as root, that changes it at once.
    pub change: Option<String>,
    /// Where the present value comes from: whether it outlasts a restart.
    pub lasting: Option<String>,
    /// How to make the change last.
    pub keep: Option<String>,
    /// A page of the kernel's documentation, or of the manual.
    pub see: &'static str,
}

impl Finding {
    /// A finding of `value` in `file`, good until it is judged. `file` is relative to the root,
    /// as it was read.
    pub fn new(check: &'static str, subject: &str, file: &str, value: impl ToString) -> Finding {
        Finding {
            check,
            subject: subject.to_string(),
            file: format!("/{file}"),
            value: Some(value.to_string()),
            weft: Severity::Ok,
            redis: Severity::Ok,
            why: String::new(),
            change: None,
            lasting: None,
            keep: None,
            see: "",
        }
    }

    /// What cannot be read: no value and no judgement, only why not.
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
        finding.unknown(&format!("Not readable here: {error}. {meaning}"))
    }

    /// A value that makes no sense to us: said as it is, and not judged.
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

    /// What changes it, and how to make that last.
    pub fn cure(mut self, change: &str, keep: &str) -> Finding {
        self.change = Some(change.to_string());
        self.keep = Some(keep.to_string());
        self
    }

    /// Whether the present value lasts.
    pub fn lasting(mut self, lasting: impl Into<String>) -> Finding {
        self.lasting = Some(lasting.into());
        self
    }

    /// Where it is described.
    pub fn see(mut self, page: &'static str) -> Finding {
        self.see = page;
        self
    }

    /// How grave it is for whom it concerns.
    pub fn severity(&self, server: Server) -> Severity {
        match server {
            Server::Any => self.weft.max(self.redis),
            Server::Weft => self.weft,
            Server::Redis => self.redis,
        }
    }
}
