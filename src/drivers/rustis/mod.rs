//! Drivers of the [`rustis`](https://docs.rs/rustis) crate.

mod cache;
mod calls;
mod client;
mod connect;
mod error;
mod pool;
mod reply;
mod subscriber;

pub use cache::RustisCached;
pub use client::Rustis;
pub use pool::RustisPool;
pub use reply::RustisReply;
pub use subscriber::{RustisMessage, RustisSubscriber};

/// The refusal of RESP2.
const RESP3_ONLY: &str = "rustis speaks RESP3 only";

const NOTES: &[&str] = &[
    "It speaks RESP3 only, so it has no row beside clients that are measured with RESP2.",
    "As it ships: TCP_NODELAY on, no response timeout, at most 16 MiB of commands queued and in flight, and connecting within 10 s. Tuned lifts the 16 MiB and gives connecting 5 s.",
    "One task writes and reads. It sends at most 48 messages and reads at most 48 replies before it turns to the other side (max_messages_per_wave), also when tuned: no caller is refused by it. An explicit pipeline is one message.",
    "Each value is copied out of the read buffer; its Bytes stay inside the crate.",
    "After a lost connection it connects again by itself, once a second for ever; commands in flight and those sent meanwhile fail at once (retry_on_error is off as it ships, and when tuned).",
    "A pipeline or transaction read into its own Value fails as a whole for one error reply; the driver reads each reply into a type of ours that keeps the error in its place.",
    "On a cluster a lost connection to one node makes it give up those to all nodes; a connection of its own asks for CLUSTER SHARDS when it connects and once a minute.",
    "On a cluster its typed PUBLISH goes to any node; in a pipeline the driver sends it to the node of its channel's slot.",
    "TLS goes through a stream of ours (its documented custom transport), since its own would build a second crypto library; on a cluster there is none.",
    "A subscriber is a client of its own; its stream holds 8 MiB of messages as it ships, in either profile, then drops the oldest and says how many. No number of messages can be set.",
    "A subscriber's connection would be made again in silence; the driver refuses that by its reconnection policy, which is also how it learns of the loss.",
];
