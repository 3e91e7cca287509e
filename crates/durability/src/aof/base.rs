//! The base that a rewrite writes: the content of a cut, as a snapshot or as commands.

use crate::aof::order::Base;
use crate::persistence::save;
use crate::persistence::save::{Failed, Introduced, Plan, Taker};
use std::io::{self, Write};
use weft_executor::script::functions::Libraries;
use weft_keyspace::Record;
use weft_keyspace::snapshot::{Image, Snapshot};
use weft_persist::aof::Directory;
use weft_persist::rdb::file::{Place, Saver};
use weft_persist::rdb::{Form, VERSION, encode, seal};
use weft_process::errors::words;
use weft_scheduler::yielding;
use weft_scheduler::yielding::YieldingWriter;
use weft_state::aof_policy::Policy;
use weft_state::saves::Running;
use weft_state::server::Server;
use weft_types::hash::Hash;
use weft_types::list::List;
use weft_types::set::Set;
use weft_types::string::{Digits, Str, Text};
use weft_types::zset::View;
use weft_types::{Kind, Type};

/// Elements per command, as in the reference.
const ELEMENTS: usize = 64;
/// Bytes per write.
const TOGETHER: usize = 256 << 10;

/// The temporary name of a base, until it is complete.
fn temporary() -> String {
    format!("temp-rewriteaof-bg-{}.aof", std::process::id())
}

fn place<'s>(srv: &'s Server, dir: &'s Directory, policy: &Policy) -> io::Result<Place<'s>> {
    let number = srv.persistence.next_file();
    Place::begin(&*dir.storage, dir.folder(), &temporary(), number, policy.incremental)
}

