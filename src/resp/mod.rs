//! The Redis serialization protocol: commands out, frames and values in, key slots.
//!
//! Owns bytes only. Opens no socket (that is [`crate::net`]) and knows no client crate.

mod command;
mod decode;
mod push;
mod slot;
mod value;
mod version;

pub use command::{Command, encode_words};
pub use decode::{FrameError, Frames, Scanner, parse};
pub use push::{Invalidated, InvalidatedKeys, PublishedMessage, Pushed, Pushes, invalidated};
pub use slot::{SLOTS, key_slot};
pub use value::Value;
pub use version::Resp;
