//! Version and commit of this build.

/// The version of the server, as its users see it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first eight digits of the commit that this was built from; zeros if the build did not know it.
pub const COMMIT: &str = env!("WEFT_COMMIT");
