//! Limits of open files: each client is one.

use weft_base::limits::RESERVED_FDS;

use super::{Finding, Patient};
use crate::doctor::finding::Severity;

/// `maxclients` of all three servers where it is not configured.
const MAX_CLIENTS: u64 = 10_000;

/// What they need for that.
const WANTED: u64 = MAX_CLIENTS + RESERVED_FDS;

/// The limits of this process, which a server started from here would have.
pub fn open_files(patient: &Patient) -> Vec<Finding> {
    let (check, subject) = ("open-files", "open files, soft and hard limit of this shell");
    let (file, page) =
        ("proc/self/limits", "https://man7.org/linux/man-pages/man2/getrlimit.2.html");
    let text = match patient.host.read(file) {
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
        finding.all(Severity::Ok, "A server raises its soft limit itself, up to the hard one.")
    } else {
        finding.all(
            Severity::Warning,
            "Every client is an open file. With less than 10032 a server lowers 'maxclients' \
             from its default of 10000, unless it runs as root and may raise the limit.",
        )
    };
    vec![
        finding
            .cure(
                "prlimit --pid PID --nofile=65536 for a process, ulimit -n 65536 for a shell",
                "LimitNOFILE=65536 in the systemd unit (a service does not have this shell's \
                 limits), or /etc/security/limits.d/ for logins",
            )
            .see(page),
    ]
}

/// A limit; the inner none is "unlimited".
#[expect(clippy::option_option, reason = "not a limit at all is another thing than unlimited")]
fn limit(word: &str) -> Option<Option<u64>> {
    if word == "unlimited" { Some(None) } else { word.parse().ok().map(Some) }
}

/// `fs.file-max` against what is open.
pub fn file_max(patient: &Patient) -> Vec<Finding> {
    let (check, subject, file) = ("file-max", "fs.file-max", "proc/sys/fs/file-nr");
    let page = "https://docs.kernel.org/admin-guide/sysctl/fs.html#file-max-file-nr";
    let text = match patient.host.read(file) {
        Ok(text) => text,
        Err(error) => {
            return vec![Finding::unreadable(check, subject, file, &error, "").see(page)];
        }
    };
    let numbers: Vec<Option<u64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
    let [Some(open), Some(_), Some(most)] = numbers[..] else {
        let finding = Finding::new(check, subject, file, text);
        return vec![finding.unknown("These are not the three numbers that we know.").see(page)];
    };
    let finding = Finding::new(check, subject, file, format!("{most}, of which {open} are used"))
        .lasting(patient.sysctl.lasting("fs.file-max", &most.to_string()));
    let finding = if most.saturating_sub(open) >= WANTED {
        finding.all(Severity::Ok, "The whole host may open enough more for 10000 clients.")
    } else {
        finding.all(
            Severity::Warning,
            "The whole host may not open enough more files for 10000 clients: connections will \
             be refused.",
        )
    };
    vec![super::set(finding, "fs.file-max", "1048576").see(page)]
}
