//! Users, and the rules that change them.

use crate::password::Password;
use crate::policy::{ChannelDefault, Policy};
use crate::rule_error::Why;
use crate::selector::Selector;

/// A user. It does not change: a rule makes a changed copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: Box<[u8]>,
    /// May log in. Clients that have logged in stay.
    pub enabled: bool,
    /// Any password is right.
    pub nopass: bool,
    pub(crate) passwords: Vec<Password>,
    /// The first one is the root: rules outside of parentheses.
    pub(crate) selectors: Vec<Selector>,
}

impl User {
    /// A user that may not log in and may do nothing.
    pub(crate) fn new(name: &[u8], channels: ChannelDefault) -> User {
        User {
            name: name.into(),
            enabled: false,
            nopass: false,
            passwords: Vec::new(),
            selectors: vec![Selector::new(channels)],
        }
    }

    /// Applies one rule; a selector is one rule.
    pub(crate) fn apply(&mut self, policy: Policy<'_>, rule: &[u8]) -> Result<(), Why> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            [] => {}
            _ if is("on") => self.enabled = true,
            _ if is("off") => self.enabled = false,
            // Every payload of RESTORE is validated.
            _ if is("sanitize-payload") || is("skip-sanitize-payload") => {}
            _ if is("nopass") => self.set_nopass(true),
            _ if is("resetpass") => self.set_nopass(false),
            [b'>' | b'#', ..] => self.add_password(parse_password(rule)?),
            [b'<' | b'!', ..] => self.remove_password(&parse_password(rule)?)?,
            [b'(', .., b')'] => self.selectors.push(Selector::parse(policy, rule)?),
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => *self = User::new(&self.name, policy.channels),
            _ => self.selectors[0].apply(policy.catalog, rule)?,
        }
        Ok(())
    }

    fn set_nopass(&mut self, nopass: bool) {
        self.nopass = nopass;
        self.passwords.clear();
    }

    /// Makes this the only password, or makes any password right: `requirepass`.
    pub(crate) fn set_password(&mut self, password: Option<&[u8]>) {
        self.set_nopass(password.is_none());
        self.passwords.extend(password.map(Password::hash));
    }

    fn add_password(&mut self, password: Password) {
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
        self.nopass = false;
    }

    fn remove_password(&mut self, password: &Password) -> Result<(), Why> {
        let at = self.passwords.iter().position(|known| known == password);
        self.passwords.remove(at.ok_or(Why::NoSuchPassword)?);
        Ok(())
    }

    /// Whether a client may log in with this password. Every hash is compared, in constant time.
    pub fn accepts_password(&self, password: &[u8]) -> bool {
        if !self.enabled || self.nopass {
            return self.enabled;
        }
        let given = Password::hash(password);
        self.passwords.iter().fold(false, |found, known| found | known.is_same(&given))
    }

    /// Whether the root selector allows every request. Clients of a disabled user keep their rights.
    pub fn is_unrestricted(&self) -> bool {
        self.selectors[0].is_unrestricted()
    }

    /// The field "flags" of ACL GETUSER.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        if self.nopass {
            flags.push("nopass");
        }
        flags
    }

    pub fn passwords(&self) -> &[Password] {
        &self.passwords
    }

    /// The rules outside of parentheses.
    pub fn root(&self) -> &Selector {
        &self.selectors[0]
    }

    /// The rules in parentheses.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors[1..]
    }

    /// The rules of the user, which make the same user of a new one.
    pub fn describe(&self) -> Vec<u8> {
        let mut parts: Vec<Vec<u8>> =
            self.flags().iter().map(|flag| flag.as_bytes().to_vec()).collect();
        parts.extend(self.passwords.iter().map(|known| format!("#{}", known.hex()).into_bytes()));
        parts.push(self.root().describe());
        let parenthesized = |s: &Selector| [b"(", &s.describe()[..], b")"].concat();
        parts.extend(self.selectors().iter().map(parenthesized));
        parts.join(&b' ')
    }

    /// The line of ACL LIST, an aclfile and the configuration file: `user NAME RULES`.
    pub fn line(&self) -> Vec<u8> {
        [b"user ", &self.name[..], b" ", &self.describe()].concat()
    }
}

/// Parses `>password` and `#hash`, or `<password` and `!hash`.
fn parse_password(rule: &[u8]) -> Result<Password, Why> {
    match rule {
        [b'>' | b'<', text @ ..] => Ok(Password::hash(text)),
        [_, hash @ ..] => Password::parse(hash).ok_or(Why::BadHash),
        [] => Err(Why::Syntax),
    }
}
