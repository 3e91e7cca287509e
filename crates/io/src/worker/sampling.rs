//! Samples keys for the page on the metrics port: `weft_state::hot_keys`.
//!
//! At most one request in a millisecond, drawn from the batch that was just executed. A sample stands for all requests that
//! the thread has executed since its last one, so the samples of busy and idle threads add up.

use crate::worker::Worker;
use crate::worker::execute::job_bytes;
use crate::worker::parts::LastSample;
use weft_executor::batch::{Batch, Source};

/// After a longer pause, a sample stands for its own batch only.
const PAUSE_MS: i64 = 1_000;

impl Worker {
    /// Samples a key of the executed batch. Its buffers must be as they were executed.
    #[cold]
    pub(super) fn sample_key(&mut self, batch: &Batch) {
        let now_ms = self.core.mono_ms;
        let LastSample { at_ms, requests } = self.execution.last_sample;
        if now_ms == at_ms || batch.reqs.is_empty() {
            return;
        }
        // The counter is increased after this call.
        let executed = self.core.stats().load.requests.get() + batch.reqs.len() as u64;
        let weight = match now_ms - at_ms <= PAUSE_MS {
            true => executed.saturating_sub(requests),
            false => batch.reqs.len() as u64,
        };
        self.execution.last_sample = LastSample { at_ms: now_ms, requests: executed };
        let n = (self.core.context.random() % batch.reqs.len() as u64) as usize;
        let db = batch.reqs[n].db;
        let key = self.first_key(batch, n);
        self.core.srv.statistics.hot_keys.add(weight.max(1), db, key);
    }

    /// The first key of a request, if it has one and its arguments are still in a buffer.
    fn first_key<'a>(&'a self, batch: &'a Batch, n: usize) -> Option<&'a [u8]> {
        let req = &batch.reqs[n];
        let at = req.cmd.filter(|_| req.lines > 0)?.first_key;
        match req.source {
            Source::Owned(i) => Some(batch.owned.get(i as usize)?.get(at)?.bytes()),
            Source::Spans => {
                // Jobs are in the order of their requests.
                let job = batch.jobs.partition_point(|job| job.first_req <= n).checked_sub(1)?;
                let bytes = job_bytes(batch, job, self.conns.get(batch.jobs[job].conn)?);
                let spans = &batch.spans[req.first_span as usize..][..req.spans as usize];
                let span = spans.get(at)?;
                // A connection that closed has lost its buffer.
                let end = span.start as usize + span.len as usize;
                (end <= bytes.len()).then(|| span.of(bytes))
            }
        }
    }
}
