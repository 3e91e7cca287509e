//! Saves a file with several threads.
//!
//! ```text
//!  thread ─► Lane: entries by database, encoded ─┐ full
//!  thread ─► Lane ───────────────────────────────┴─► Saver: one at a time: database, entries,
//!  a large value, piece by piece ────────────────────►      checksum, writer
//! ```
//!
//! A thread that waits for the saver waits for the disk, so it should hold no shard meanwhile.

use super::header::Header;
use super::{SUMMED_FROM, opcode};
use crate::rdb::{Crc64, Form, code_of, encode_body, encode_shared_body, write::Writer};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use weft_types::{Kind, Record, Shared, value};

/// Approximate size of a lane's part for one database, in bytes.
const LANE: usize = 256 << 10;

/// A value that takes more memory than this is written incrementally.
const LARGE: usize = 1 << 20;

/// Size of a write in bytes.
const TOGETHER: usize = 64 << 10;

/// Small writes between two pauses, two for each string of a large value: about ten microseconds of
/// work if strings are compressed.
const WRITES: u32 = 64;

/// Access data of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    /// Seconds since the last access.
    Idle(u64),
    Frequency(u8),
}

/// The value of an auxiliary field.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    Text(&'a str),
    Number(i64),
}

/// Writes a file. See the module documentation.
pub struct Saver<W> {
    form: Form,
    keys: AtomicU64,
    out: Mutex<Out<W>>,
}

struct Out<W> {
    to: W,
    /// Called between pieces of work. `writes` counts the writes since the last call.
    pause: fn(),
    writes: u32,
    sum: Option<Crc64>,
    /// Bytes of the next write.
    buffer: Vec<u8>,
    written: u64,
    /// The database of the following entries.
    db: Option<usize>,
    /// Counts to write when a database is selected for the first time: keys, and keys with an
    /// expiry.
    sizes: Vec<Option<(u64, u64)>>,
    /// A write has failed, so the rest of the file is useless.
    has_failed: bool,
}

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writes += 1;
        if self.writes >= WRITES {
            self.writes = 0;
            (self.pause)();
        }
        if self.buffer.len() + bytes.len() > TOGETHER {
            self.flush()?;
        }
        if bytes.len() < TOGETHER {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        self.pass_on(bytes)
    }

    /// Writes the buffer.
    fn flush(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let done = self.pass_on(&buffer);
        buffer.clear();
        self.buffer = buffer;
        done
    }
}

impl<W: Write> Out<W> {
    fn pass_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other("an earlier part could not be written"));
        }
        if let Some(sum) = &mut self.sum {
            sum.update(bytes);
        }
        let done = self.to.write_all(bytes);
        self.has_failed = done.is_err();
        self.written += bytes.len() as u64;
        done
    }

    /// Selects the database of the following entries, unless it is selected already.
    fn choose(&mut self, db: usize) -> io::Result<()> {
        if self.db.replace(db) == Some(db) {
            return Ok(());
        }
        let sizes = self.sizes.get_mut(db).and_then(Option::take);
        let mut out = Writer::new(self, false);
        out.raw(&[opcode::DATABASE])?;
        out.len(db)?;
        if let Some((keys, expiring)) = sizes {
            out.raw(&[opcode::SIZES])?;
            out.number(keys)?;
            out.number(expiring)?;
        }
        Ok(())
    }
}

impl<W: Write> Saver<W> {
    /// Begins a file in this form, with or without a checksum.
    ///
    /// # Errors
    ///
    /// Write errors. The same holds for all methods below.
    pub fn begin(to: W, form: Form, summed: bool) -> io::Result<Saver<W>> {
        let mut out = Out {
            to,
            pause: || {},
            writes: 0,
            sum: summed.then(Crc64::default),
            buffer: Vec::with_capacity(TOGETHER),
            written: 0,
            db: None,
            sizes: Vec::new(),
            has_failed: false,
        };
        out.write_all(&Header::of(form.version).to_bytes())?;
        Ok(Saver { form, keys: AtomicU64::new(0), out: Mutex::new(out) })
    }

    /// Calls `pause` repeatedly while a large value is encoded, which may take seconds: after about
    /// ten microseconds of work, on the encoding thread. Other lanes may wait for that thread.
    #[must_use]
    pub fn pausing(mut self, pause: fn()) -> Saver<W> {
        self.out.get_mut().unwrap_or_else(|p| p.into_inner()).pause = pause;
        self
    }

    fn out(&self) -> MutexGuard<'_, Out<W>> {
        // After a panic the file is never finished, so its state doesn't matter.
        self.out.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Writes an auxiliary field. All readers expect these before the first key.
    pub fn tell(&self, name: &str, value: Told<'_>) -> io::Result<()> {
        let mut out = self.out();
        let mut out = Writer::new(&mut *out, false);
        out.raw(&[opcode::AUX])?;
        out.plain(name.as_bytes())?;
        match value {
            Told::Text(text) => out.plain(text.as_bytes()),
            Told::Number(n) => out.int(n),
        }
    }

    /// Adds a library of functions, before the first key.
    pub fn function(&self, text: &[u8]) -> io::Result<()> {
        let mut out = self.out();
        let mut out = Writer::new(&mut *out, self.form.compress);
        out.raw(&[opcode::FUNCTION])?;
        out.string(text)
    }

