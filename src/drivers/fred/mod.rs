//! Drivers of the [`fred`](https://docs.rs/fred) crate.

// What differs between releases of the crate; `build.rs` tells which line this build has.
#[cfg_attr(fred_line = "9", path = "api/v9.rs")]
#[cfg_attr(fred_line = "10", path = "api/v10.rs")]
mod api;
mod cache;
mod calls;
mod client;
mod connect;
mod error;
mod pool;
mod reply;
mod subscriber;

pub use cache::FredCached;
pub use client::Fred;
pub use pool::FredPool;
pub use reply::FredReply;
pub use subscriber::FredSubscriber;

const NOTES: &[&str] = &[
    "As it ships: TCP_NODELAY off, no response timeout, no limit to its queue, and no reconnect policy: after a lost connection every call fails. Tuned keeps all but the first.",
    "Without a reconnect policy fred leaves commands that are sent to a lost connection waiting for ever; the driver closes the queue then, so that they fail.",
    api::FLUSHES,
    "A call on the Pool itself takes four turns of its round robin, so that 2 or 4 clients are used as one; the driver calls Pool::next, as the documentation also shows.",
    "On a cluster each client keeps one more connection, to a node of its choice, for CLUSTER SLOTS.",
    "An error inside of a transaction is that of the whole, though the other commands were executed: fred reads EXEC's reply as one value.",
    "A transaction begins when all that its client sent before was answered, and what follows waits for its reply; after an error it sends a DISCARD.",
    "A subscriber's broadcast channel holds 32 messages as it ships, in either profile, and drops the oldest when it is full: at full speed half of all. It says how many.",
    "A subscriber drops a message without a word when its channel's name is not UTF-8, and gives those of __keyspace@ and __keyevent@ to another receiver. It does not tell the pattern that matched.",
    "A subscriber waits for ever when its connection is lost: fred reports that on another channel. The driver then closes its channel of messages, so that the wait fails.",
    "It tells no simple string from a bulk string, so every reply is checked for UTF-8.",
];
