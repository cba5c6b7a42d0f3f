//! A connection to PostgreSQL before a worker has it: TCP or Unix socket, with the socket options of the configuration.
//! TLS will be a third variant.

use crate::shared::Address;
use settings::General;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UnixStream};

pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub async fn connect(address: &Address, general: &General) -> io::Result<Stream> {
        match address {
            Address::Tcp(address) => connect_tcp(*address, general).await.map(Stream::Tcp),
            Address::Unix(path) => UnixStream::connect(kernel_name(path)?)
                .await
                .map(Stream::Unix),
        }
    }

    /// Our end; a Unix socket's has no name of its own and is called as the server's.
    pub fn local(&self, peer: &Address) -> Address {
        match self {
            Stream::Tcp(stream) => stream
                .local_addr()
                .map_or_else(|_| peer.clone(), Address::Tcp),
            Stream::Unix(_) => peer.clone(),
        }
    }

    /// The reverse of `into_socket`: `address` is the peer's.
    pub fn from_socket(socket: OwnedFd, address: &Address) -> io::Result<Stream> {
        match address {
            Address::Tcp(_) => TcpStream::from_std(socket.into()).map(Stream::Tcp),
            Address::Unix(_) => UnixStream::from_std(socket.into()).map(Stream::Unix),
        }
    }

    /// Takes the socket, non-blocking, out of the runtime.
    pub fn into_socket(self) -> io::Result<OwnedFd> {
        match self {
            Stream::Tcp(stream) => stream.into_std().map(OwnedFd::from),
            Stream::Unix(stream) => stream.into_std().map(OwnedFd::from),
        }
    }
}

/// Buffers count for the window only if they are set before the connection is opened.
async fn connect_tcp(address: SocketAddr, general: &General) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    set_options(&socket, general)?;
    let stream = socket.connect(address).await?;
    // Nobody listens on a local port that the kernel may give to ourselves: then we have reached ourselves.
    if stream.local_addr()? == address {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

/// A path that starts with `@` is in the abstract namespace, which the kernel marks with a NUL (unix(7)).
fn kernel_name(path: &Path) -> io::Result<String> {
    let text = path
        .to_str()
        .ok_or_else(|| io::Error::other("the socket's path is not UTF-8"))?;
    Ok(match text.strip_prefix('@') {
        Some(name) => format!("\0{name}"),
        None => text.to_owned(),
    })
}

fn set_options(socket: &TcpSocket, general: &General) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(true)?;
    if general.tcp_keepalive {
        socket.set_tcp_keepalive(&keepalive(general))?;
    }
    if general.tcp_socket_buffer > 0 {
        socket.set_recv_buffer_size(general.tcp_socket_buffer as usize)?;
        socket.set_send_buffer_size(general.tcp_socket_buffer as usize)?;
    }
    #[cfg(target_os = "linux")]
    if general.tcp_user_timeout > 0 {
        socket
            .set_tcp_user_timeout(Some(Duration::from_millis(general.tcp_user_timeout.into())))?;
    }
    Ok(())
}

/// What is 0 is left as the system has it.
fn keepalive(general: &General) -> TcpKeepalive {
    let seconds = |count: u32| Duration::from_secs(count.into());
    let mut options = TcpKeepalive::new();
    if general.tcp_keepidle > 0 {
        options = options.with_time(seconds(general.tcp_keepidle));
    }
    if general.tcp_keepintvl > 0 {
        options = options.with_interval(seconds(general.tcp_keepintvl));
    }
    if general.tcp_keepcnt > 0 {
        options = options.with_retries(general.tcp_keepcnt);
    }
    options
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
