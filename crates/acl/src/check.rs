//! The check of a request against the rights of a user.

use crate::catalog::Catalog;
use crate::patterns::Access;
use crate::request::{Denied, Reason, Request};
use crate::user::User;

impl User {
    /// Whether a selector allows a request. O(selectors x patterns x keys); allocates nothing, except for COPY in
    /// selectors that restrict databases.
    #[inline]
    pub fn check(&self, catalog: &Catalog, request: &Request<'_>) -> Result<(), Denied> {
        let Some(command) = catalog.get(request.command) else {
            return Err(Denied { reason: Reason::Command, at: 0 });
        };
        let mut worst = Denied { reason: Reason::Database, at: 0 };
        for selector in &self.selectors {
            match selector.check(catalog, command, request) {
                Ok(()) => return Ok(()),
                Err(denied) => worst = worst.max(denied),
            }
        }
        Err(worst)
    }

    /// As [`User::check`], and the selector also allows this access to every key, as SORT BY and GET need it.
    pub fn check_with_every_key(
        &self,
        catalog: &Catalog,
        request: &Request<'_>,
        access: Access,
    ) -> bool {
        let Some(command) = catalog.get(request.command) else { return false };
        let mut selectors = self.selectors.iter();
        selectors.any(|s| s.keys.allow_every(access) && s.check(catalog, command, request).is_ok())
    }

    /// Whether a selector allows a channel, or a pattern of channels as it stands.
    pub fn may_access_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|selector| selector.channels.allow(channel, is_pattern))
    }

    /// Whether a change from `self` to `new` can forbid channels, so that subscribers must be looked at.
    pub fn may_lose_channels(&self, new: &User) -> bool {
        if new.selectors.iter().any(|selector| selector.channels.all) {
            return false;
        }
        let is_kept = |pattern: &[u8]| {
            new.selectors.iter().any(|s| s.channels.patterns().any(|known| known == pattern))
        };
        self.selectors
            .iter()
            .any(|s| s.channels.all || s.channels.patterns().any(|pattern| !is_kept(pattern)))
    }
}
