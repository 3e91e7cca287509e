//! Limits of open files: each client is one.

use weft_base::limits::RESERVED_FDS;

use super::{CheckInput, Finding};
use crate::doctor::finding::Severity;

/// `maxclients` of all three servers by default.
const MAX_CLIENTS: u64 = 10_000;

/// The open files that this many clients need.
const WANTED: u64 = MAX_CLIENTS + RESERVED_FDS;

/// The limits of this process, which a server started by this shell inherits.
pub fn open_files(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("open-files", "open files, soft and hard limit of this shell");
    let (file, page) =
        ("proc/self/limits", "https://man7.org/linux/man-pages/man2/getrlimit.2.html");
    let text = match input.host.read(file) {
        Ok(text) => text,
        Err(error) => {
            return vec![Finding::unreadable(check, subject, file, &error, "").see(page)];
        }
    };
    let limits: Option<(Option<u64>, Option<u64>)> = text.lines().find_map(|line| {
        let mut words = line.strip_prefix("Max open files")?.split_whitespace();
        Some((limit(words.next()?)?, limit(words.next()?)?))
    });
    let Some((soft, hard)) = limits else {
        let finding = Finding::new(check, subject, file, "not in the file");
        return vec![finding.unknown("The kernel says nothing about open files.").see(page)];
    };
    let shown = |limit: Option<u64>| limit.map_or("unlimited".to_string(), |n| n.to_string());
    let finding = Finding::new(check, subject, file, format!("{}, {}", shown(soft), shown(hard)));
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= WANTED);
    let finding = if enough(soft) {
        finding.all(Severity::Ok, "Enough for 10000 clients.")
    } else if enough(hard) {
        finding.all(Severity::Ok, "A server raises its soft limit itself, up to the hard limit.")
    } else {
        finding.all(
            Severity::Warning,
            "Every client is an open file. Below 10032 a server lowers 'maxclients' from its \
             default of 10000, unless it runs as root.",
        )
    };
    vec![
        finding
            .fix(
                "Raise the limit of open files",
                "ulimit -n 65536 in this shell, or prlimit --pid PID --nofile=65536",
                "set LimitNOFILE=65536 in the systemd unit (services don't inherit this shell's \
                 limits), or use /etc/security/limits.d/ for logins",
            )
            .see(page),
    ]
}

/// Parses a limit; the inner none is "unlimited".
#[expect(clippy::option_option, reason = "an unparsable limit differs from unlimited")]
fn limit(word: &str) -> Option<Option<u64>> {
    if word == "unlimited" { Some(None) } else { word.parse().ok().map(Some) }
}

/// `fs.file-max` compared with the open files.
pub fn file_max(input: &CheckInput) -> Vec<Finding> {
    let (check, subject, file) = ("file-max", "fs.file-max", "proc/sys/fs/file-nr");
    let page = "https://docs.kernel.org/admin-guide/sysctl/fs.html#file-max-file-nr";
    let text = match input.host.read(file) {
        Ok(text) => text,
        Err(error) => {
            return vec![Finding::unreadable(check, subject, file, &error, "").see(page)];
        }
    };
    let numbers: Vec<Option<u64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
    let [Some(open), Some(_), Some(most)] = numbers[..] else {
        let finding = Finding::new(check, subject, file, text);
        return vec![finding.unknown("The file does not have three numbers.").see(page)];
    };
    let finding = Finding::new(check, subject, file, format!("{most}, of which {open} are used"))
        .lasting(input.sysctl.lasting("fs.file-max", &most.to_string()));
    let finding = if most.saturating_sub(open) >= WANTED {
        finding.all(Severity::Ok, "Enough for 10000 more clients on this host.")
    } else {
        finding.all(
            Severity::Warning,
            "The host's limit leaves too few open files for 10000 clients: servers will refuse \
             connections.",
        )
    };
    vec![super::set(finding, "fs.file-max", "1048576").see(page)]
}
