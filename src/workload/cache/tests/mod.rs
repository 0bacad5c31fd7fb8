//! Clients of our own that lie, are late, or are lost.
