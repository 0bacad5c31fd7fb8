//! A client without its type, for what is not timed: preparing, verifying and removing a keyspace.
//!
//! Boxed futures keep these parts from being compiled once more for each driver and strategy. Nothing timed goes this way.

use futures_util::future::BoxFuture;

use crate::drivers::{Command, Commands, Error, Reply, Value};

/// [`Commands`] behind one type, replies in the common form.
pub trait AnyClient: Send + Sync {
    /// `GET` through the client's typed call.
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Vec<u8>>, Error>>;
    /// `SET` through the client's typed call.
    fn set<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> BoxFuture<'a, Result<(), Error>>;
    /// `HKEYS` through the client's typed call.
    fn hkeys<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Vec<Vec<u8>>, Error>>;
    /// Any command.
    fn call<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, Result<Value, Error>>;
}

impl<C: Commands> AnyClient for C {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move { Ok(Commands::get(self, key).await?.map(|blob| blob.as_ref().to_vec())) })
    }

    fn set<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(Commands::set(self, key, value))
    }

    fn hkeys<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Vec<Vec<u8>>, Error>> {
        Box::pin(async move { Ok(Commands::hkeys(self, key).await?.iter().map(|blob| blob.as_ref().to_vec()).collect()) })
    }

    fn call<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, Result<Value, Error>> {
        Box::pin(async move { Commands::call(self, command).await?.into_value() })
    }
}
