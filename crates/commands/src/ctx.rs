//! What a command's function gets to work with.

use crate::error::{Error, NOT_AN_INTEGER};
use weft_base::num;
use weft_keyspace::{Db, Key};
use weft_resp::Reply;
use weft_types::string::{Blob, New};

/// The configuration that commands look at; a copy that each thread renews when it changes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `proto-max-bulk-len` in bytes: no string grows beyond it.
    pub max_string: usize,
    /// `lazyfree-lazy-user-del`: DEL frees like UNLINK.
    pub lazy_user_del: bool,
    /// `lazyfree-lazy-user-flush`: FLUSHALL and FLUSHDB without a word mean ASYNC.
    pub lazy_user_flush: bool,
    /// Whether `maxmemory-policy` is one of LFU's: OBJECT FREQ and IDLETIME ask.
    pub lfu: bool,
}

/// One execution of one command.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// Name and arguments.
    pub args: &'a [&'a [u8]],
    /// The client's database; its guard holds what the command's spec asks for.
    pub db: Db<'a>,
    pub reply: &'a mut Reply,
    pub settings: &'a Settings,
    /// Large arguments, by position, in memory of their own: see [`Ctx::value`].
    pub blobs: &'a [(usize, Blob)],
    /// The key at argument 1, when the plan has already hashed it.
    pub first_key: Option<Key<'a>>,
}

impl<'a> Ctx<'a> {
    /// The key at argument `i`.
    #[inline]
    pub fn key(&self, i: usize) -> Key<'a> {
        match self.first_key {
            Some(key) if i == 1 => key,
            _ => self.db.key(self.args[i]),
        }
    }

    /// The argument `i` as a value to be stored: a large one stays where it was read to.
    #[inline]
    pub fn value(&self, i: usize) -> New<'a> {
        match self.blobs.iter().find(|(at, _)| *at == i) {
            Some((_, blob)) => New::Blob(blob.clone()),
            None => New::Bytes(self.args[i]),
        }
    }

    /// The argument `i` as an integer.
    pub fn int(&self, i: usize) -> Result<i64, Error> {
        num::parse_i64(self.args[i]).ok_or(NOT_AN_INTEGER)
    }

    /// Whether argument `i` is `word`, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.args[i].eq_ignore_ascii_case(word.as_bytes())
    }

    /// Counts one change of the keyspace.
    #[inline]
    pub fn dirty(&mut self) {
        self.db.turn.tally.dirty += 1;
    }

    /// Unix time of this command in milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.db.turn.now_ms
    }
}
