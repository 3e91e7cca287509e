//! The users of the server, and the identity of a session.
//!
//! The set of users is immutable. A change publishes a new set and the next *generation*, while the I/O threads are
//! between two commands: see [`Access::change`]. Each session keeps its user, with the generation in which it was looked
//! up. A thread compares generations before each command, so it notices a change at the next one.

use crate::clients::ClientShared;
use crate::command_table::CommandTable;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use weft_acl::{Catalog, ChannelDefault, Entry, Log, Policy, User, Users};
use weft_command_spec::absent::{ABSENT, Absent};
use weft_keyspace::generation::Generations;

/// The users, and the commands that were refused to them.
#[derive(Debug)]
pub struct Access {
    /// The facts of all commands.
    pub catalog: Catalog,
    users: Generations<Users>,
    log: Mutex<Log>,
}

impl Access {
    /// Knows the user `default` alone.
    pub fn new(table: &CommandTable, databases: usize) -> Access {
        let mut entries = Vec::new();
        for top in table.top() {
            let entry = |cmd: &crate::command_table::Cmd, container| Entry {
                number: cmd.number,
                full_name: cmd.full_name,
                spec: cmd.spec,
                container,
                has_subcommands: !cmd.subcommands.is_empty(),
            };
            entries.push(entry(top, None));
            entries.extend(top.subcommands.iter().map(|sub| entry(sub, Some(top.number))));
        }
        entries.extend(absent_entries(table));
        let catalog = Catalog::new(entries, databases);
        let users = Users::new(Policy { catalog: &catalog, channels: ChannelDefault::None });
        Access { catalog, users: Generations::new(users), log: Mutex::default() }
    }

    /// The users in force.
    pub fn users(&self) -> Users {
        self.users.current().0
    }

    /// The number of the generation in force.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.users.number()
    }

    /// Puts the users that `change` makes of the present ones into force. Threads of the slow lane notice it before their
    /// next command. So do the I/O threads if they are between two commands, which the caller must ensure once they run:
    /// `weft_executor::access::change`.
    ///
    /// Returns the users before.
    ///
    /// # Errors
    /// That of `change`. Then nothing has changed.
    pub fn change<E>(&self, change: impl FnOnce(&Users) -> Result<Users, E>) -> Result<Users, E> {
        self.users.change(change)
    }

    /// Makes `password` that of the default user, which needs none if it is empty: `requirepass`. See
    /// [`Access::change`].
    pub fn set_default_password(&self, password: &[u8]) {
        let password = Some(password).filter(|password| !password.is_empty());
        let Ok(_) = self.change(|users| Ok::<_, Infallible>(users.with_default_password(password)));
    }

    /// The commands that were refused: ACL LOG.
    pub fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The identity of a client that has just connected, or sent RESET.
    pub fn stranger(&self) -> Identity {
        let (users, number) = self.users.current();
        let user = users.default_user().clone();
        let authenticated = is_open(&user);
        Identity::new(user, authenticated, &users, number)
    }

    /// The identity of a client that has proved to be the user of this name.
    pub fn identify(&self, name: &[u8]) -> Option<Identity> {
        let (users, number) = self.users.current();
        let user = users.get(name)?.clone();
        Some(Identity::new(user, true, &users, number))
    }
}

/// The commands that are not in the table, but may be in rules. Their numbers follow those of the table.
fn absent_entries(table: &CommandTable) -> impl Iterator<Item = Entry> {
    (table.all().len()..).zip(&ABSENT).map(|(number, Absent { full_name, spec })| {
        let container = full_name.split_once('|').and_then(|(name, _)| table.find(name.as_bytes()));
        let container = container.map(|cmd| cmd.number);
        Entry { number, full_name, spec, container, has_subcommands: false }
    })
}

/// Whether clients are this user without a password.
fn is_open(user: &User) -> bool {
    user.enabled && user.nopass
}

/// The user that a session acts as.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The user as of [`Identity::renew`].
    pub user: Arc<User>,
    /// The client has logged in, or the default user needed no password when it connected.
    pub authenticated: bool,
    /// The client must log in before it may run most commands.
    pub must_log_in: bool,
    /// The generation of users in which the session may do everything; 0: in none.
    free_in: u64,
    /// The generation of users in which `user` was looked up.
    known_in: u64,
    /// The user was deleted. Until the client is closed, it may not even be what a stranger may be.
    is_deleted: bool,
}

