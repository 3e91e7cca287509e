//! The text of MEMORY DOCTOR.

use crate::info::memory::Usage;
use crate::info::text::human;

/// Below this many bytes of data, ratios mean nothing.
const LITTLE: u64 = 5 << 20;
/// Ratios from which on a finding is reported.
const HIGH: f64 = 1.4;
/// Amounts in bytes from which on a finding is reported, so that a high ratio of little memory is
/// not.
const MUCH: i64 = 10 << 20;
/// The share of the present use from which on the peak is reported.
const PEAK: f64 = 1.5;
/// Average buffers per client, in bytes, from which on they are reported.
const LARGE_BUFFERS: u64 = 200 << 10;

/// Reports the findings about `usage`, or that there are none.
pub fn doctor(usage: &Usage) -> String {
    if usage.used.saturating_sub(usage.startup) < LITTLE {
        return format!("There is too little data ({}) for a diagnosis.\n", human(usage.dataset()));
    }
    let findings = findings(usage);
    if findings.is_empty() {
        return "No problem of memory use was found.\n".into();
    }
    let mut text = String::from("Findings about memory use:\n\n");
    findings.iter().for_each(|finding| text.push_str(&format!("- {finding}\n")));
    text
}

fn findings(usage: &Usage) -> Vec<String> {
    let mut found = Vec::new();
    if usage.peak as f64 > usage.used as f64 * PEAK {
        found.push(format!(
            "Peak: {} were in use, {} are in use now. The allocator may keep pages from \
             the peak, which raises the ratios to resident memory. The ratios recover when the \
             data grows. MEMORY PURGE returns pages that are entirely free.",
            human(usage.peak),
            human(usage.used)
        ));
    }
    let inside = usage.fragmentation_in_allocator();
    if inside.ratio > HIGH && inside.bytes > MUCH {
        found.push(format!(
            "Fragmentation: {} are free in pages that also hold data. The cause is many deletions, \
             or values that change their size. A restart removes it.",
            human(inside.bytes as u64)
        ));
    }
    let kept = usage.resident_in_allocator();
    if kept.ratio > HIGH && kept.bytes > MUCH {
        found.push(format!(
            "Unused pages: the allocator keeps {} that hold no data. It returns them gradually. \
             MEMORY PURGE returns them at once.",
            human(kept.bytes as u64)
        ));
    }
    let beside = usage.resident_outside_allocator();
    if beside.ratio > HIGH && beside.bytes > MUCH {
        found.push(format!(
            "Memory outside the allocator: {} are resident.",
            human(beside.bytes as u64)
        ));
    }
    if usage.clients > LARGE_BUFFERS && usage.clients > usage.used / 10 {
        found.push(format!(
            "Buffers: clients' buffers hold {}. CLIENT LIST shows the buffers of each client \
             (qbuf-free, omem). Slow readers and very large requests are common causes.",
            human(usage.clients)
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::memory::Allocator;

    #[test]
    fn doctor_reports_unhealthy_usage() {
        let healthy = Usage {
            used: 100 << 20,
            peak: 100 << 20,
            startup: 1 << 20,
            allocator: Allocator { allocated: 100 << 20, active: 105 << 20, resident: 110 << 20 },
            resident: 112 << 20,
            ..Usage::default()
        };
        assert!(doctor(&healthy).starts_with("No problem"));
        assert!(doctor(&Usage { used: 2 << 20, ..healthy.clone() }).contains("too little data"));
        let fragmented = Usage {
            allocator: Allocator { active: 200 << 20, resident: 210 << 20, ..healthy.allocator },
            resident: 212 << 20,
            ..healthy.clone()
        };
        let text = doctor(&fragmented);
        assert!(text.contains("Fragmentation: 100.00M") && !text.contains("Peak"), "{text}");
        assert!(doctor(&Usage { peak: 300 << 20, ..healthy.clone() }).contains("Peak: 300.00M"));
        assert!(doctor(&Usage { clients: 50 << 20, ..healthy }).contains("Buffers: "));
    }
}
