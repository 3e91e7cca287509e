//! `/keys.json`: the keys of most requests, from the samples of the I/O threads.
//!
//! Each request for it lets the threads sample for some more seconds (`weft_state::hot_keys`). Older samples count less and
//! less, so a key that is no longer used disappears.

use crate::access::Reader;
use serde_json::{Value, json};
use std::collections::HashMap;
use weft_state::hot_keys::{SampledKey, Samples};

/// After this time a sample counts half, in seconds.
const HALF_LIFE_S: f64 = 5.0;
/// The most keys that are counted. Beyond it, the rarest are forgotten.
const MOST: usize = 32_768;
/// Keys in the answer.
const SHOWN: usize = 16;

/// Counts that fade.
#[derive(Debug, Default)]
pub struct HotKeys {
    /// By database and key: the requests that its samples stand for, and the number of its samples.
    counts: HashMap<(u16, Vec<u8>, usize), (f64, f64)>,
    requests: f64,
    samples: f64,
    /// The sum of the time, with older time counting less: what `requests` is divided by for a rate.
    seconds: f64,
    read_ms: i64,
}

impl HotKeys {
    /// Adds the samples since the last call.
    pub fn add(&mut self, now_ms: i64, samples: Samples) {
        let elapsed = (now_ms - self.read_ms) as f64 / 1e3;
        let is_new = self.read_ms == 0 || elapsed > 4.0 * HALF_LIFE_S;
        self.read_ms = now_ms;
        if is_new {
            // The threads begin to sample now.
            *self = HotKeys { read_ms: now_ms, ..HotKeys::default() };
            return;
        }
        let keeps = 0.5f64.powf(elapsed.max(0.0) / HALF_LIFE_S);
        self.requests = self.requests * keeps + samples.requests as f64;
        self.samples = self.samples * keeps + samples.keys.len() as f64;
        self.seconds = self.seconds * keeps + elapsed.max(0.0);
        self.counts.values_mut().for_each(|(requests, samples)| {
            *requests *= keeps;
            *samples *= keeps;
        });
        self.counts.retain(|_, (_, samples)| *samples > 0.1);
        for (SampledKey { db, start, len }, requests) in samples.keys {
            let count = self.counts.entry((db, start, len)).or_default();
            *count = (count.0 + requests as f64, count.1 + 1.0);
        }
        if self.counts.len() > MOST {
            self.counts.retain(|_, (_, samples)| *samples >= 1.5);
        }
    }

    /// The answer.
    pub fn json(&self, reader: Reader) -> Value {
        if !reader.may_monitor {
            return json!({ "keys": null, "samples": 0 });
        }
        let mut keys: Vec<_> = self.counts.iter().collect();
        keys.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then_with(|| a.0.cmp(b.0)));
        let per = |of: f64, whole: f64| if whole > 0.0 { of / whole } else { 0.0 };
        let shown = keys.into_iter().take(SHOWN).map(|((db, start, len), (requests, samples))| {
            json!({
                "db": db,
                "key": printable(start),
                "bytes": len,
                "cut": *len > start.len(),
                "share": per(*requests, self.requests),
                "per_second": per(*requests, self.seconds),
                "samples": samples,
            })
        });
        json!({ "keys": shown.collect::<Vec<_>>(), "samples": self.samples })
    }
}

/// A key as text. Bytes that are no visible text become `\x00`, and a backslash becomes two, so no two keys look alike.
pub fn printable(key: &[u8]) -> String {
    let mut out = String::new();
    for chunk in key.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if c.is_control() || is_invisible(c) => {
                    let mut bytes = [0; 4];
                    c.encode_utf8(&mut bytes).bytes().for_each(|b| push_escaped(&mut out, b));
                }
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|b| push_escaped(&mut out, *b));
    }
    out
}

fn push_escaped(out: &mut String, byte: u8) {
    out.push_str(&format!("\\x{byte:02x}"));
}

/// Characters that reorder or hide the text around them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Reader = Reader { may_list_clients: true, may_monitor: true };

    fn samples(keys: &[(&str, u64)]) -> Samples {
        let key = |name: &str| SampledKey { db: 0, start: name.into(), len: name.len() };
        Samples {
            keys: keys.iter().map(|(name, requests)| (key(name), *requests)).collect(),
            requests: keys.iter().map(|(_, requests)| requests).sum(),
        }
    }

    #[test]
    fn shares_and_rates_follow_the_requests() {
        let mut keys = HotKeys::default();
        keys.add(1_000, samples(&[("old", 9)]));
        assert_eq!(keys.json(ALL)["keys"], json!([]), "sampled before anyone asked");
        keys.add(2_000, samples(&[("a", 30), ("b", 10)]));
        let answer = keys.json(ALL);
        assert_eq!(answer["keys"][0]["key"], "a");
        assert_eq!(answer["keys"][0]["share"], 0.75);
        assert_eq!(answer["keys"][0]["per_second"], 30.0);
        for n in 3..60 {
            keys.add(n * 1_000, samples(&[("b", 10)]));
        }
        let answer = keys.json(ALL);
        assert_eq!(answer["keys"].as_array().map(Vec::len), Some(1), "{answer}");
        assert!((answer["keys"][0]["per_second"].as_f64().unwrap_or(0.0) - 10.0).abs() < 0.1);
    }

    #[test]
    fn keys_are_for_users_who_may_see_them() {
        let mut keys = HotKeys::default();
        keys.add(1_000, Samples::default());
        keys.add(2_000, samples(&[("secret", 1)]));
        let answer = keys.json(Reader { may_monitor: false, ..ALL });
        assert_eq!(answer["keys"], Value::Null);
    }

    #[test]
    fn keys_are_visible_text() {
        assert_eq!(printable(b"user:1"), "user:1");
        assert_eq!(printable("größe".as_bytes()), "größe");
        assert_eq!(printable(b"a\\b\n\0\xff"), "a\\\\b\\x0a\\x00\\xff");
        assert_eq!(printable("a\u{202e}b".as_bytes()), "a\\xe2\\x80\\xaeb");
        assert_eq!(printable(b"<script>"), "<script>");
    }
}
