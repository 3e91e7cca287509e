//! Our primary: the link to it, the copy of its data, and its stream.

use super::State;
use crate::server::Server;
use weft_keyspace::Guard;
use weft_replication::Action;
use weft_replication::action::LinkId;

pub fn connect(
    _srv: &'static Server,
    _state: &mut State,
    _link: LinkId,
    _host: String,
    _port: u16,
) {
    todo!()
}

pub fn disconnect(_srv: &'static Server, _state: &mut State, _link: LinkId) {
    todo!()
}

/// What the thread of the link has to do.
pub fn order(
    _srv: &'static Server,
    _state: &mut State,
    _guard: Option<&Guard<'_>>,
    _action: Action,
) {
    todo!()
}
