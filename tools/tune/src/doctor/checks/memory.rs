//! Huge pages and overcommitment.
//!
//! Here servers differ most. Redis and Valkey fork to save: the child shares all pages, and
//! the first write to each copies it, which for a huge page is 2 MiB at once. Weft does not
//! fork and asks the kernel for huge pages, because prefetching then misses the TLB less
//! (docs/design/huge-pages.md).

use super::{Finding, Patient};
use crate::doctor::finding::Severity;

const FOLDER: &str = "sys/kernel/mm/transparent_hugepage";
const PAGE: &str = "https://docs.kernel.org/admin-guide/mm/transhuge.html";

/// The chosen one of `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

/// `transparent_hugepage/enabled`.
pub fn huge_pages(patient: &Patient) -> Vec<Finding> {
    let (check, subject) = ("thp-enabled", "transparent huge pages");
    let file = format!("{FOLDER}/enabled");
    let finding = match patient.host.read(&file) {
        Ok(text) => {
            let finding = Finding::new(check, subject, &file, &text).lasting(boot(patient));
            judge_huge_pages(finding, chosen(&text)).cure(
                &format!("echo madvise > /{file}"),
                "transparent_hugepage=madvise on the kernel's command line \
                 (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub), or a tuned \
                 profile with transparent_hugepages=madvise in its [vm] section",
            )
        }
        Err(error) => Finding::unreadable(
            check,
            subject,
            &file,
            &error,
            "A kernel built without them has no such file; containers may hide it.",
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
            "Every process gets huge pages. A server that forks to save then copies 2 MiB for \
             the first write to each, which costs latency and memory while a child runs. \
             Redis since 6.2 and Valkey switch them off for themselves ('disable-thp yes'); \
             older ones, and those told otherwise, suffer. Weft does not fork and uses them.",
        ),
        Some("madvise") => finding.all(
            Ok,
            "Huge pages for those that ask: Weft does, for its keyspace; Redis and Valkey do \
             not unless their allocator is told to.",
        ),
        Some("never") => finding.judged(
            Advice,
            Ok,
            "Weft asks for huge pages for its keyspace and gets none: with many keys, memory \
             accesses miss the TLB more often. Harmless otherwise.",
        ),
        _ => finding.unknown("This is no setting that we know."),
    }
}

/// Where the present setting may come from.
fn boot(patient: &Patient) -> String {
    let line = patient.host.text("proc/cmdline").unwrap_or_default();
    match line.split_whitespace().find_map(|word| word.strip_prefix("transparent_hugepage=")) {
        Some(value) => format!("the kernel's command line sets it to {value} at each start"),
        None => "the kernel's command line does not set it: after a restart it has the \
                 kernel's default, or what tuned or another program sets"
            .to_string(),
    }
}

/// `transparent_hugepage/defrag`.
pub fn defrag(patient: &Patient) -> Vec<Finding> {
    let (check, subject) = ("thp-defrag", "making room for huge pages");
    let file = format!("{FOLDER}/defrag");
    let enabled = patient.host.text(&format!("{FOLDER}/enabled")).unwrap_or_default();
    let finding = match patient.host.read(&file) {
        Ok(text) => {
            let finding = Finding::new(check, subject, &file, &text)
                .lasting("a restart brings the kernel's default back, or what a program sets");
            judge_defrag(finding, chosen(&enabled), chosen(&text)).cure(
                &format!("echo defer > /{file}"),
                "a line in /etc/tmpfiles.d/weft.conf: 'w /sys/kernel/mm/transparent_hugepage/\
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
            "Whoever touches new memory that may get a huge page waits while the kernel moves \
             other pages out of the way, when memory is fragmented: pauses in the middle of \
             requests. 'defer' leaves that to a thread of the kernel.",
        ),
        (_, Some("madvise" | "defer+madvise")) => finding.all(
            Ok,
            "Only who asked for huge pages waits for room to be made; Weft asks. That is the \
             usual setting. Where pauses of growing servers are seen, 'defer' avoids them.",
        ),
        (_, Some("defer" | "never")) => finding.all(Ok, "Nobody waits for room to be made."),
        (_, Some(_) | None) => finding.unknown("This is no setting that we know."),
    }
}

/// `vm.overcommit_memory`.
pub fn overcommit(patient: &Patient) -> Vec<Finding> {
    use Severity::{Advice, Ok as Fine, Warning};
    let name = "vm.overcommit_memory";
    let finding = match super::sysctl(patient, "overcommit", name, "Containers may hide it.") {
        Err(finding) => *finding,
        Ok((finding, value)) => match value.as_str() {
            "0" if counts_only_mappings(patient) => finding.judged(
                Fine,
                Advice,
                "The kernel refuses what obviously is too much: since Linux 5.2 a mapping larger \
                 than all memory and swap, which a fork of a server hardly ever has. Redis and \
                 Valkey warn of this value all the same, for the sake of older kernels. Weft \
                 does not fork.",
            ),
            "0" => finding.judged(
                Fine,
                Warning,
                "The kernel compares what is asked for with what is free, roughly. A server that \
                 forks to save asks, for a moment, for as much memory again as it has: when it \
                 is large that may be refused, and with it saving, rewriting the log and full \
                 synchronization of replicas. Weft does not fork.",
            ),
            "1" => finding.all(Fine, "The kernel never refuses memory in advance."),
            "2" => finding.all(
                Warning,
                "The kernel refuses memory beyond a fixed sum of promises, though much of it is \
                 free: forks fail, and so do allocations of any server, which then ends.",
            ),
            _ => finding.unknown("This is no setting that we know."),
        },
    };
    vec![
        super::set(finding, name, "1").see("https://docs.kernel.org/mm/overcommit-accounting.html"),
    ]
}

/// Whether this kernel, in mode 0, looks at single mappings only (Linux 5.2, "mm: fix
/// false-positive OVERCOMMIT_GUESS failures"), and not at what is free.
fn counts_only_mappings(patient: &Patient) -> bool {
    let release = patient.host.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(2))
}
