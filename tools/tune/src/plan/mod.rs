//! `weft-tune plan`: where servers, their background work and interrupts should go.

mod model;

pub use model::{Instance, Interface, Irq, Plan, Queue, Scheme, VERSION};
