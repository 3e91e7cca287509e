//! Many clients at once, and one that disturbs them; nothing here is linked into the server.
//!
//! | module | contents |
//! |---|---|
//! | [`linear`] | histories of concurrent clients, and whether they are linearizable |
//! | [`chaos`] | random requests and disturbances from many clients, then checks of the server's state |

pub mod chaos;
pub mod linear;
