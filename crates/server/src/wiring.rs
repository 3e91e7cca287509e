//! Puts the parts of a server together.

use crate::server::Server;
use crate::{commands, notify, tracking};
use weft_config::Config;

/// A server without threads, whose keyspace reports changes to subscribers and to clients that cache. It lives as
/// long as the process. `called`: how the program was started.
pub fn server(config: Config, called: String) -> &'static Server {
    let (table, functions) = commands::table();
    let srv = Server::new(config, called, table, Box::new(functions));
    srv.ks.listen(Box::new(move |wanted, notices| notify::tell(srv, wanted, notices)));
    srv.ks.tell_caches(Box::new(tracking::Told(srv)));
    srv
}
