//! Counts of commands and replies.

use std::collections::BTreeMap;

use crate::control::Reply;

/// Counts of one client, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub sent: u64,
    /// Replies other than errors, by their type.
    success: BTreeMap<String, u64>,
    /// Errors by their first word.
    errors: BTreeMap<String, u64>,
    /// Replies that violate the protocol.
    pub malformed: u64,
}

impl Totals {
    pub fn count(&mut self, reply: &Reply) {
        let (map, key) = match reply {
            Reply::Error(error) => (&mut self.errors, code(error).to_string()),
            _ => (&mut self.success, reply.types().to_string()),
        };
        *map.entry(key).or_default() += 1;
    }

    pub fn add(&mut self, other: &Totals) {
        self.sent += other.sent;
        self.malformed += other.malformed;
        for (into, from) in [(&mut self.success, &other.success), (&mut self.errors, &other.errors)]
        {
            for (key, count) in from {
                *into.entry(key.clone()).or_default() += count;
            }
        }
    }

    /// The lines of the summary: those of the reference, and two additional ones.
    pub fn lines(&self) -> Vec<String> {
        let success: u64 = self.success.values().sum();
        let errors: u64 = self.errors.values().sum();
        let rate = if self.sent == 0 { 0.0 } else { success as f64 * 100.0 / self.sent as f64 };
        let mut lines = vec![
            "=== FINAL STATISTICS ===".to_string(),
            format!("Total commands sent: {}", self.sent),
            format!("Success replies: {success}"),
            format!("Error replies: {errors}"),
            format!("Malformed replies: {}", self.malformed),
            format!("Total errors: {}", errors + self.malformed),
            format!("Success rate: {rate:.2}%"),
            format!("Replies by type: {}", list(&self.success)),
        ];
        if errors > 0 {
            lines.push(format!("Errors by code: {}", list(&self.errors)));
        }
        lines
    }

    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }
}

/// The first word of an error, if it is a code.
pub fn code(error: &str) -> &str {
    let word = error.split(' ').next().unwrap_or_default();
    let is_code = !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    if is_code { word } else { "other" }
}

fn list(counts: &BTreeMap<String, u64>) -> String {
    let items: Vec<String> = counts.iter().map(|(key, count)| format!("{key} {count}")).collect();
    if items.is_empty() { "none".to_string() } else { items.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_by_type_and_code() {
        let mut totals = Totals { sent: 4, ..Totals::default() };
        for reply in [
            Reply::Integer(1),
            Reply::Null,
            Reply::Error("WRONGTYPE x".into()),
            Reply::Error("odd words".into()),
        ] {
            totals.count(&reply);
        }
        let mut all = totals.clone();
        all.add(&totals);
        let lines = all.lines().join("\n");
        for part in [
            "commands sent: 8\n",
            "Success replies: 4\n",
            "Error replies: 4\n",
            "rate: 50.00%\n",
            "by type: integer 2, null 2\n",
            "by code: WRONGTYPE 2, other 2",
        ] {
            assert!(lines.contains(part), "{part} in {lines}");
        }
    }
}
