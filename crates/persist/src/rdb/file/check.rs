//! The operator's check of an RDB file: finds damage and prints its offset.
//!
//! Every value is decoded as if it were loaded, and dropped. The check reads versions that a server
//! refuses as far as it understands them. The lines are those of the reference's check, because
//! programs parse them.

use super::SUMMED_FROM;
use super::header::{Header, Magic, Refusal, VersionCheck};
use super::input::Input;
use super::item::{Head, Item, Items, Stage};
use super::load::Wrong;
use super::profile::Profile;
use crate::rdb::{Code, Dialect, Fault, Source, Target, decode_body};
use std::io::Read;
use weft_types::Limits;

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub is_right: bool,
    pub keys: u64,
    /// Keys with an expiry, and how many of them have expired.
    pub expiring: u64,
    pub expired: u64,
    pub functions: u64,
}

/// Receives the lines of a check. Any closure that takes lines implements it.
pub trait Report {
    /// The next line.
    fn line(&mut self, line: String);

    /// Whether to count keys by database and type, which visits each element.
    fn wants_profile(&self) -> bool {
        false
    }

    /// Takes the counts, if wanted: once, at the end or at the first damage.
    fn profile(&mut self, _profile: &Profile) {}
}

impl<F: FnMut(String)> Report for F {
    fn line(&mut self, line: String) {
        self(line);
    }
}

/// Reads a file to its end or to the first damage, and reports it line by line. `now_ms`: Unix
/// milliseconds, which decide whether keys have expired. O(bytes).
pub fn check<R: Read>(from: R, now_ms: i64, report: &mut dyn Report) -> Checked {
    check_front(from, now_ms, report).0
}

/// The same for a snapshot at the start of another file. Also returns the size of the snapshot and
/// the bytes read after it.
pub fn check_front<R: Read>(
    from: R,
    now_ms: i64,
    report: &mut dyn Report,
) -> (Checked, u64, Vec<u8>) {
    let limits = Limits::default();
    let profile = report.wants_profile().then(Profile::default);
    let mut state = State {
        input: Input::new(from),
        items: Items::new(Dialect::Common),
        code: None,
        found: Checked::default(),
        limits: &limits,
        now_ms,
        db: 0,
        profile,
    };
    let done = state.run(report);
    let at = state.input.offset();
    if let Err(wrong) = &done {
        let items = &state.items;
        report.line("--- RDB ERROR DETECTED ---".into());
        report.line(format!("[offset {at}] {}", words(wrong)));
        report.line(format!("[additional info] While doing: {}", items.stage.name()));
        if let Some(code) = state.code {
            let key = items.key.escape_ascii();
            report.line(format!("[additional info] Reading key '{key}'"));
            let (number, name) = (code as u8, name_of(code));
            report.line(format!("[additional info] Reading type {number} ({name})"));
        }
    }
    let mut found = state.found;
    found.is_right = done.is_ok();
    if !found.is_right {
        state.counts(report);
    }
    let code = i32::from(!found.is_right);
    report.line(format!("[offset {at}] Check RDB returned error code {code} (0 means success)"));
    if found.is_right {
        report.line(format!("[offset {at}] \\o/ RDB looks OK! \\o/"));
        state.counts(report);
    }
    (found, at, state.input.into_rest().0)
}

fn words(wrong: &Wrong) -> String {
    match wrong {
        Wrong::Refused(Refusal::Signature(_)) => {
            "Wrong signature trying to load DB from file".into()
        }
        wrong => wrong.to_string(),
    }
}

/// The state of a check.
struct State<'l, R> {
    input: Input<R>,
    items: Items,
    /// The type of the value being read.
    code: Option<Code>,
    found: Checked,
    limits: &'l Limits,
    now_ms: i64,
    /// The database of the following keys.
    db: usize,
    profile: Option<Profile>,
}

/// Number of databases with separate counts; higher numbers share one entry.
const MOST_DATABASES: u64 = 1 << 16;

