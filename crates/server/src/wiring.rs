//! Puts the parts of a server together.

use crate::aof::Aof;
use crate::replication::Hub;
use crate::replication_status::ReplicationStatus;
use crate::server::{Parts, Server};
use crate::{commands, notify, tracking};
use std::sync::Arc;
use weft_config::Config;

/// A server without threads, whose keyspace reports changes to subscribers and to clients that cache. It lives as
/// long as the process. `called`: how the program was started.
pub fn server(config: Config, called: String) -> &'static Server {
    let (table, functions) = commands::table();
    let replication = Arc::<ReplicationStatus>::default();
    let parts = Parts {
        functions: Box::new(functions),
        journal: Box::new(Aof::new(commands::stay_off)),
        replication: replication.clone(),
        replicator: Box::new(Hub::new(replication)),
    };
    let srv = Server::new(config, called, table, parts);
    srv.ks.listen(Box::new(move |wanted, notices| notify::tell(srv, wanted, notices)));
    srv.ks.tell_caches(Box::new(tracking::Told(srv)));
    srv
}
