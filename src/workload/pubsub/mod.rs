//! Publish/subscribe: subscribers with exact accounts, and the publishers that feed them. Never names a client.
//!
//! [`engine`] is the run behind `rcb subscribe`, [`burst`] that behind `rcb publish`.

pub mod account;
pub mod burst;
pub mod census;
pub mod channels;
pub mod churn;
mod collect;
pub mod engine;
pub mod flood;
pub mod live;
pub mod message;
pub mod outcome;
pub mod plan;
pub mod publisher;
pub mod receiver;
mod sending;
pub mod stream;
mod watch;
