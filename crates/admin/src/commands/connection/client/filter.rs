//! The client filters of CLIENT LIST and CLIENT KILL.
//!
//! Every filter except IDLE, MAXAGE and SKIPME also exists with the prefix NOT-. So there are two
//! sets of [`Traits`]: those that a client must have and those that it must not have. An option
//! that is repeated replaces its first value, except ID, which collects.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use weft_base::num::parse_i64;
use weft_commands::{Error, error};
use weft_state::client_line::{capabilities, flags};
use weft_state::clients::{ClientShared, Names};
use weft_state::server::Server;

/// All letters that the field `flags` has in the reference.
const FLAG_LETTERS: &[u8] = b"bcdeirtuxABEIMNOPRSTU";
const CAPA_LETTERS: &[u8] = b"r";

/// The kind of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Normal,
    Primary,
    Replica,
    Pubsub,
}

impl Kind {
    fn by_name(name: &[u8]) -> Option<Kind> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(Kind::Normal),
            b"primary" | b"master" => Some(Kind::Primary),
            b"replica" | b"slave" => Some(Kind::Replica),
            b"pubsub" => Some(Kind::Pubsub),
            _ => None,
        }
    }

    /// A client in MONITOR counts as a normal client.
    fn of(client: &ClientShared) -> Kind {
        match client.is_subscriber() {
            _ if client.origin.is_primary => Kind::Primary,
            _ if client.replica.is_replica.load(Ordering::Relaxed) => Kind::Replica,
            true => Kind::Pubsub,
            false => Kind::Normal,
        }
    }
}

/// Properties that select clients; `None` matches every client.
#[derive(Clone, Debug, Default)]
struct Traits<'a> {
    ids: Option<BTreeSet<u64>>,
    kind: Option<Kind>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    ip: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    lib_name: Option<&'a [u8]>,
    lib_version: Option<&'a [u8]>,
    flags: Option<&'a [u8]>,
    capa: Option<&'a [u8]>,
    db: Option<u32>,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Filter<'a> {
    must: Traits<'a>,
    must_not: Traits<'a>,
    /// Seconds.
    min_age: i64,
    /// Seconds.
    min_idle: i64,
    skip_me: bool,
}

