//! Latencies of every second in a file, in the log format of HDR histograms (V2, compressed), for
//! its tools to draw. Values are nanoseconds; each line is tagged with the test.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, Tag};

/// The parts of a log, which must outlive it.
#[derive(Default)]
pub struct Parts {
    file: Option<File>,
    serializer: V2DeflateSerializer,
}

/// A log that is being written. Each line goes to the file immediately, so a killed run keeps its
/// measurements.
pub struct HdrLog<'a> {
    writer: IntervalLogWriter<'a, 'a, File, V2DeflateSerializer>,
    began: SystemTime,
}

impl<'a> HdrLog<'a> {
    /// Begins a new file.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn create(path: &Path, parts: &'a mut Parts) -> io::Result<HdrLog<'a>> {
        let file = parts.file.insert(File::create(path)?);
        let began = SystemTime::now();
        let writer = IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("latencies in nanoseconds, by weft-benchmark")
            .with_start_time(began)
            .with_base_time(began)
            // The column of the maximum is in milliseconds.
            .with_max_value_divisor(1e6)
            .begin_log_with(file, &mut parts.serializer)?;
        Ok(HdrLog { writer, began })
    }

    /// Writes the latencies of the time that ends now.
    ///
    /// # Errors
    /// If the file can't be written, for example because the disk is full.
    pub fn write(
        &mut self,
        test: &str,
        latencies: &Histogram<u64>,
        lasted: Duration,
    ) -> anyhow::Result<()> {
        let name: String = test
            .chars()
            .map(|c| if matches!(c, ',' | ' ' | '\r' | '\n') { '_' } else { c })
            .collect();
        let start = self.began.elapsed().unwrap_or_default().saturating_sub(lasted);
        self.writer
            .write_histogram(latencies, start, lasted, Tag::new(&name))
            .map_err(|e| anyhow::anyhow!("{e:?}"))
            .context("the histogram log can't be written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::histogram;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn log_reads_back_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut parts = Parts::default();
        let mut log = HdrLog::create(&path, &mut parts).unwrap();
        let mut latencies = histogram(3);
        latencies.record_n(5_000_000, 10).unwrap();
        log.write("MSET (10 keys)", &latencies, Duration::from_secs(1)).unwrap();
        let text = std::fs::read(&path).unwrap();
        let lines: Vec<_> = IntervalLogIterator::new(&text).map(Result::unwrap).collect();
        let intervals = lines.iter().filter_map(|line| match line {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        });
        let [interval] = intervals.collect::<Vec<_>>()[..] else { panic!("{lines:?}") };
        assert_eq!(&*interval.tag().unwrap(), "MSET_(10_keys)");
        assert_eq!(interval.duration(), Duration::from_secs(1));
        assert!((interval.max() - 5.0).abs() < 0.01);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let Ok(mut parts) = std::panic::catch_unwind(Parts::default) else { return };
        let full = Path::new("/dev/full");
        let Ok(mut log) = HdrLog::create(full, &mut parts) else { return };
        assert!(log.write("GET", &histogram(3), Duration::from_secs(1)).is_err());
    }
}