impl Identity {
    fn new(user: Arc<User>, authenticated: bool, users: &Users, generation: u64) -> Identity {
        let must_log_in = !authenticated && !is_open(users.default_user());
        let is_free = !must_log_in && user.is_unrestricted();
        let free_in = if is_free { generation } else { 0 };
        Identity {
            user,
            authenticated,
            must_log_in,
            free_in,
            known_in: generation,
            is_deleted: false,
        }
    }

    /// The identity of a client whose user was deleted: the rest of its script or transaction has no rights.
    fn without_user(users: &Users, generation: u64) -> Identity {
        Identity {
            user: users.default_user().clone(),
            authenticated: false,
            must_log_in: true,
            free_in: 0,
            known_in: generation,
            is_deleted: true,
        }
    }

    /// Whether the session may do everything, if this is the generation in force.
    #[inline]
    pub fn is_free_in(&self, generation: u64) -> bool {
        self.free_in == generation
    }

    /// Looks up the user again, if the users have changed.
    pub fn renew(&mut self, access: &Access) {
        if self.known_in == access.generation() {
            return;
        }
        let (users, number) = access.users.current();
        *self = match users.get(&self.user.name) {
            Some(user) if !self.is_deleted => {
                Identity::new(user.clone(), self.authenticated, &users, number)
            }
            Some(_) | None => Identity::without_user(&users, number),
        };
    }
}

/// Makes `shared` show the user of its session to other threads.
pub fn show_user(shared: &ClientShared, identity: &Identity) {
    shared.change_names(|names| names.user = Some(identity.user.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_table::ServerCommand;

    fn access() -> Access {
        let nothing = std::iter::empty::<&'static ServerCommand<()>>();
        let (table, _) = CommandTable::new(std::iter::empty(), nothing);
        Access::new(&table, 16)
    }

    fn set(access: &Access, name: &str, rules: &str) {
        let policy = Policy { catalog: &access.catalog, channels: ChannelDefault::None };
        let rules: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
        access.change(|users| users.set(policy, name.as_bytes(), &rules)).expect("valid rules");
    }

    #[test]
    fn session_is_free_only_in_the_generation_in_which_it_was_looked_up() {
        let access = access();
        set(&access, "u", "on nopass ~* &* +@all");
        let mut identity = access.identify(b"u").expect("a user");
        assert!(identity.is_free_in(access.generation()));
        set(&access, "other", "on");
        assert!(!identity.is_free_in(access.generation()), "before it is looked up again");
        identity.renew(&access);
        assert!(identity.is_free_in(access.generation()));
        for rules in ["resetkeys", "allkeys resetchannels", "allchannels resetdbs", "alldbs -@all"]
        {
            set(&access, "u", rules);
            identity.renew(&access);
            assert!(!identity.is_free_in(access.generation()), "{rules}");
        }
        set(&access, "u", "+@all");
        identity.renew(&access);
        assert!(identity.is_free_in(access.generation()));
    }

    #[test]
    fn client_of_a_deleted_user_has_no_rights() {
        let access = access();
        set(&access, "u", "on nopass ~* &* +@all");
        let mut identity = access.identify(b"u").expect("a user");
        let Ok(_) = access.change(|users| Ok::<_, Infallible>(users.delete(b"u").expect("a user")));
        for password in ["", "secret", ""] {
            access.set_default_password(password.as_bytes());
            identity.renew(&access);
            assert!(identity.must_log_in && !identity.is_free_in(access.generation()));
            assert_eq!(*identity.user.name, *b"default");
        }
        assert!(access.identify(b"u").is_none());
    }

    #[test]
    fn default_user_must_log_in_unless_it_needed_no_password() {
        let access = access();
        let mut early = access.stranger();
        assert!(early.authenticated && early.is_free_in(access.generation()));
        access.set_default_password(b"secret");
        early.renew(&access);
        assert!(early.is_free_in(access.generation()), "it stays logged in");
        let mut late = access.stranger();
        assert!(late.must_log_in && !late.is_free_in(access.generation()));
        access.set_default_password(b"");
        late.renew(&access);
        assert!(!late.must_log_in && late.is_free_in(access.generation()));
        set(&access, "default", "off");
        late.renew(&access);
        assert!(late.must_log_in);
    }
}
