//! The planner's input.

use weft_base::cpulist::CpuSet;

use super::model::Kind;
use super::pairs::Pair;
use crate::apply::ProcessId;

/// The input of a plan.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The servers, in the order of the plan.
    pub servers: Vec<Server>,
    /// The pairs of replica and primary.
    pub pairs: Vec<Pair>,
    /// Network interfaces whose interrupts the plan places.
    pub cards: Vec<Card>,
    /// The placement of interrupts.
    pub irq: Choice,
    /// Use these CPUs only.
    pub only: Option<CpuSet>,
}

/// A server to be placed.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// For people.
    pub name: String,
    /// I/O threads, including the main thread; at least 1.
    pub threads: usize,
    /// The process, if it runs already.
    pub process: Option<ProcessId>,
    /// Its kind, and its present number of I/O threads.
    pub runs: Option<(Kind, usize)>,
}

/// The placeable parts of a network interface.
#[derive(Clone, Debug, Default)]
pub struct Card {
    /// Such as `eth0`.
    pub name: String,
    /// The memory node that it is attached to, if known.
    pub node: Option<usize>,
    /// Its interrupts: number and name.
    pub irqs: Vec<(u32, String)>,
    /// Receive queues with a settable CPU mask.
    pub receive: Vec<String>,
    /// Transmit queues with a settable CPU mask.
    pub transmit: Vec<String>,
}

/// The requested placement of interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// To CPUs of their own where there are enough cores, else over those of the servers
    #[default]
    Auto,
    /// To CPUs that do nothing else
    Dedicated,
    /// Over the CPUs of the servers
    Spread,
    /// They stay as they are
    None,
}
