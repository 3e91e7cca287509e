//! The configuration of one server: a value for every directive.
//!
//! Values are in a vector in the order of the table, so that reading one is an index and a match.
//! Still, code that runs for every command should keep a copy of the values it needs and refresh it
//! after `CONFIG SET`.
//!
//! Accessors are typed: `cfg.int(Id::TIMEOUT)`. Asking a directive for a type
//! that it does not have is a mistake in the program and panics; the table is
//! fixed, so any test that reaches the line finds it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use crate::directive::{Directive, Flags, Id, Status};
use crate::files::{Disk, Files};
use crate::glob;
use crate::kind::{Kind, Reason};
use crate::table::{self, NAMES, TABLE};
use crate::tokens;
use crate::value::{KeyspaceEvents, OutputBufferLimits, Primary, SavePoint, Statement, Value};

/// A value for every directive, and where they came from.
#[derive(Clone)]
pub struct Config {
    pub(crate) values: Vec<Value>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) files: Arc<dyn Files>,
    /// The arguments of the lines `user` that REWRITE writes. `None`: the lines of the file stay.
    pub(crate) user_lines: Option<Vec<Vec<u8>>>,
}

/// The default of every directive. `dir` is not resolved yet.
pub(crate) static DEFAULTS: LazyLock<Vec<Value>> =
    LazyLock::new(|| TABLE.iter().map(|directive| default_of(directive)).collect());

fn default_of(directive: &Directive) -> Value {
    if let Kind::Statement { .. } = directive.kind {
        return Value::Statements(Vec::new());
    }
    let words = tokens::split(directive.default.as_bytes()).unwrap_or_default();
    match directive.kind.parse(&words, &Value::Auto) {
        Ok(value) => value,
        Err(reason) => panic!("default of {}: {reason}", directive.name),
    }
}

impl Default for Config {
    /// Every directive at its default, no file, the working directory of the
    /// process as `dir`.
    fn default() -> Config {
        Config::with_files(Arc::new(Disk))
    }
}

impl Config {
    /// Every directive at its default; files are reached through `files`.
    pub fn with_files(files: Arc<dyn Files>) -> Config {
        let mut config = Config { values: DEFAULTS.clone(), file: None, files, user_lines: None };
        let here = config.files.directory(Path::new("."));
        config.values[Id::DIR.index()] = Value::Text(path_bytes(&here.unwrap_or_default()));
        config
    }

    /// Sets the arguments of the lines `user` that REWRITE writes. `None`: the lines of the file stay.
    pub fn set_user_lines(&mut self, lines: Option<Vec<Vec<u8>>>) {
        self.user_lines = lines;
    }

    /// The file that was loaded, as an absolute path.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The value of a directive.
    pub fn value(&self, id: Id) -> &Value {
        &self.values[id.index()]
    }

    /// Whether a directive has its default value.
    pub fn is_default(&self, id: Id) -> bool {
        self.values[id.index()] == DEFAULTS[id.index()]
    }

    /// A `yes` or `no`.
    ///
    /// # Panics
    /// As every accessor, when the directive is of another kind.
    pub fn bool(&self, id: Id) -> bool {
        match self.value(id) {
            Value::Bool(on) => *on,
            other => wrong_kind(id, other, "a yes or no"),
        }
    }

    /// A number.
    pub fn int(&self, id: Id) -> i64 {
        match self.value(id) {
            Value::Int(number) => *number,
            other => wrong_kind(id, other, "a number"),
        }
    }

    /// A number, or `None` for `auto`.
    pub fn int_or_auto(&self, id: Id) -> Option<i64> {
        match self.value(id) {
            Value::Int(number) => Some(*number),
            Value::Auto => None,
            other => wrong_kind(id, other, "a number or auto"),
        }
    }

    /// An amount of memory in bytes.
    pub fn memory(&self, id: Id) -> u64 {
        match self.value(id) {
            Value::Bytes(bytes) => *bytes,
            other => wrong_kind(id, other, "an amount of memory"),
        }
    }

