//! The largest buffers that clients had in the last seconds: `client_recent_max_input_buffer` and
//! its sibling for output.
//!
//! The first thread's cron looks at all clients once a second, and INFO when it is asked, as the
//! reference does; what grew and shrank in between goes unnoticed.

use crate::clients::ClientShared;
use std::sync::atomic::Ordering;

/// Seconds that are remembered.
const SECONDS: usize = 8;

/// Bytes of the largest buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    pub input: u64,
    pub output: u64,
}

impl Peak {
    /// Of these clients, as they are now.
    pub fn of<'c>(clients: impl IntoIterator<Item = &'c ClientShared>) -> Peak {
        clients.into_iter().fold(Peak::default(), |peak, client| {
            peak.or(Peak {
                input: client.query_room.load(Ordering::Relaxed),
                output: client.output.load(Ordering::Relaxed),
            })
        })
    }

    /// The larger of each.
    pub fn or(self, other: Peak) -> Peak {
        Peak { input: self.input.max(other.input), output: self.output.max(other.output) }
    }
}

/// The peaks of the last seconds, each beside its second.
#[derive(Debug, Default)]
pub struct Peaks([(u64, Peak); SECONDS]);

impl Peaks {
    /// Whether the second `now_s` (of any clock that goes on) has no peak yet.
    pub fn is_due(&self, now_s: u64) -> bool {
        self.0[now_s as usize % SECONDS].0 != now_s
    }

    /// Adds what is seen in the second `now_s`.
    pub fn add(&mut self, now_s: u64, seen: Peak) {
        let (second, peak) = &mut self.0[now_s as usize % SECONDS];
        *peak = if *second == now_s { peak.or(seen) } else { seen };
        *second = now_s;
    }

    /// The largest since seven seconds before `now_s`.
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
