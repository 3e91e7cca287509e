//! The configuration, and the settings derived from it.

use crate::settings::Settings;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use weft_config::Config;

/// The configuration, and the settings derived from it.
pub struct Configuration {
    config: Mutex<Config>,
    /// Locked while the configuration is written to its file.
    pub(crate) rewriting: Mutex<()>,
    settings: RwLock<Arc<Settings>>,
    version: AtomicU64,
}

impl Configuration {
    pub fn new(config: Config) -> Configuration {
        Configuration {
            settings: RwLock::new(Arc::new(Settings::of(&config, 1))),
            version: AtomicU64::new(1),
            config: Mutex::new(config),
            rewriting: Mutex::default(),
        }
    }

    pub fn config(&self) -> MutexGuard<'_, Config> {
        self.config.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The settings now in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().unwrap_or_else(|p| p.into_inner()).clone()
    }

    /// The version of the settings in force.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Publishes the settings derived from `config`, after it has called `before` with them. Threads read them
    /// at their next batch.
    pub fn publish(&self, config: &Config, before: impl FnOnce(&Settings)) {
        let mut slot = self.settings.write().unwrap_or_else(|p| p.into_inner());
        let version = slot.version + 1;
        *slot = Arc::new(Settings::of(config, version));
        before(&slot);
        self.version.store(version, Ordering::Release);
    }
}
