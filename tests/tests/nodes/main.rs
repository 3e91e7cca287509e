//! Clusters of several nodes: tools, replies, failovers, fences, faults of the store, restarts.
//!
//! Each test runs on Valkey where the behaviour is the same, which proves that it expects what Valkey does, and on Weft
//! with etcd. `cargo test --test nodes valkey` runs the first, `weft` the second.

mod busy;
mod clients;
mod clock;
mod complete;
mod failover;
mod fence;
mod load;
mod marks;
mod moves;
mod outage;
mod publish;
mod replies;
mod restart;
mod store;
mod tls;
mod tools;

/// Declares a test for each kind of node.
macro_rules! on_each {
    ($($name:ident),* $(,)?) => { $(
        mod $name {
            use weft_testkit::cluster::Kind;

            #[test]
            #[ignore = "long: cargo xtask test --all"]
            fn valkey() {
                super::$name(Kind::Valkey);
            }

            #[test]
            #[ignore = "long: cargo xtask test --all"]
            fn weft() {
                super::$name(Kind::Weft);
            }
        }
    )* };
}
pub(crate) use on_each;