impl<'a> Filter<'a> {
    /// Parses `args`, which are pairs of options and values.
    pub fn parse(args: &[&'a [u8]], srv: &Server, skip_me: bool) -> Result<Self, Error> {
        let mut filter = Filter {
            must: Traits::default(),
            must_not: Traits::default(),
            min_age: 0,
            min_idle: 0,
            skip_me,
        };
        if args.len() == 1 {
            return Err(error::SYNTAX);
        }
        let mut rest = args;
        while let [option, values @ ..] = rest {
            let consumed = filter.parse_option(option, values, srv)?;
            rest = &values[consumed..];
        }
        Ok(filter)
    }

    /// Parses one option and returns the number of its values.
    fn parse_option(
        &mut self,
        option: &[u8],
        values: &[&'a [u8]],
        srv: &Server,
    ) -> Result<usize, Error> {
        let option = option.to_ascii_lowercase();
        match option.as_slice() {
            b"maxage" => self.min_age = positive(first(values)?, "maxage")?,
            b"idle" => self.min_idle = positive(first(values)?, "idle")?,
            b"skipme" => {
                self.skip_me = match first(values)?.to_ascii_lowercase().as_slice() {
                    b"yes" => true,
                    b"no" => false,
                    _ => return Err(error::SYNTAX),
                };
            }
            other => {
                return match other.strip_prefix(b"not-") {
                    Some(option) => self.must_not.parse(option, values, srv, true),
                    None => self.must.parse(other, values, srv, false),
                };
            }
        }
        Ok(1)
    }

    /// Whether the filter selects `client`; `me` is the calling client.
    pub fn fits(&self, client: &ClientShared, me: u64, now_ms: i64) -> bool {
        !(self.skip_me && client.id == me)
            && (self.min_age == 0 || (now_ms - client.origin.created_ms) / 1000 >= self.min_age)
            && (self.min_idle == 0 || client.idle_seconds(now_ms) >= self.min_idle)
            && self.must.verdicts(client).all(|has| has)
            && !self.must_not.verdicts(client).any(|has| has)
    }
}

impl<'a> Traits<'a> {
    /// Parses one option and returns the number of its values. `not`: the option had the prefix
    /// NOT-, which some error messages include.
    fn parse(
        &mut self,
        option: &[u8],
        values: &[&'a [u8]],
        srv: &Server,
        not: bool,
    ) -> Result<usize, Error> {
        if option == b"id" {
            return self.parse_ids(values);
        }
        let value = first(values)?;
        match option {
            b"type" => match Kind::by_name(value) {
                Some(kind) => self.kind = Some(kind),
                None => return Err(quoted("ERR Unknown client type '", value)),
            },
            b"user" if srv.access.users().get(value).is_some() => self.user = Some(value),
            b"user" => return Err(quoted("ERR No such user '", value)),
            b"addr" => self.addr = Some(value),
            b"laddr" => self.laddr = Some(value),
            b"ip" => self.ip = Some(value),
            b"name" => self.name = Some(value),
            b"lib-name" => self.lib_name = Some(value),
            b"lib-ver" => self.lib_version = Some(value),
            b"flags" => self.flags = Some(letters(value, FLAG_LETTERS, "flags", "FLAGS", not)?),
            b"capa" => self.capa = Some(letters(value, CAPA_LETTERS, "capa", "CAPA", not)?),
            b"db" => self.db = Some(database(value, srv, if not { "NOT-DB" } else { "DB" })?),
            _ => return Err(error::SYNTAX),
        }
        Ok(1)
    }

    /// Parses as many numbers as follow, possibly zero. The first word that is not a number is the
    /// next option.
    fn parse_ids(&mut self, values: &[&'a [u8]]) -> Result<usize, Error> {
        let ids = self.ids.get_or_insert_default();
        let mut consumed = 0;
        while let Some(id) = values.get(consumed).and_then(|v| parse_i64(v)) {
            if id < 1 {
                return Err(Error::new("ERR client-id should be greater than 0"));
            }
            ids.insert(id as u64);
            consumed += 1;
        }
        Ok(consumed)
    }

    /// For each property that is set, whether `client` has it.
    fn verdicts(&self, client: &ClientShared) -> impl Iterator<Item = bool> {
        client.with_names(|names| self.verdicts_with(client, names))
    }

    fn verdicts_with(
        &self,
        client: &ClientShared,
        names: &Names,
    ) -> impl Iterator<Item = bool> + use<> {
        let is = |wanted: Option<&[u8]>, has: &[u8]| wanted.map(|w| w == has);
        // A client without a name matches no name, not even the empty one.
        let named = |wanted: Option<&[u8]>, has: &[u8]| wanted.map(|w| !has.is_empty() && w == has);
        let all_in = |wanted: Option<&[u8]>, has: &str| {
            wanted.map(|w| w.iter().all(|c| has.as_bytes().contains(c)))
        };
        let ip =
            client.origin.peer.rsplit_once(':').map_or(client.origin.peer.as_str(), |(ip, _)| ip);
        let ip = ip.trim_start_matches('[').trim_end_matches(']');
        [
            self.ids.as_ref().map(|ids| ids.contains(&client.id)),
            self.kind.map(|k| k == Kind::of(client)),
            is(self.addr, client.origin.peer.as_bytes()),
            is(self.laddr, client.origin.local.as_bytes()),
            is(self.ip, ip.as_bytes()),
            // The connection to our primary has no user.
            self.user.map(|user| names.user.as_ref().is_some_and(|own| *own.name == *user)),
            named(self.name, &names.name),
            named(self.lib_name, &names.lib_name),
            named(self.lib_version, &names.lib_version),
            all_in(self.flags, &flags(client)),
            all_in(self.capa, capabilities(client)),
            self.db.map(|db| db == client.activity.db.load(Ordering::Relaxed)),
        ]
        .into_iter()
        .flatten()
    }
}

fn first<'a>(values: &[&'a [u8]]) -> Result<&'a [u8], Error> {
    values.first().copied().ok_or(error::SYNTAX)
}

fn quoted(start: &str, value: &[u8]) -> Error {
    Error::owned([start.as_bytes(), value, b"'"].concat())
}

/// Parses a number of seconds above zero.
fn positive(value: &[u8], what: &str) -> Result<i64, Error> {
    let n = parse_i64(value)
        .ok_or_else(|| Error::owned(format!("ERR {what} is not an integer or out of range")))?;
    match n {
        1.. => Ok(n),
        _ => Err(Error::owned(format!("ERR {what} should be greater than 0"))),
    }
}

/// Parses the index of an existing database.
fn database(value: &[u8], srv: &Server, what: &str) -> Result<u32, Error> {
    // The reference reads a C int.
    let n = parse_i64(value)
        .filter(|n| i32::try_from(*n).is_ok())
        .ok_or_else(|| Error::owned(format!("ERR {what} is not an integer or out of range")))?;
    let last = srv.ks.databases() as i64 - 1;
    match u32::try_from(n) {
        Ok(db) if n <= last => Ok(db),
        _ => Err(Error::owned(format!("ERR {what} number should be between 0 and {last}"))),
    }
}

/// Checks that the word has only `known` letters.
fn letters<'a>(
    value: &'a [u8],
    known: &[u8],
    what: &str,
    option: &str,
    not: bool,
) -> Result<&'a [u8], Error> {
    if value.iter().all(|c| known.contains(c)) {
        return Ok(value);
    }
    let place = if not { format!("NOT-{option}") } else { "provided".into() };
    let start = format!("ERR Unknown {what} found in the {place} filter: ");
    Err(Error::owned([start.as_bytes(), value].concat()))
}
