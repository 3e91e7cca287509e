//! Version and commit of this build.

/// The version of the server, as its users see it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first eight digits of the commit of this build; zeros if the build script could not read it.
pub const COMMIT: &str = env!("WEFT_COMMIT");
