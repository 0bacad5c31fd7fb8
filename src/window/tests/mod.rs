//! The window's semantics against a scripted client and a clock that the test moves.

mod fake;
mod properties;
mod semantics;
mod timing;
