//! The settings that give rules their meaning.

use crate::catalog::Catalog;

/// Which channels a new user may use: `acl-pubsub-default`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelDefault {
    #[default]
    None,
    All,
}

/// The meaning of rules depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    pub catalog: &'a Catalog,
    pub channels: ChannelDefault,
}
