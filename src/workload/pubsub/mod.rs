//! Publish/subscribe: subscribers with exact accounts, and the publishers that feed them. Never names a client.

pub mod account;
pub mod channels;
pub mod message;
pub mod stream;
