//! Each check with good values, bad ones, and none.
