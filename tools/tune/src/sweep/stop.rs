//! Ctrl-C: the first one ends the running cell's processes and the sweep, the second one ends the
//! program at once.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the sweep is asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Set by SIGINT, SIGTERM and SIGHUP.
    ///
    /// # Errors
    /// If the kernel accepts no handler.
    pub fn on_signals() -> Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // First the handler that ends the program if the flag is set already, then the one that
            // sets it.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.0))
                .and_then(|_| flag::register(signal, Arc::clone(&stop.0)))
                .context("cannot watch for signals")?;
        }
        Ok(stop)
    }

    /// Whether to stop.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
