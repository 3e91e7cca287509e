//! Publish and subscribe, keyspace notifications, client-side caching.

mod limits;
mod notifications;
mod order;
mod sessions;
mod states;
mod tracking;
mod tracking_states;
