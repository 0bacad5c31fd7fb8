//! A byte stream to a server, whatever carries it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use super::{Address, Endpoint};

/// An open connection.
pub enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// Unix socket.
    #[cfg(unix)]
    Unix(UnixStream),
    /// TLS over TCP.
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// The reading half of a [`Stream`]; the plain kinds share the socket without a lock.
pub enum ReadHalf {
    /// Plain TCP.
    Tcp(tokio::net::tcp::OwnedReadHalf),
    /// Unix socket.
    #[cfg(unix)]
    Unix(tokio::net::unix::OwnedReadHalf),
    /// TLS over TCP.
    #[cfg(feature = "tls")]
    Tls(tokio::io::ReadHalf<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// The writing half of a [`Stream`].
pub enum WriteHalf {
    /// Plain TCP.
    Tcp(tokio::net::tcp::OwnedWriteHalf),
    /// Unix socket.
    #[cfg(unix)]
    Unix(tokio::net::unix::OwnedWriteHalf),
    /// TLS over TCP.
    #[cfg(feature = "tls")]
    Tls(tokio::io::WriteHalf<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl Stream {
    /// Opens a connection to `endpoint`, without login.
    ///
    /// # Errors
    /// Any failure to resolve, connect or agree on TLS.
    pub async fn connect(endpoint: &Endpoint, nodelay: bool) -> io::Result<Self> {
        match &endpoint.address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(nodelay)?;
                match &endpoint.tls {
                    None => Ok(Stream::Tcp(stream)),
                    #[cfg(feature = "tls")]
                    Some(options) => {
                        let connector = tokio_rustls::TlsConnector::from(super::tls::client_config(options)?);
                        let name = rustls::pki_types::ServerName::try_from(host.clone())
                            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
                        Ok(Stream::Tls(Box::new(connector.connect(name, stream).await?)))
                    }
                    #[cfg(not(feature = "tls"))]
                    Some(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "built without the feature `tls`")),
                }
            }
            #[cfg(unix)]
            Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
            #[cfg(not(unix))]
            Address::Unix(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "unix sockets need a unix system")),
        }
    }

    /// Splits the connection for a reading and a writing task.
    #[must_use]
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Stream::Tcp(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Tcp(read), WriteHalf::Tcp(write))
            }
            #[cfg(unix)]
            Stream::Unix(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Unix(read), WriteHalf::Unix(write))
            }
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => {
                let (read, write) = tokio::io::split(*stream);
                (ReadHalf::Tls(read), WriteHalf::Tls(write))
            }
        }
    }
}

/// Passes one poll on to whichever kind it is.
macro_rules! delegate {
    ($kind:ident, $self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            $kind::Tcp($stream) => $call,
            #[cfg(unix)]
            $kind::Unix($stream) => $call,
            #[cfg(feature = "tls")]
            $kind::Tls($stream) => $call,
        }
    };
}

macro_rules! impl_read {
    ($kind:ident) => {
        impl AsyncRead for $kind {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                delegate!($kind, self, stream => Pin::new(stream).poll_read(cx, buf))
            }
        }
    };
}

macro_rules! impl_write {
    ($kind:ident) => {
        impl AsyncWrite for $kind {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                delegate!($kind, self, stream => Pin::new(stream).poll_write(cx, buf))
            }
            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                delegate!($kind, self, stream => Pin::new(stream).poll_flush(cx))
            }
            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                delegate!($kind, self, stream => Pin::new(stream).poll_shutdown(cx))
            }
        }
    };
}

impl_read!(Stream);
impl_read!(ReadHalf);
impl_write!(Stream);
impl_write!(WriteHalf);
