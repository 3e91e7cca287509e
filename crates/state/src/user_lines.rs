//! The lines `user` of a configuration file that CONFIG REWRITE writes.

use crate::server::Server;
use weft_acl::{Policy, Users};
use weft_config::{Config, Id};

/// The arguments of the lines that define the present users. `None`: the ACL file does, so the file needs no lines.
///
/// A line is left out if it only repeats `requirepass`.
pub fn user_lines(srv: &Server, config: &Config) -> Option<Vec<Vec<u8>>> {
    if !config.bytes(Id::ACLFILE).is_empty() {
        return None;
    }
    let policy = Policy { catalog: &srv.access.catalog, channels: srv.settings().auth.channels };
    let password = Some(config.bytes(Id::REQUIREPASS)).filter(|password| !password.is_empty());
    let usual = Users::new(policy).with_default_password(password);
    let users = srv.access.users();
    let others = users.iter().filter(|user| *user != usual.default_user());
    Some(others.map(|user| [&user.name[..], b" ", &user.describe()].concat()).collect())
}
