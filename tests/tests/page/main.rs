//! The live page of `metrics-port`, in a headless Chromium. Without Chromium these tests skip.

mod access;
mod browser;
mod figures;
mod layout;
mod loss;
mod nodes;
mod safety;
