//! Huge pages and overcommitment.
//!
//! Here servers differ most. Redis and Valkey fork to save: the child shares all pages, and the
//! first write to each one copies it, which for a huge page is 2 MiB at once. Weft doesn't fork and
//! requests huge pages, because prefetching then misses the TLB less (docs/design/huge-pages.md).

use super::{CheckInput, Finding};
use crate::doctor::finding::Severity;

const FOLDER: &str = "sys/kernel/mm/transparent_hugepage";
const PAGE: &str = "https://docs.kernel.org/admin-guide/mm/transhuge.html";

/// The chosen one of `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

/// `transparent_hugepage/enabled`.
pub fn huge_pages(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("thp-enabled", "transparent huge pages");
    let file = format!("{FOLDER}/enabled");
    let finding = match input.host.read(&file) {
        Ok(text) => {
            let finding = Finding::new(check, subject, &file, &text).lasting(boot(input));
            judge_huge_pages(finding, chosen(&text)).fix(
                "Let programs ask for huge pages",
                &format!("echo madvise > /{file}"),
                "add transparent_hugepage=madvise to the kernel's command line \
                 (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub), or use a tuned \
                 profile with transparent_hugepages=madvise in its [vm] section",
            )
        }
        Err(error) => Finding::unreadable(
            check,
            subject,
            &file,
            &error,
            "A kernel without huge pages has no such file; containers may hide it.",
        ),
    };
    vec![finding.see(PAGE)]
}

fn judge_huge_pages(finding: Finding, chosen: Option<&str>) -> Finding {
    use Severity::{Advice, Ok, Warning};
    match chosen {
        Some("always") => finding.judged(
            Ok,
            Warning,
            "Every process gets huge pages: a server that forks to save then copies 2 MiB at the \
             first write to each. Redis since 6.2 and Valkey avoid it with 'disable-thp yes'.",
        ),
        Some("madvise") => {
            finding.all(Ok, "Programs get huge pages if they ask. Weft asks, for its keyspace.")
        }
        Some("never") => finding.judged(
            Advice,
            Ok,
            "Weft asks for huge pages for its keyspace and gets none. With many keys, memory \
             accesses miss the TLB more often.",
        ),
        _ => finding.unknown("Unknown setting."),
    }
}

/// The possible source of the present setting.
fn boot(input: &CheckInput) -> String {
    let line = input.host.text("proc/cmdline").unwrap_or_default();
    match line.split_whitespace().find_map(|word| word.strip_prefix("transparent_hugepage=")) {
        Some(value) => format!("the kernel's command line sets it to {value} at each start"),
        None => "the kernel's command line does not set it: a restart brings back the kernel's \
                 default, or the setting of tuned or another program"
            .to_string(),
    }
}

/// `transparent_hugepage/defrag`.
pub fn defrag(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("thp-defrag", "defragmentation for huge pages");
    let file = format!("{FOLDER}/defrag");
    let enabled = input.host.text(&format!("{FOLDER}/enabled")).unwrap_or_default();
    let finding = match input.host.read(&file) {
        Ok(text) => {
            let finding = Finding::new(check, subject, &file, &text)
                .lasting("a restart brings back the kernel's default, or a program's setting");
            judge_defrag(finding, chosen(&enabled), chosen(&text)).fix(
                "Leave defragmentation to a kernel thread",
                &format!("echo defer > /{file}"),
                "add a line to /etc/tmpfiles.d/weft.conf: 'w /sys/kernel/mm/transparent_hugepage/\
                 defrag - - - - defer'",
            )
        }
        Err(error) => Finding::unreadable(
            check,
            subject,
            &file,
            &error,
            "A kernel built without huge pages has no such file.",
        ),
    };
    vec![finding.see(PAGE)]
}

fn judge_defrag(finding: Finding, enabled: Option<&str>, defrag: Option<&str>) -> Finding {
    use Severity::{Advice, Ok, Warning};
    match (enabled, defrag) {
        (Some("never"), Some(_)) => finding.all(Ok, "Without effect: there are no huge pages."),
        (_, Some("always")) => finding.judged(
            Advice,
            if enabled == Some("always") { Warning } else { Ok },
            "A thread that touches new memory waits while the kernel moves other pages away: \
             pauses in the middle of requests when memory is fragmented.",
        ),
        (_, Some("madvise" | "defer+madvise")) => finding.all(
            Ok,
            "The usual setting: only programs that ask for huge pages wait for defragmentation, \
             Weft among them. 'defer' avoids such pauses in a growing server.",
        ),
        (_, Some("defer" | "never")) => finding.all(Ok, "No thread waits for defragmentation."),
        (_, Some(_) | None) => finding.unknown("Unknown setting."),
    }
}

/// `vm.overcommit_memory`.
pub fn overcommit(input: &CheckInput) -> Vec<Finding> {
    use Severity::{Advice, Ok as Fine, Warning};
    let name = "vm.overcommit_memory";
    let finding = match super::sysctl(input, "overcommit", name, "Containers may hide it.") {
        Err(finding) => *finding,
        Ok((finding, value)) => match value.as_str() {
            "0" if counts_only_mappings(input) => finding.judged(
                Fine,
                Advice,
                "Redis and Valkey warn of 0 at start. Since Linux 5.2 it hurts little: the kernel \
                 refuses only mappings larger than memory and swap together.",
            ),
            "0" => finding.judged(
                Fine,
                Warning,
                "The kernel may refuse the fork of a large server. Then Redis and Valkey cannot \
                 save, rewrite the AOF or synchronize replicas. Weft does not fork.",
            ),
            "1" => finding.all(Fine, "The kernel never refuses memory in advance."),
            "2" => finding.all(
                Warning,
                "The kernel refuses memory although much is free: forks fail, and a server whose \
                 allocation fails exits.",
            ),
            _ => finding.unknown("Unknown setting."),
        },
    };
    vec![
        super::set(finding, name, "1").see("https://docs.kernel.org/mm/overcommit-accounting.html"),
    ]
}

/// Whether this kernel, in mode 0, checks single mappings only (Linux 5.2, "mm: fix false-positive
/// OVERCOMMIT_GUESS failures"), and not free memory.
fn counts_only_mappings(input: &CheckInput) -> bool {
    let release = input.host.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(2))
}
