//! Addresses of Redis servers and bare streams to them (TCP, unix socket, TLS).
//!
//! Shared by the raw driver and by the target's own checks. Knows no client crate.

mod connection;
mod endpoint;
mod stream;
#[cfg(feature = "tls")]
pub mod tls;

pub use connection::{Connection, READ_CHUNK, read_more};
pub use endpoint::{Address, BadUrl, Endpoint, Secret, TlsOptions};
pub use stream::{ReadHalf, Stream, WriteHalf};