    /// Sets the number of keys of database `db` and of those that expire, a hint for the loader.
    pub fn sizes(&self, db: usize, keys: u64, expiring: u64) {
        let mut out = self.out();
        if out.sizes.len() <= db {
            out.sizes.resize(db + 1, None);
        }
        out.sizes[db] = Some((keys, expiring));
    }

    /// Returns a lane for one thread.
    pub fn lane(&self) -> Lane<'_, W> {
        Lane { saver: self, parts: Vec::new(), keys: 0 }
    }

    /// Number of keys written.
    pub fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// Ends the file, after all lanes have ended. Returns the writer and the size of the file in
    /// bytes.
    pub fn finish(self) -> io::Result<(W, u64)> {
        let mut out = self.out.into_inner().unwrap_or_else(|p| p.into_inner());
        out.write_all(&[opcode::END])?;
        out.flush()?;
        if self.form.version >= SUMMED_FROM {
            let sum = out.sum.take().map_or(0, Crc64::finish);
            out.write_all(&sum.to_le_bytes())?;
            out.flush()?;
        }
        out.to.flush()?;
        Ok((out.to, out.written))
    }
}

/// The entries that one thread adds to a file. [`Lane::finish`] must end it.
#[must_use]
pub struct Lane<'s, W> {
    saver: &'s Saver<W>,
    /// Encoded entries by database, because keys of several databases may alternate.
    parts: Vec<Vec<u8>>,
    keys: u64,
}

impl<W: Write> Lane<'_, W> {
    /// Adds a key of database `db`.
    pub fn add(&mut self, db: usize, record: &Record, used: Option<Used>) -> io::Result<()> {
        self.put(db, Source::Record(record), used)
    }

    /// Like [`Lane::add`], for a shared value that is not needed afterwards. Releases a large value
    /// piece by piece once written, so that writers don't have to copy it.
    pub fn add_shared(&mut self, db: usize, shared: Shared, used: Option<Used>) -> io::Result<()> {
        self.put(db, Source::Shared(shared), used)
    }

    fn put(&mut self, db: usize, from: Source<'_>, used: Option<Used>) -> io::Result<()> {
        self.keys += 1;
        let form = self.saver.form;
        if is_large(from.record()) {
            let mut out = self.saver.out();
            out.choose(db)?;
            return entry(from, used, form, &mut *out);
        }
        if self.parts.len() <= db {
            self.parts.resize_with(db + 1, Vec::new);
        }
        entry(from, used, form, &mut self.parts[db])?;
        if self.parts[db].len() >= LANE { self.flush_part(db) } else { Ok(()) }
    }

    /// Passes all entries to the saver.
    pub fn flush(&mut self) -> io::Result<()> {
        self.saver.keys.fetch_add(std::mem::take(&mut self.keys), Ordering::Relaxed);
        (0..self.parts.len()).try_for_each(|db| self.flush_part(db))
    }

    fn flush_part(&mut self, db: usize) -> io::Result<()> {
        self.saver.keys.fetch_add(std::mem::take(&mut self.keys), Ordering::Relaxed);
        let part = &mut self.parts[db];
        if part.is_empty() {
            return Ok(());
        }
        let mut out = self.saver.out();
        out.choose(db)?;
        let done = out.write_all(part);
        drop(out);
        part.clear();
        done
    }

    /// Ends the lane.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}

/// The value to write.
enum Source<'r> {
    Record(&'r Record),
    /// Released while it is written.
    Shared(Shared),
}

impl Source<'_> {
    fn record(&self) -> &Record {
        match self {
            Source::Record(record) => record,
            Source::Shared(shared) => shared,
        }
    }
}

/// Whether a value is too large to encode in memory. A value inside the record never is.
fn is_large(record: &Record) -> bool {
    match Kind::of(record.kind()) {
        Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => false,
        Kind::ListPacked | Kind::ListTwoWay | Kind::SetInts | Kind::SetPacked => false,
        Kind::ZsetPacked | Kind::HashPacked => false,
        Kind::StrBlob | Kind::StrPieces | Kind::ListChunks | Kind::SetTable | Kind::ZsetTree => {
            value::memory_about(record) > LARGE
        }
        Kind::HashTable | Kind::Stream => value::memory_about(record) > LARGE,
    }
}

/// Writes a key and its properties.
fn entry<W: Write>(
    from: Source<'_>,
    used: Option<Used>,
    form: Form,
    out: &mut W,
) -> io::Result<()> {
    let record = from.record();
    if let Some(at) = record.expiry() {
        out.write_all(&[opcode::EXPIRY_MS])?;
        out.write_all(&at.to_le_bytes())?;
    }
    match used {
        None => {}
        Some(Used::Idle(seconds)) => {
            out.write_all(&[opcode::IDLE])?;
            Writer::new(&mut *out, false).number(seconds)?;
        }
        Some(Used::Frequency(count)) => out.write_all(&[opcode::FREQUENCY, count])?,
    }
    let code = code_of(record, form.version);
    out.write_all(&[code as u8])?;
    Writer::new(&mut *out, form.compress).string(record.key())?;
    match from {
        Source::Record(record) => encode_body(record, code, form, out),
        Source::Shared(shared) => encode_shared_body(shared, code, form, out),
    }
}
