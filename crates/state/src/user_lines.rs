//! The lines `user` of a configuration file that CONFIG REWRITE writes.

use crate::access::Access;
use weft_acl::{ChannelDefault, Policy, Users};
use weft_config::{Config, Id};

/// The arguments of the lines that define the present users. `None`: the ACL file does, so the file needs no lines.
///
/// A line is left out if it only repeats `requirepass`.
pub fn user_lines(
    access: &Access,
    channels: ChannelDefault,
    config: &Config,
) -> Option<Vec<Vec<u8>>> {
    if !config.bytes(Id::ACLFILE).is_empty() {
        return None;
    }
    let policy = Policy { catalog: &access.catalog, channels };
    let password = Some(config.bytes(Id::REQUIREPASS)).filter(|password| !password.is_empty());
    let usual = Users::new(policy).with_default_password(password);
    let users = access.users();
    let others = users.iter().filter(|user| *user != usual.default_user());
    Some(others.map(|user| [&user.name[..], b" ", &user.describe()].concat()).collect())
}
