//! Statistics of the commands that a script calls. An undone run must leave no trace in them.

use crate::dispatch::core::Core;
use crate::dispatch::reply::count_error;
use smallvec::SmallVec;
use weft_commands::Error;
use weft_state::command_table::Cmd;
use weft_state::stats::Histogram;

/// The calls of one run.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The counted calls, by command, if the run may be undone.
    counted: SmallVec<[Counted; 4]>,
    /// Not counted before the run has ended.
    errors: Vec<Error>,
    rejected: Vec<&'static Cmd>,
}

#[derive(Debug)]
struct Counted {
    cmd: &'static Cmd,
    calls: u64,
    failed: u64,
    ns: u64,
    /// The buckets of the histogram that have more now, by how much.
    buckets: SmallVec<[(u16, u64); 2]>,
}

impl Calls {
    /// Notes a call that was counted, and may have to be taken back. `in_histogram`: it was recorded there, too.
    /// O(different commands of the script + different buckets).
    pub(super) fn note(&mut self, cmd: &'static Cmd, ns: u64, is_failed: bool, in_histogram: bool) {
        let at = match self.counted.iter().position(|counted| std::ptr::eq(counted.cmd, cmd)) {
            Some(at) => at,
            None => {
                let buckets = SmallVec::new();
                self.counted.push(Counted { cmd, calls: 0, failed: 0, ns: 0, buckets });
                self.counted.len() - 1
            }
        };
        let counted = &mut self.counted[at];
        counted.calls += 1;
        counted.failed += u64::from(is_failed);
        counted.ns += ns;
        if in_histogram {
            let bucket = Histogram::bucket(ns);
            match counted.buckets.iter_mut().find(|(of, _)| *of == bucket) {
                Some((_, n)) => *n += 1,
                None => counted.buckets.push((bucket, 1)),
            }
        }
    }

    #[cold]
    pub(super) fn note_error(&mut self, error: &Error) {
        self.errors.push(error.clone());
    }

    /// Notes that the script must not call the command, if there is one.
    #[cold]
    pub(super) fn note_rejected(&mut self, cmd: Option<&'static Cmd>, error: &Error) {
        self.rejected.extend(cmd);
        self.note_error(error);
    }

    /// The run has ended.
    pub(super) fn finish(&mut self, core: &Core) {
        for error in self.errors.drain(..) {
            count_error(core, &error);
        }
        for cmd in self.rejected.drain(..) {
            core.stats().commands[cmd.number].rejected.add(1);
        }
    }

    /// The run is undone.
    #[cold]
    pub(super) fn take_back(&self, core: &Core) {
        for Counted { cmd, calls, failed, ns, buckets } in &self.counted {
            let stats = &core.stats().commands[cmd.number];
            stats.calls.take_back(*calls);
            stats.failed.take_back(*failed);
            stats.ns.take_back(*ns);
            if let Some(histogram) = stats.latency.get() {
                buckets.iter().for_each(|(bucket, n)| histogram.take_back(*bucket, *n));
            }
        }
    }
}
