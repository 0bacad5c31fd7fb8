//! Targets for real: each way to provide one, each mistake in words, and nothing left behind.
//! On Linux, because what is left behind is read from /proc.
#![cfg(target_os = "linux")]

mod target {
    pub mod child;
    pub mod server;

    mod cleanup;
    mod container;
    mod process;
    mod url;
}