/// The first bytes of a base of commands: the time, if annotations are on, and the functions.
fn beginning(srv: &Server, policy: &Policy, functions: &Libraries) -> Vec<u8> {
    let mut bytes = match policy.annotations.timestamps {
        true => format!("#TS:{}\r\n", srv.now_ms() / 1000).into_bytes(),
        false => Vec::new(),
    };
    for library in functions.all() {
        bytes.extend(b"*3\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n");
        bytes.extend(format!("${}\r\n", library.text.len()).bytes());
        bytes.extend(&*library.text);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Writes the base of an empty keyspace. It is on disk when this returns.
///
/// # Errors
/// I/O errors.
pub fn of_nothing(srv: &Server, dir: &Directory, policy: &Policy) -> io::Result<Base> {
    let functions = srv.scripts.functions.current();
    let place = place(srv, dir, policy)?;
    let place = if policy.snapshot {
        let saver =
            Saver::begin(place, Form { version: VERSION, compress: policy.compress }, true)?;
        save::introduce(srv, &saver, Introduced::aof_base(&functions))?;
        saver.finish()?.0
    } else {
        let mut place = place;
        place.write_all(&beginning(srv, policy, &functions))?;
        place
    };
    place.finish()?;
    Ok(Base { name: temporary(), snapshot: policy.snapshot })
}

/// Writes the base with the content of the snapshot, and the functions of its moment. It is on disk when this returns. O(all keys).
///
/// # Errors
/// The reason for the failure, as a line for the operator.
pub fn write(
    srv: &'static Server,
    dir: &Directory,
    plan: &Plan,
    (snapshot, functions): (&Snapshot<'static>, &Libraries),
    running: &Running,
) -> Result<Base, String> {
    write_base(srv, dir, plan, (snapshot, functions), running).map_err(|failed| failed.to_string())
}

fn write_base(
    srv: &'static Server,
    dir: &Directory,
    plan: &Plan,
    (snapshot, functions): (&Snapshot<'static>, &Libraries),
    running: &Running,
) -> Result<Base, Failed> {
    let policy = srv.settings().persistence.aof;
    let place = place(srv, dir, &policy)?;
    let place = if policy.snapshot {
        let saver =
            Saver::begin(YieldingWriter(place), plan.form, true)?.pausing(yielding::yield_if_due);
        save::introduce(srv, &saver, Introduced::aof_base(functions))?;
        save::write(srv, plan, snapshot, &saver, running)?;
        saver.finish()?.0.0
    } else {
        let script = Script::to(YieldingWriter(place), beginning(srv, &policy, functions));
        save::take(srv, snapshot, running, script)?.0
    };
    place.finish()?;
    weft_process::log_notice!("Successfully created the temporary AOF base file {}", temporary());
    Ok(Base { name: temporary(), snapshot: policy.snapshot })
}

/// Writes commands that create the keys. A large value is never in memory as a whole.
struct Script<W> {
    to: W,
    /// After an error, nothing more is written.
    done: io::Result<()>,
    bytes: Vec<u8>,
    db: Option<usize>,
}

impl<W: Write> Taker for Script<W> {
    type Done = W;

    fn image(&mut self, image: Image) -> io::Result<()> {
        self.key(image.db(), &image);
        self.take_error()
    }

    fn finish(mut self) -> io::Result<W> {
        self.flush();
        self.take_error()?;
        Ok(self.to)
    }
}

impl<W: Write> Script<W> {
    fn to(to: W, bytes: Vec<u8>) -> Self {
        Script { to, done: Ok(()), bytes, db: None }
    }

    fn flush(&mut self) {
        if self.done.is_ok() {
            self.done = self.to.write_all(&self.bytes);
        }
        self.bytes.clear();
        self.bytes.shrink_to(2 * TOGETHER);
    }

    fn take_error(&mut self) -> io::Result<()> {
        std::mem::replace(&mut self.done, Ok(()))
    }

    fn begin(&mut self, args: usize) {
        if self.bytes.len() >= TOGETHER {
            self.flush();
        }
        self.bytes.extend(format!("*{args}\r\n").bytes());
    }

    fn arg(&mut self, arg: &[u8]) {
        self.bytes.extend(format!("${}\r\n", arg.len()).bytes());
        self.bytes.extend(arg);
        self.bytes.extend(b"\r\n");
    }

    /// Appends an argument that may be large, directly from its storage.
    fn text(&mut self, text: Text<'_>) {
        self.bytes.extend(format!("${}\r\n", text.len()).bytes());
        for slice in text.all().flat_map(|slice| slice.chunks(TOGETHER)) {
            if self.bytes.len() >= TOGETHER {
                self.flush();
            }
            self.bytes.extend(slice);
        }
        self.bytes.extend(b"\r\n");
    }

    fn command(&mut self, args: &[&[u8]]) {
        self.begin(args.len());
        args.iter().for_each(|arg| self.arg(arg));
    }

    fn key(&mut self, db: usize, record: &Record) {
        if self.db.replace(db) != Some(db) {
            self.command(&[b"SELECT", db.to_string().as_bytes()]);
        }
        self.value(record);
        if let Some(at) = record.expiry() {
            self.command(&[b"PEXPIREAT", record.key(), at.to_string().as_bytes()]);
        }
    }

    fn value(&mut self, record: &Record) {
        let key = record.key();
        match Kind::of(record.kind()).type_of() {
            Type::String => {
                if let Some(text) = Str::of(record) {
                    self.begin(3);
                    [b"SET", key].into_iter().for_each(|arg| self.arg(arg));
                    self.text(text.text(&mut Digits::new()));
                }
            }
            Type::List => {
                let mut all = Chunks::new(self, b"RPUSH", key);
                if let Some(list) = List::of(record) {
                    list.each_from(0, |element| {
                        all.add(&[&element.to_vec()]);
                        true
                    });
                }
                all.flush();
            }
            Type::Set => {
                let mut all = Chunks::new(self, b"SADD", key);
                if let Some(set) = Set::of(record) {
                    set.each(|member| all.add(&[&member.to_vec()]));
                }
                all.flush();
            }
            Type::Zset => {
                let mut all = Chunks::new(self, b"ZADD", key);
                if let Some(zset) = View::of(record) {
                    zset.for_each(|member, score| {
                        let score = weft_base::num_format::fmt_f64(score);
                        all.add(&[&score, &member.to_vec()]);
                    });
                }
                all.flush();
            }
            Type::Hash => self.hash(record),
            // No sequence of commands can restore a stream with its groups and pending entries. So
            // it is written as RESTORE with its payload.
            Type::Stream => self.payload(record),
        }
    }

    fn hash(&mut self, record: &Record) {
        let key = record.key();
        let Some(hash) = Hash::of(record, i64::MIN) else { return };
        let mut expiring = Vec::new();
        let mut all = Chunks::new(self, b"HMSET", key);
        hash.each(|pair| {
            let field = pair.field.to_vec();
            all.add(&[&field, &pair.value.to_vec()]);
            if let Some(at) = pair.expiry {
                expiring.push((field, at));
            }
            if expiring.len() == ELEMENTS {
                all.flush();
                all.script.expire_fields(key, &mut expiring);
            }
        });
        all.flush();
        self.expire_fields(key, &mut expiring);
    }

    /// Sets the expiries of existing fields.
    fn expire_fields(&mut self, key: &[u8], fields: &mut Vec<(Vec<u8>, i64)>) {
        for (field, at) in fields.drain(..) {
            let at = at.to_string();
            self.command(&[b"HPEXPIREAT", key, at.as_bytes(), b"FIELDS", b"1", &field]);
        }
    }

    fn payload(&mut self, record: &Record) {
        let mut payload = Vec::new();
        // This writes only to memory, so it can't fail.
        if let Ok(code) = encode(record, Form { version: VERSION, compress: true }, &mut payload) {
            seal(&mut payload, code);
            self.command(&[b"RESTORE", record.key(), b"0", &payload]);
        }
    }
}

/// Collects elements and writes a command for some of them at a time.
struct Chunks<'s, W> {
    script: &'s mut Script<W>,
    name: &'static [u8],
    key: &'s [u8],
    words: Vec<Vec<u8>>,
    elements: usize,
}

impl<'s, W: Write> Chunks<'s, W> {
    fn new(script: &'s mut Script<W>, name: &'static [u8], key: &'s [u8]) -> Self {
        Chunks { script, name, key, words: Vec::new(), elements: 0 }
    }

    fn add(&mut self, words: &[&Vec<u8>]) {
        self.words.extend(words.iter().map(|word| (*word).clone()));
        self.elements += 1;
        if self.elements == ELEMENTS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.elements > 0 {
            self.script.begin(2 + self.words.len());
            self.script.arg(self.name);
            self.script.arg(self.key);
            self.words.drain(..).for_each(|word| self.script.arg(&word));
            self.elements = 0;
        }
    }
}

/// The text of a disk error, for the log.
pub fn told(e: &io::Error) -> String {
    words(e)
}
