//! Replicas of ours: their connections, and the snapshots that they get.

use super::State;
use crate::server::Server;
use weft_replication::action::{ConnId, Form, SnapshotId, Target};

/// Sends `bytes`, in front of what a later action sends.
pub fn reply(_srv: &'static Server, _state: &mut State, _conn: ConnId, _bytes: Vec<u8>) {
    todo!()
}

pub fn take_snapshot(
    _srv: &'static Server,
    _state: &mut State,
    _snapshot: SnapshotId,
    _target: Target,
    _form: Form,
) {
    todo!()
}

pub fn abandon_snapshot(_srv: &'static Server, _state: &mut State, _snapshot: SnapshotId) {
    todo!()
}

pub fn send_bulk(
    _srv: &'static Server,
    _state: &mut State,
    _conn: ConnId,
    _snapshot: SnapshotId,
    _head: Vec<u8>,
    _mark: Option<[u8; 40]>,
) {
    todo!()
}

pub fn send_stream(_srv: &'static Server, _state: &mut State, _conn: ConnId, _from: u64) {
    todo!()
}

pub fn close(_srv: &'static Server, _state: &mut State, _conn: ConnId, _flush: bool) {
    todo!()
}

/// Those who wait for replicas look again.
pub fn confirmed(_srv: &'static Server, _state: &mut State) {
    todo!()
}

/// Tells the threads of replicas that the stream has grown.
pub fn spread(_srv: &'static Server, _state: &State) {}
