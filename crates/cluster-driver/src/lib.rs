//! Drives [`weft_cluster::node::Node`] in the server: a node of a cluster with a store.
//!
//! ```text
//!  clients' CLUSTER commands ─┐                        ┌─► store threads ─► etcd
//!  replication, time ─────────┼─► Machine ─► actions ──┼─► roles: replication
//!  answers of the store ──────┘   (a mutex)            ├─► topology, authority: clients' requests
//!                                                      └─► replies of CLUSTER commands
//! ```
//!
//! * [`machine`] - the state machine, with the actions that wait for their execution
//! * [`thread`] - weft-cluster: advances the time, executes actions that never wait
//! * [`queue`] - which actions may wait, and their order
//! * [`duties`] - weft-duty: executes those
//! * [`store`] - threads that call the store
//! * [`publish`] - the topology that requests see; suspended slots
//! * [`roles`] - the role in replication, and its reports
//! * [`requests`] - clients that wait for a CLUSTER command
//! * [`released`] - slots that a transaction deletes and adds
//! * [`forgotten`] - nodes that have left the map a short time ago
//! * [`meet`] - asks another node for its id
//! * [`moves`] - slots go to another node with their keys
//! * [`settings`] - directives, and the address of this node
//! * [`status`] - what INFO says about the authority of this node
//!
//! Events come from any thread and take the mutex for a moment. weft-cluster and weft-duty execute actions without holding it, so
//! weft-duty may stop the world or wait for replication. Threads that hold a lock of replication may pass events.
//!
//! `docs/design/cluster.md` says what the machine expects of its driver.

mod duties;
mod forgotten;
pub mod machine;
pub mod meet;
pub mod moves;
pub mod publish;
mod queue;
mod released;
pub mod requests;
mod roles;
pub mod settings;
pub mod status;
pub mod store;
pub mod thread;

use forgotten::Forgotten;
use machine::Machine;
use queue::Queue;
use released::Released;
use requests::Requests;
use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use store::Store;
use weft_cluster::NodeId;
use weft_cluster::node::{Action, Ms};
use weft_config::{Config, Id};
use weft_state::server::Server;

/// The driver of a node. See the module documentation.
pub struct Driver {
    srv: &'static Server,
    me: NodeId,
    machine: Mutex<Machine>,
    /// There are actions.
    changed: Condvar,
    /// Actions that may wait for commands.
    queue: Mutex<Queue>,
    /// There are such actions, or weft-duty should look again.
    queued: Condvar,
    store: Store,
    /// This node has a role that clients can see.
    is_ready: Mutex<bool>,
    became_ready: Condvar,
    requests: Mutex<Requests>,
    moves: Mutex<moves::Moves>,
    forgotten: Mutex<Forgotten>,
    released: Mutex<Released>,
}

/// The driver of `srv`; `None` without a store.
pub fn driver(srv: &Server) -> Option<&'static Driver> {
    let any: &'static (dyn Any + Send + Sync) = *srv.nodes.cluster.driver.get()?;
    any.downcast_ref()
}

/// Whether this node shall have a store.
pub fn is_configured(config: &Config) -> bool {
    config.bool(Id::CLUSTER_ENABLED) && !settings::store(config).is_empty()
}

/// Creates the driver, which does nothing before [`Driver::begin`]. The map of this node was published.
///
/// # Errors
/// The directive that can't be used, and the reason.
pub fn create(srv: &'static Server, config: &Config) -> Result<(), String> {
    let store = Store::new(config)?;
    let topology = srv.nodes.cluster.topology();
    let me = topology.me;
    let machine = Machine::new(srv, me, settings::of(config, store.address()));
    let driver = Box::leak(Box::new(Driver {
        srv,
        me,
        machine: Mutex::new(machine),
        changed: Condvar::new(),
        queue: Mutex::default(),
        queued: Condvar::new(),
        store,
        is_ready: Mutex::new(false),
        became_ready: Condvar::new(),
        requests: Mutex::default(),
        moves: Mutex::default(),
        forgotten: Mutex::default(),
        released: Mutex::default(),
    }));
    let any: &'static (dyn Any + Send + Sync) = driver;
    let _ = srv.nodes.cluster.driver.set(any);
    srv.require_authority();
    roles::join(driver);
    Ok(())
}

impl Driver {
    /// Starts all threads. The data are loaded, and replication is on hold with their position.
    ///
    /// # Errors
    /// A thread can't be started.
    pub fn begin(&'static self) -> std::io::Result<()> {
        self.store.start(self)?;
        duties::start(self)?;
        thread::start(self)
    }

    /// The last step of a shutdown: no thread serves clients any more, and the files are complete. Gives the lease up, so that
    /// another node, or the next process of this one, needn't wait for its end.
    pub fn end(&self) {
        self.srv.acknowledge_until(0);
        let lease = self.machine().node().lease();
        self.store.end(lease);
    }

    /// Waits until this node shows the map of the store, but not longer than `limit`: etcd may be away.
    pub fn wait_until_ready(&self, limit: Duration) {
        let is_ready = self.is_ready.lock().unwrap_or_else(|p| p.into_inner());
        let _ = self.became_ready.wait_timeout_while(is_ready, limit, |is_ready| !*is_ready);
    }

    /// Whether this node has seen the map of the store.
    pub fn is_ready(&self) -> bool {
        *self.is_ready.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// This node shows the map of the store.
    fn set_ready(&self) {
        *self.is_ready.lock().unwrap_or_else(|p| p.into_inner()) = true;
        self.became_ready.notify_all();
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The time of the machine: that of the authority to acknowledge.
    fn now(&self) -> Ms {
        u64::try_from(self.srv.mono_ms()).unwrap_or(0)
    }

    /// Passes an event to the machine. Its actions are executed soon.
    pub fn pass<T>(&self, event: impl FnOnce(&mut machine::Event<'_>) -> T) -> T {
        let mut machine = self.machine();
        let result = machine.pass(self.now(), self.srv.is_leaving(), event);
        let is_due = machine.has_actions();
        drop(machine);
        if is_due {
            self.changed.notify_all();
        }
        result
    }

    /// Applies changed directives.
    pub fn set(&self, config: &Config) {
        let settings = settings::of(config, self.store.address());
        self.pass(|event| {
            event.set(settings);
            event.out.push(Action::Publish);
        });
    }
}

/// Whether the machine reads this directive, beyond those on what the node announces.
pub fn is_relevant(id: Id) -> bool {
    settings::DIRECTIVES.contains(&id)
}

/// A shared driver, for threads.
type Shared = &'static Driver;

/// An id that nothing has.
fn new_id() -> NodeId {
    let mut random = [0; NodeId::LEN / 2];
    weft_state::server::fill_random(&mut random);
    NodeId::from_random(random)
}

/// The name of a thread and its work.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(move || {
        let _stack = weft_process::crash::second_stack();
        work();
    })?;
    Ok(())
}

/// A topology, as the rest of the server sees it.
type Topology = Arc<weft_state::cluster::Topology>;
