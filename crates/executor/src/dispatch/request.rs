//! A request, and its state during execution.

use crate::dispatch::core::Core;
use weft_commands::Lane;
use weft_keyspace::Key;
use weft_resp::reply::Mark;
use weft_resp::{Blob, Reply};
use weft_state::attempt::{Attempt, FIRST};
use weft_state::command_table::Cmd;
use weft_state::session::Session;

/// A request, ready to be executed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub cmd: Option<&'static Cmd>,
    pub args: &'a [&'a [u8]],
    pub blobs: &'a [(usize, Blob)],
    /// Upper bound of its bytes on the wire. The exact count costs as much as a key lookup.
    pub bytes_at_most: usize,
    /// The first key, if the planner has hashed one.
    pub key: Option<Key<'a>>,
    pub attempt: &'a Attempt,
}

impl<'a> Request<'a> {
    /// A request with these arguments that has never been executed.
    pub fn new(
        cmd: Option<&'static Cmd>,
        args: &'a [&'a [u8]],
        blobs: &'a [(usize, Blob)],
    ) -> Self {
        let bytes_at_most = usize::MAX;
        Request { cmd, args, blobs, bytes_at_most, key: None, attempt: &FIRST }
    }

    /// Its bytes on the wire, as an array of bulk strings, even if it came inline. O(arguments).
    pub fn bytes(&self) -> usize {
        let number = |n: usize| "*\r\n".len() + n.checked_ilog10().unwrap_or(0) as usize + 1;
        let arg = |arg: &&[u8]| number(arg.len()) + arg.len() + "\r\n".len();
        let all = number(self.args.len()) + self.args.iter().map(arg).sum::<usize>();
        all.min(self.bytes_at_most)
    }
}

/// A request of a known command during its execution, passed from stage to stage.
pub struct Task<'a> {
    pub core: &'a mut Core,
    pub session: &'a mut Session,
    pub request: &'a Request<'a>,
    pub cmd: &'static Cmd,
    pub reply: &'a mut Reply,
    /// The beginning of its reply.
    pub mark: Mark,
    pub lane: Lane,
}
