//! The largest client buffers of the last seconds, for `client_recent_max_input_buffer` and
//! `client_recent_max_output_buffer`.
//!
//! The first thread's cron measures all clients once a second, and so does each INFO, as in
//! Valkey. A buffer that grows and shrinks between two measurements goes unnoticed.

use crate::clients::ClientShared;
use std::sync::atomic::Ordering;

/// Seconds in the window.
const SECONDS: usize = 8;

/// Bytes of the largest buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    pub input: u64,
    pub output: u64,
}

impl Peak {
    /// The peak of these clients at this moment.
    pub fn of<'c>(clients: impl IntoIterator<Item = &'c ClientShared>) -> Peak {
        clients.into_iter().fold(Peak::default(), |peak, client| {
            peak.or(Peak {
                input: client.input.room.load(Ordering::Relaxed),
                output: client.output.bytes.load(Ordering::Relaxed),
            })
        })
    }

    /// The larger of each.
    pub fn or(self, other: Peak) -> Peak {
        Peak { input: self.input.max(other.input), output: self.output.max(other.output) }
    }
}

/// The peaks of the last seconds, each with its second.
#[derive(Debug, Default)]
pub struct Peaks([(u64, Peak); SECONDS]);

impl Peaks {
    /// Whether the second `now_s` (of any monotonic clock) has no peak yet.
    pub fn is_due(&self, now_s: u64) -> bool {
        self.0[now_s as usize % SECONDS].0 != now_s
    }

    /// Adds a measurement of the second `now_s`.
    pub fn add(&mut self, now_s: u64, seen: Peak) {
        let (second, peak) = &mut self.0[now_s as usize % SECONDS];
        *peak = if *second == now_s { peak.or(seen) } else { seen };
        *second = now_s;
    }

    /// The largest peak since seven seconds before `now_s`.
    pub fn recent(&self, now_s: u64) -> Peak {
        let recent = self.0.iter().filter(|(at, _)| at + SECONDS as u64 > now_s);
        recent.fold(Peak::default(), |most, (_, peak)| most.or(*peak))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_last_for_some_seconds() {
        let mut peaks = Peaks::default();
        let peak = |input, output| Peak { input, output };
        assert!(peaks.is_due(100));
        peaks.add(100, peak(5, 0));
        peaks.add(100, peak(3, 7));
        assert!(!peaks.is_due(100) && peaks.is_due(101) && peaks.is_due(108));
        peaks.add(103, peak(4, 1));
        assert_eq!(peaks.recent(107), peak(5, 7));
        assert_eq!(peaks.recent(108), peak(4, 1));
        assert_eq!(peaks.recent(111), Peak::default());
        peaks.add(108, peak(1, 1));
        assert_eq!(peaks.recent(108), peak(4, 1));
    }
}
