//! `CONFIG SET`: several directives at once, all or nothing.
//!
//! Three steps. Every name is checked (known, changeable now, not twice), then every value is
//! parsed and put in place, then the server applies the changes: opens a port, resizes a table. If
//! a step fails, every value is restored, and the server applies the old ones again.

use crate::config::Config;
use crate::directive::{Flags, Id};
use crate::kind::Kind;
use crate::table::{self, Name};

/// The permissions of the client that sends `CONFIG SET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Whether protected directives may be changed: `enable-protected-configs`
    /// is `yes`, or `local` and the client is on this machine.
    pub protected: bool,
    /// Whether a data set is being loaded.
    pub loading: bool,
}

/// Why `CONFIG SET` changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// A directive cannot be changed while loading: the answer is the usual
    /// LOADING error.
    Loading,
    /// The whole error reply, with its code and without line ends.
    Refused(String),
}

/// Applies new values: called with the configuration that holds them and the
/// directives that changed. An error names the directive it belongs to.
pub type Apply<'a> = dyn FnMut(&mut Config, &[Id]) -> Result<(), (Id, String)> + 'a;

impl Config {
    /// Sets directives, given as names and values, and has them applied.
    ///
    /// `apply` is called once, and only if something changed; after it failed
    /// it is called again with the old values, and what it returns then is
    /// ignored. It may adjust the configuration further.
    ///
    /// # Errors
    /// The reply for the client; nothing has changed then.
    pub fn set(
        &mut self,
        pairs: &[(&[u8], &[u8])],
        permit: Permit,
        apply: &mut Apply<'_>,
    ) -> Result<(), SetError> {
        let names = check_names(pairs, permit)?;
        let before = self.values.clone();
        for (name, (_, value)) in names.iter().zip(pairs) {
            if let Err(reason) = self.assign(name.id, &arguments(name.id, value)) {
                self.values = before;
                return Err(failed(name.spelling.as_bytes(), &reason));
            }
        }
        // In the order given: of several that fail the first is named.
        let mut changed: Vec<Id> = Vec::with_capacity(names.len());
        for name in &names {
            if !changed.contains(&name.id) {
                changed.push(name.id);
            }
        }
        changed.retain(|id| {
            let volatile = id.directive().flags.contains(Flags::VOLATILE);
            volatile || self.values[id.index()] != before[id.index()]
        });
        if changed.is_empty() {
            return Ok(());
        }
        apply(self, &changed).map_err(|(id, reason)| {
            self.values = before;
            let _ = apply(self, &changed);
            let name = names.iter().find(|name| name.id == id);
            failed(name.map_or(id.name(), |name| name.spelling).as_bytes(), &reason)
        })
    }

    /// Takes a change back that turned out to be impossible after [`Config::set`] had succeeded:
    /// the directives `changed` get their old values, unless another client has set them since, and
    /// are applied again.
    /// `before` and `after` are the configurations around that change. Returns the error for the
    /// client, with the directive and the reason.
    pub fn take_back(
        &mut self,
        (before, after): (&Config, &Config),
        changed: &[Id],
        apply: &mut Apply<'_>,
        because: (Id, &str),
    ) -> SetError {
        let mut taken = Vec::new();
        for id in changed {
            if self.values[id.index()] == after.values[id.index()] {
                self.values[id.index()] = before.values[id.index()].clone();
                taken.push(*id);
            }
        }
        if !taken.is_empty() {
            let _ = apply(self, &taken);
        }
        failed(because.0.name().as_bytes(), because.1)
    }
}

/// The directives named, if all of them can be set.
fn check_names(pairs: &[(&[u8], &[u8])], permit: Permit) -> Result<Vec<Name>, SetError> {
    let mut names: Vec<Name> = Vec::with_capacity(pairs.len());
    for (spelled, _) in pairs {
        let found = table::lookup(spelled);
        let Some(name) = found.filter(|name| !is_statement(name.id)) else {
            return Err(SetError::Refused(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                printable(spelled)
            )));
        };
        let flags = name.id.directive().flags;
        if flags.contains(Flags::IMMUTABLE) {
            return Err(failed(spelled, "can't set immutable config"));
        }
        if flags.contains(Flags::PROTECTED) && !permit.protected {
            return Err(failed(spelled, "can't set protected config"));
        }
        if flags.contains(Flags::DENY_LOADING) && permit.loading {
            return Err(SetError::Loading);
        }
        if names.iter().any(|earlier| earlier.spelling == name.spelling) {
            return Err(failed(spelled, "duplicate parameter"));
        }
        names.push(name);
    }
    Ok(names)
}

fn is_statement(id: Id) -> bool {
    matches!(id.directive().kind, Kind::Statement { .. })
}

/// The value of a directive that takes several arguments is split at spaces,
/// without quoting.
fn arguments(id: Id, value: &[u8]) -> Vec<Vec<u8>> {
    if id.directive().flags.contains(Flags::MULTI) {
        value.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect()
    } else {
        vec![value.to_vec()]
    }
}

fn failed(name: &[u8], reason: &str) -> SetError {
    let name = printable(name);
    SetError::Refused(format!(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"
    ))
}

/// A name in the form of an error reply, which is one line and, for the reference, ends names at a
/// NUL.
fn printable(name: &[u8]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).replace(['\r', '\n'], " ")
}
