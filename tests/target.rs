//! Targets for real: each way to provide one, each mistake in words, and nothing left behind.
#![cfg(unix)]

mod target {
    pub mod child;
    pub mod server;

    mod cleanup;
    mod container;
    mod process;
    mod url;
}
