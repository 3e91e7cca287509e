//! The set of users.

use crate::policy::Policy;
use crate::rule_error::{RuleError, Why};
use crate::user::User;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The user of clients that have not logged in.
pub const DEFAULT_USER: &[u8] = b"default";

/// All users, sorted by name. Always contains `default`. A clone shares them.
#[derive(Clone, Debug)]
pub struct Users(Arc<BTreeMap<Box<[u8]>, Arc<User>>>);

impl Users {
    /// Only `default`, which may do everything, without a password.
    pub fn new(policy: Policy<'_>) -> Users {
        let default = default_user(policy);
        Users(Arc::new(BTreeMap::from([(default.name.clone(), Arc::new(default))])))
    }

    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.0.get(name)
    }

    /// The user of clients that have not logged in.
    ///
    /// # Panics
    /// Never: no set is made without it.
    pub fn default_user(&self) -> &Arc<User> {
        self.get(DEFAULT_USER).expect("every set has the default user")
    }

    /// All users in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.0.values()
    }

    /// The set after ACL SETUSER: all rules are applied to the user of that name, or to a new one.
    ///
    /// # Errors
    /// The first rule that is refused. Then no rule counts.
    pub fn set(
        &self,
        policy: Policy<'_>,
        name: &[u8],
        rules: &[&[u8]],
    ) -> Result<Users, RuleError> {
        let mut user = match self.get(name) {
            Some(known) => User::clone(known),
            None => User::new(name, policy.channels),
        };
        for rule in merge_selectors(rules).map_err(RuleError::Unmatched)? {
            if let Err(why) = user.apply(policy, &rule) {
                return Err(RuleError::Rule(rule, why.text()));
            }
        }
        Ok(self.with(user))
    }

    /// The set without the user of that name. `None`: there is none, or it is `default`.
    pub fn delete(&self, name: &[u8]) -> Option<Users> {
        if name == DEFAULT_USER || self.get(name).is_none() {
            return None;
        }
        let mut users = BTreeMap::clone(&self.0);
        users.remove(name);
        Some(Users(Arc::new(users)))
    }

    /// The set with another password of `default`: `requirepass`. `None`: any password is right.
    pub fn with_default_password(&self, password: Option<&[u8]>) -> Users {
        let mut user = User::clone(self.default_user());
        user.set_password(password);
        self.with(user)
    }

    /// The set with this user instead of one of the same name.
    pub(crate) fn with(&self, user: User) -> Users {
        let mut users = BTreeMap::clone(&self.0);
        users.insert(user.name.clone(), Arc::new(user));
        Users(Arc::new(users))
    }

    /// The same set. Users that are the same in `before` are shared with it.
    pub fn keeping(self, before: &Users) -> Users {
        let same = |user: Arc<User>| match before.get(&user.name) {
            Some(known) if *known == user => Arc::clone(known),
            _ => user,
        };
        let users = self.iter().map(|user| (user.name.clone(), same(Arc::clone(user))));
        Users(Arc::new(users.collect()))
    }

    /// A set of these users, and of a `default` that may do everything if it is not among them.
    pub(crate) fn of(policy: Policy<'_>, users: impl Iterator<Item = User>) -> Users {
        let mut all: BTreeMap<_, _> =
            users.map(|user| (user.name.clone(), Arc::new(user))).collect();
        all.entry(DEFAULT_USER.into()).or_insert_with(|| Arc::new(default_user(policy)));
        Users(Arc::new(all))
    }
}

fn default_user(policy: Policy<'_>) -> User {
    let mut user = User::new(DEFAULT_USER, policy.channels);
    for rule in ["+@all", "~*", "&*", "alldbs", "on", "nopass"] {
        let applied: Result<(), Why> = user.apply(policy, rule.as_bytes());
        debug_assert_eq!(applied, Ok(()), "{rule}");
    }
    user
}

/// Joins the arguments from `(` to `)` into one rule.
///
/// # Errors
/// The argument that opens a selector which does not end.
pub(crate) fn merge_selectors(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut merged: Vec<Vec<u8>> = Vec::with_capacity(rules.len());
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for rule in rules {
        let closes = rule.last() == Some(&b')');
        match open.take() {
            Some((first, mut text)) => {
                text.push(b' ');
                text.extend_from_slice(rule);
                if closes {
                    merged.push(text);
                } else {
                    open = Some((first, text));
                }
            }
            None if rule.first() == Some(&b'(') && !closes => open = Some((rule, rule.to_vec())),
            None => merged.push(rule.to_vec()),
        }
    }
    match open {
        Some((first, _)) => Err(first.to_vec()),
        None => Ok(merged),
    }
}