    /// `maxmemory-clients` in bytes, a percentage taken of `maxmemory`. 0 means
    /// that there is no limit.
    pub fn maxmemory_clients(&self) -> u64 {
        match self.value(Id::MAXMEMORY_CLIENTS) {
            Value::Bytes(bytes) => *bytes,
            Value::Percent(share) => {
                let part = u128::from(self.memory(Id::MAXMEMORY)) * u128::from(*share) / 100;
                u64::try_from(part).unwrap_or(u64::MAX)
            }
            other => wrong_kind(Id::MAXMEMORY_CLIENTS, other, "memory or a share"),
        }
    }

    /// A string as bytes; empty when unset.
    pub fn bytes(&self, id: Id) -> &[u8] {
        match self.value(id) {
            Value::Text(text) => text,
            other => wrong_kind(id, other, "a string"),
        }
    }

    /// A string; bytes that are not UTF-8 are replaced.
    pub fn str(&self, id: Id) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes(id))
    }

    /// A path; `None` when it is empty. Relative paths start at `dir`.
    pub fn path(&self, id: Id) -> Option<PathBuf> {
        let text = self.bytes(id);
        (!text.is_empty()).then(|| self.absolute(text))
    }

    /// The word of a directive that takes one of several.
    pub fn word(&self, id: Id) -> &'static str {
        match self.value(id) {
            Value::Word(place) => id.directive().kind.word(*place),
            other => wrong_kind(id, other, "a word"),
        }
    }

    /// Whether `word` is among the words of a directive that takes several.
    pub fn has_word(&self, id: Id, word: &str) -> bool {
        match self.value(id) {
            Value::Words(set) => {
                (0..32).any(|bit| set & 1 << bit != 0 && id.directive().kind.word(bit) == word)
            }
            other => wrong_kind(id, other, "words"),
        }
    }

    /// A list of strings.
    pub fn list(&self, id: Id) -> &[Vec<u8>] {
        match self.value(id) {
            Value::List(items) => items,
            other => wrong_kind(id, other, "a list"),
        }
    }

    /// The arguments of every line that has this statement, in order.
    pub fn statements(&self, id: Id) -> &[Statement] {
        match self.value(id) {
            Value::Statements(statements) => statements,
            other => wrong_kind(id, other, "a statement"),
        }
    }

    /// `save`.
    pub fn save_points(&self) -> &[SavePoint] {
        match self.value(Id::SAVE) {
            Value::SavePoints(points) => points,
            other => wrong_kind(Id::SAVE, other, "save points"),
        }
    }

    /// `client-output-buffer-limit`.
    pub fn client_output_buffer_limits(&self) -> OutputBufferLimits {
        match self.value(Id::CLIENT_OUTPUT_BUFFER_LIMIT) {
            Value::OutputBufferLimits(limits) => *limits,
            other => wrong_kind(Id::CLIENT_OUTPUT_BUFFER_LIMIT, other, "limits"),
        }
    }

    /// `oom-score-adj-values`: of a primary, of a replica, of a child.
    pub fn oom_score_adj_values(&self) -> [i32; 3] {
        match self.value(Id::OOM_SCORE_ADJ_VALUES) {
            Value::OomScores(scores) => *scores,
            other => wrong_kind(Id::OOM_SCORE_ADJ_VALUES, other, "scores"),
        }
    }

    /// `notify-keyspace-events`.
    pub fn keyspace_events(&self) -> KeyspaceEvents {
        match self.value(Id::NOTIFY_KEYSPACE_EVENTS) {
            Value::KeyspaceEvents(events) => *events,
            other => wrong_kind(Id::NOTIFY_KEYSPACE_EVENTS, other, "events"),
        }
    }

    /// `latency-tracking-info-percentiles`, each from 0 to 100.
    pub fn latency_percentiles(&self) -> &[f64] {
        match self.value(Id::LATENCY_TRACKING_INFO_PERCENTILES) {
            Value::Percentiles(list) => list,
            other => wrong_kind(Id::LATENCY_TRACKING_INFO_PERCENTILES, other, "percentiles"),
        }
    }

    /// `replicaof`.
    pub fn primary(&self) -> Option<&Primary> {
        match self.value(Id::REPLICAOF) {
            Value::Primary(primary) => primary.as_ref(),
            other => wrong_kind(Id::REPLICAOF, other, "a primary"),
        }
    }

    /// Sets `replicaof`, whether a client or the server has changed the primary.
    pub fn set_primary(&mut self, primary: Option<Primary>) {
        self.values[Id::REPLICAOF.index()] = Value::Primary(primary);
    }

    /// Directives that are set and have no effect in this version, for a warning at start.
    pub fn ineffective(&self) -> Vec<(Id, &'static str)> {
        let without_effect = |id: Id| match id.directive().status {
            Status::Effective => None,
            Status::NotYet(reason) | Status::Obsolete(reason) => Some((id, reason)),
        };
        let set = Id::all().filter(|id| !self.is_default(*id));
        set.filter_map(without_effect).collect()
    }

    /// `CONFIG GET`: names and values that one of `patterns` matches, sorted by
    /// name, each once.
    ///
    /// A pattern without `*`, `?` and `[` is a name; it finds hidden directives
    /// too and is answered as the client spelled it.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        self.answers(Config::find(patterns))
    }

    /// The reply of [`Config::get`] for directives that were found.
    pub fn answers(&self, found: Vec<(String, Id)>) -> Vec<(String, Vec<u8>)> {
        found.into_iter().map(|(spelling, id)| (spelling, self.answer(id))).collect()
    }

    /// The directives of these names and patterns, each with the spelling to answer, in the order
    /// of those: see [`Config::get`]. O(patterns * directives).
    pub fn find(patterns: &[&[u8]]) -> Vec<(String, Id)> {
        // By name in lower case, with the spelling to answer.
        let mut found: BTreeMap<String, (String, Id)> = BTreeMap::new();
        for pattern in patterns {
            if glob::is_pattern(pattern) {
                let visible = NAMES.values().filter(|name| answers_patterns(name.id));
                for name in visible.filter(|n| glob::matches(pattern, n.spelling.as_bytes(), true))
                {
                    let spelling = name.spelling.to_string();
                    found.entry(spelling.clone()).or_insert((spelling, name.id));
                }
            } else if let Some(name) = table::lookup(pattern)
                && !matches!(name.id.directive().kind, Kind::Statement { .. })
            {
                let asked = String::from_utf8_lossy(pattern).into_owned();
                found.entry(name.spelling.to_string()).or_insert((asked, name.id));
            }
        }
        let mut found: Vec<(String, Id)> = found.into_values().collect();
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found
    }

    /// The text that `CONFIG GET` answers for one directive.
    pub fn answer(&self, id: Id) -> Vec<u8> {
        id.directive().kind.answer(self.value(id))
    }

    /// Sets a directive from its arguments, without a check of permissions.
    ///
    /// # Errors
    /// Why the arguments are not a value; nothing has changed then.
    pub(crate) fn assign(&mut self, id: Id, arguments: &[Vec<u8>]) -> Result<(), Reason> {
        let directive = id.directive();
        let mut value = directive.kind.parse(arguments, self.value(id))?;
        if let (Kind::Directory, Value::Text(path)) = (&directive.kind, &mut value) {
            let found = self.files.directory(&self.absolute(path));
            *path = path_bytes(&found.map_err(|error| explain(&error))?);
        }
        self.values[id.index()] = value;
        Ok(())
    }

    /// `path`, starting at `dir` when it is relative.
    pub(crate) fn absolute(&self, path: &[u8]) -> PathBuf {
        to_path(self.bytes(Id::DIR)).join(to_path(path))
    }
}

impl fmt::Debug for Config {
    /// The file, and the directives that are not at their defaults; secrets
    /// are left out.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = Id::all().filter(|id| !self.is_default(*id));
        let mut out = out.debug_struct("Config");
        out.field("file", &self.file);
        for id in changed {
            if id.directive().flags.contains(Flags::SENSITIVE) {
                out.field(id.name(), &"(secret)");
            } else {
                out.field(id.name(), &String::from_utf8_lossy(&self.answer(id)));
            }
        }
        out.finish()
    }
}

fn answers_patterns(id: Id) -> bool {
    let directive = id.directive();
    let statement = matches!(directive.kind, Kind::Statement { .. });
    !statement && !directive.flags.contains(Flags::HIDDEN)
}

/// The system's words for an error, without the number that the standard
/// library adds.
pub(crate) fn explain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

pub(crate) fn path_bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

pub(crate) fn to_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cold]
fn wrong_kind(id: Id, value: &Value, wanted: &str) -> ! {
    panic!("{} is {value:?}, not {wanted}", id.name())
}