impl<R: Read> State<'_, R> {
    /// Reports the counts at the end.
    fn counts(&self, report: &mut dyn Report) {
        let found = &self.found;
        report.line(format!("[info] {} keys read", found.keys));
        report.line(format!("[info] {} expires", found.expiring));
        report.line(format!("[info] {} already expired", found.expired));
        report.line(format!("[info] {} functions", found.functions));
        if let Some(profile) = &self.profile {
            report.profile(profile);
        }
    }

    fn run(&mut self, report: &mut dyn Report) -> Result<(), Wrong> {
        let bytes = self.input.array().map_err(Wrong::Value)?;
        let header = Header::parse(bytes).map_err(Wrong::Refused)?;
        let dialect = header.dialect(VersionCheck::Relaxed).map_err(Wrong::Refused)?;
        if header.is_unknown() {
            let whose = match header.magic {
                Magic::Redis => "Foreign",
                Magic::Valkey => "Future",
            };
            self.say(report, format!("{whose} RDB version {} detected", header.version));
        }
        self.items = Items::new(dialect);
        loop {
            match self.items.next(&mut self.input).map_err(Wrong::Value)? {
                Item::Aux { name, value } => {
                    let (name, value) = (name.escape_ascii(), value.escape_ascii());
                    self.say(report, format!("AUX FIELD {name} = '{value}'"));
                }
                Item::Database(db) => {
                    self.say(report, format!("Selecting DB ID {db}"));
                    self.choose(db);
                }
                Item::Function(_) => self.found.functions += 1,
                Item::Sizes(_) | Item::Cluster => {}
                Item::Key(head) => self.value(head).map_err(Wrong::Value)?,
                Item::End => return self.end(header, report),
            }
        }
    }

    fn say(&self, report: &mut dyn Report, what: String) {
        report.line(format!("[offset {}] {what}", self.input.offset()));
    }

    fn choose(&mut self, db: u64) {
        if let Some(profile) = &mut self.profile {
            // Bounds the number, because the profile allocates all databases below it.
            self.db = db.min(MOST_DATABASES) as usize;
            profile.choose(self.db);
        }
    }

    fn value(&mut self, head: Head) -> Result<(), Fault> {
        self.code = Some(head.code);
        let target = Target {
            key: &self.items.key,
            expiry: None,
            clock: 0,
            limits: self.limits,
            plain_most: usize::MAX,
        };
        match decode_body(head.code, &mut self.input, &target) {
            Ok(record) => {
                if let Some(profile) = &mut self.profile {
                    profile.add(self.db, &record, head.expiry, self.now_ms);
                }
            }
            // A server skips empty collections.
            Err(Fault::Empty) => {}
            Err(fault) => return Err(fault),
        }
        self.code = None;
        self.found.keys += 1;
        self.found.expiring += u64::from(head.expiry.is_some());
        self.found.expired += u64::from(head.expiry.is_some_and(|at| at < self.now_ms));
        Ok(())
    }

    fn end(&mut self, header: Header, report: &mut dyn Report) -> Result<(), Wrong> {
        self.items.stage = Stage::Sum;
        if header.version < SUMMED_FROM {
            return Ok(());
        }
        let found = self.input.end_sum();
        let expected = u64::from_le_bytes(self.input.array().map_err(Wrong::Value)?);
        match found {
            Some(found) if expected != 0 && found != expected => {
                return Err(Wrong::Sum { expected, found });
            }
            Some(_) if expected != 0 => self.say(report, "Checksum OK".into()),
            Some(_) | None => self.say(
                report,
                "RDB file was saved with checksum disabled: no check performed.".into(),
            ),
        }
        Ok(())
    }
}

/// The name of a type in the reference's check.
fn name_of(code: Code) -> &'static str {
    match code {
        Code::String => "string",
        Code::List => "list-linked",
        Code::Set => "set-hashtable",
        Code::ZsetText => "zset-v1",
        Code::Hash => "hash-hashtable",
        Code::Zset => "zset-v2",
        Code::HashZipmap => "hash-zipmap",
        Code::ListZiplist => "list-ziplist",
        Code::SetInts => "set-intset",
        Code::ZsetZiplist => "zset-ziplist",
        Code::HashZiplist => "hash-ziplist",
        Code::Quicklist => "quicklist",
        Code::Stream => "stream",
        Code::HashListpack => "hash-listpack",
        Code::ZsetListpack => "zset-listpack",
        Code::Quicklist2 => "quicklist-v2",
        Code::Stream2 => "stream-v2",
        Code::SetListpack => "set-listpack",
        Code::Stream3 => "stream-v3",
        Code::HashExpiring => "hash-volatile-items",
        Code::HashMetadata => "hash-metadata",
        Code::HashListpackEx => "hash-listpack-ex",
    }
}
