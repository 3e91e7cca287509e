//! DEBUG EFFECTS: writes the effect log into a file, in the format of an append-only file.
//!
//! For tests and inspection of logged commands: nothing is synced and nothing is loaded again. At
//! most one such file is written at a time, in addition to the log's other readers.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::core::ConnCx;
use weft_keyspace::log::{Target, Unit};
use weft_keyspace::{LogReader, ReaderId};

const HAS_READER: Error = Error::new("ERR The log of effects is being read already");
const NO_READER: Error = Error::new("ERR No file is being written");

/// The writer thread; at most one in a process.
static WRITER: Mutex<Option<Writer>> = Mutex::new(None);

struct Writer {
    reader: ReaderId,
    thread: JoinHandle<std::io::Result<()>>,
}

/// DEBUG EFFECTS path: starts. DEBUG EFFECTS: stops after everything is in the file.
pub fn effects(cx: &mut ConnCx<'_>) -> CmdResult {
    let mut writer = WRITER.lock().unwrap_or_else(|p| p.into_inner());
    let result = match cx.args.get(2) {
        Some(_) if writer.is_some() => Err(HAS_READER),
        Some(path) => begin(cx, path).map(|begun| *writer = Some(begun)),
        None => end(cx, writer.take()),
    };
    if result.is_ok() {
        cx.reply.ok();
    }
    result
}

fn begin(cx: &ConnCx<'_>, path: &[u8]) -> Result<Writer, Error> {
    let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
    let file = File::create(path).map_err(|e| Error::owned(format!("ERR {e}")))?;
    let sleeper: Arc<OnceLock<Thread>> = Arc::default();
    let waker = sleeper.clone();
    let wake = Arc::new(move || waker.get().into_iter().for_each(Thread::unpark));
    let log = cx.guard().begin_log(Target::ALL, wake).ok_or(HAS_READER)?;
    let reader = log.id();
    let thread = std::thread::Builder::new().name("weft-effects".to_string());
    let spawned = thread.spawn(move || {
        // Must be set before the reader first reports that it sleeps.
        let _ = sleeper.set(std::thread::current());
        write_all(log, file)
    });
    match spawned {
        Ok(thread) => Ok(Writer { reader, thread }),
        Err(e) => {
            cx.guard().end_log(&reader);
            Err(Error::owned(format!("ERR {e}")))
        }
    }
}

fn end(cx: &ConnCx<'_>, writer: Option<Writer>) -> Result<(), Error> {
    let writer = writer.ok_or(NO_READER)?;
    cx.guard().end_log(&writer.reader);
    match writer.thread.join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(Error::owned(format!("ERR {e}"))),
        Err(_) => Err(Error::new("ERR The writer has panicked")),
    }
}

fn write_all(mut reader: LogReader, mut file: File) -> std::io::Result<()> {
    let (mut out, mut selected) = (Vec::new(), None);
    while !reader.is_over() {
        while let Some(unit) = reader.next() {
            append(&unit, &mut selected, &mut out);
        }
        file.write_all(&out)?;
        out.clear();
        if reader.may_sleep() {
            std::thread::park();
        }
    }
    Ok(())
}

fn append(unit: &Unit<'_>, selected: &mut Option<usize>, out: &mut Vec<u8>) {
    let is_group = unit.entries().len() > 1;
    if is_group {
        out.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
    }
    for entry in unit.entries() {
        if *selected != Some(entry.db()) {
            *selected = Some(entry.db());
            let db = entry.db().to_string();
            out.extend_from_slice(
                format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{db}\r\n", db.len()).as_bytes(),
            );
        }
        entry.append_to(out);
    }
    if is_group {
        out.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
    }
}
