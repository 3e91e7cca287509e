//! The directives that decide what a node does.

use super::action::Ms;
use crate::map::Addresses;

#[derive(Clone, Debug)]
pub struct Settings {
    /// `cluster-node-timeout`, rounded up to seconds: the length of a lease.
    pub timeout: Ms,
    /// `cluster-write-quorum`; 0: asynchronous.
    pub quorum: u32,
    /// `cluster-store-outage continue`
    pub continues: bool,
    /// `cluster-replica-no-failover`
    pub no_failover: bool,
    /// `replica-priority`; 0: never promoted.
    pub priority: u32,
    /// `cluster-replica-validity-factor`; 0: data are never too old.
    pub validity_factor: u64,
    /// `cluster-allow-replica-migration`
    pub migrates: bool,
    /// How long a shard is without replicas before another one's moves there: after a failover, its own come back.
    pub migration_delay: Ms,
    /// `cluster-migration-barrier`: replicas that a shard keeps.
    pub migration_barrier: u32,
    pub addresses: Addresses,
    pub zone: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            timeout: 15_000,
            quorum: 0,
            continues: false,
            no_failover: false,
            priority: 100,
            validity_factor: 10,
            migrates: false,
            migration_delay: 5000,
            migration_barrier: 1,
            addresses: Addresses::default(),
            zone: String::new(),
        }
    }
}
