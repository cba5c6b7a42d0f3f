//! Where clients come in: the TCP and Unix sockets that Weir listens on, and the loops that accept connections from them.
//!
//! Owns the listening sockets, their options (which accepted sockets inherit) and the Unix socket's file. What an accepted connection
//! says is the log-in's part ([`super::login`]).

mod unix;

use super::login::{self, Reception, Visitor};
use crate::shared::Address;
use settings::General;
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;

/// Connections accepted from one socket before the others get their turn.
const BATCH: usize = 64;
/// How long nothing is accepted when the process is out of file descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);
/// The least time between two log lines about that.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

/// Why Weir cannot listen. The operator's fault.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot resolve listen_addr \"{name}\": {source}")]
    Name { name: String, source: io::Error },
    #[error("cannot listen on {address}: {source}")]
    Tcp {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot listen on the Unix socket {path}: {source}")]
    Unix { path: String, source: io::Error },
    #[error("the Unix socket {path} is in use: another process listens on it")]
    InUse { path: String },
    #[error("unix_socket_group \"{0}\" does not exist")]
    Group(String),
    #[error("nowhere to listen: set listen_addr or unix_socket_dir")]
    Nowhere,
}

/// Sockets that listen, and from which nobody accepts yet.
pub struct Listeners {
    doors: Vec<Door>,
}

/// The running accept loops; dropping it closes the sockets.
pub struct Serving {
    tcp: Vec<AbortHandle>,
    unix: Vec<AbortHandle>,
}

/// One listening socket.
enum Door {
    Tcp {
        listener: mio::net::TcpListener,
        address: SocketAddr,
    },
    Unix {
        listener: mio::net::UnixListener,
        path: PathBuf,
        _file: Option<unix::SocketFile>,
    },
}

/// Opens every socket that the configuration names. Names are resolved here, which may block: to be called at start.
///
/// # Errors
/// The first socket that cannot be opened; those opened before are closed again.
pub fn bind(general: &General) -> Result<Listeners, ListenError> {
    let mut doors = Vec::new();
    for name in &general.listen_addr {
        for address in addresses(name, general.listen_port)? {
            doors.extend(open_tcp(address, name, general)?);
        }
    }
    if let Some(dir) = &general.unix_socket_dir {
        let (listener, path, file) = unix::open(dir, general)?;
        doors.push(Door::Unix {
            listener,
            path,
            _file: file,
        });
    }
    match doors.is_empty() {
        true => Err(ListenError::Nowhere),
        false => Ok(Listeners { doors }),
    }
}

/// `*` is every address of both families.
fn addresses(name: &str, port: u16) -> Result<Vec<SocketAddr>, ListenError> {
    if name == "*" {
        return Ok(vec![
            (Ipv4Addr::UNSPECIFIED, port).into(),
            (Ipv6Addr::UNSPECIFIED, port).into(),
        ]);
    }
    let resolved = (name, port).to_socket_addrs();
    resolved
        .map(Iterator::collect)
        .map_err(|source| ListenError::Name {
            name: name.to_owned(),
            source,
        })
}

/// `None` for the second family of `*` on a machine that does not have it.
fn open_tcp(
    address: SocketAddr,
    name: &str,
    general: &General,
) -> Result<Option<Door>, ListenError> {
    match listening_socket(address, general) {
        Ok(socket) => {
            let listener = mio::net::TcpListener::from_std(socket.into());
            let address = listener.local_addr().unwrap_or(address);
            tracing::info!("listening on {address}");
            Ok(Some(Door::Tcp { listener, address }))
        }
        Err(error) if name == "*" && address.is_ipv6() && lacks_family(&error) => Ok(None),
        Err(source) => Err(ListenError::Tcp { address, source }),
    }
}

fn lacks_family(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}

fn listening_socket(address: SocketAddr, general: &General) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    set_options(SockRef::from(&socket), general)?;
    socket.listen(backlog(general))?;
    Ok(socket)
}

fn backlog(general: &General) -> i32 {
    i32::try_from(general.listen_backlog).unwrap_or(i32::MAX)
}

/// Sets what accepted sockets inherit from the listening one: no system call is spent on each of them.
fn set_options(socket: SockRef<'_>, general: &General) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(general.tcp_keepalive)?;
    if general.tcp_keepalive {
        set_keepalive(&socket, general)?;
    }
    if general.tcp_socket_buffer > 0 {
        let size = general.tcp_socket_buffer as usize;
        socket.set_send_buffer_size(size)?;
        socket.set_recv_buffer_size(size)?;
    }
    #[cfg(target_os = "linux")]
    {
        let longest = Duration::from_millis(general.tcp_user_timeout.into());
        socket.set_tcp_user_timeout((!longest.is_zero()).then_some(longest))?;
        defer_accept(socket.as_raw_fd(), general.tcp_defer_accept)?;
    }
    Ok(())
}

fn set_keepalive(socket: &SockRef<'_>, general: &General) -> io::Result<()> {
    let mut keepalive = TcpKeepalive::new();
    if general.tcp_keepidle > 0 {
        keepalive = keepalive.with_time(Duration::from_secs(general.tcp_keepidle.into()));
    }
    if general.tcp_keepintvl > 0 {
        keepalive = keepalive.with_interval(Duration::from_secs(general.tcp_keepintvl.into()));
    }
    if general.tcp_keepcnt > 0 {
        keepalive = keepalive.with_retries(general.tcp_keepcnt);
    }
    socket.set_tcp_keepalive(&keepalive)
}

/// `seconds` as PgBouncer takes it: 0 is off, 1 stands for 45 seconds. A connection that stays silent longer is accepted all the same.
#[cfg(target_os = "linux")]
fn defer_accept(fd: RawFd, seconds: u32) -> io::Result<()> {
    let seconds =
        libc::c_int::try_from(if seconds == 1 { 45 } else { seconds }).unwrap_or(libc::c_int::MAX);
    // SAFETY: the value is a live c_int and its size is given; the descriptor is only named.
    let outcome = unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            std::ptr::from_ref(&seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match outcome {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Listeners {
    /// Where TCP connections are taken.
    #[cfg(test)]
    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        let address = |door: &Door| match door {
            Door::Tcp { address, .. } => Some(*address),
            Door::Unix { .. } => None,
        };
        self.doors.iter().filter_map(address).collect()
    }

    /// Begins to accept. Has to be called within the control thread's runtime.
    ///
    /// # Errors
    /// The runtime cannot watch one more descriptor.
    pub fn serve(self, reception: &Arc<Reception>) -> io::Result<Serving> {
        let mut serving = Serving {
            tcp: Vec::new(),
            unix: Vec::new(),
        };
        for door in self.doors {
            let kind = match door {
                Door::Tcp { .. } => &mut serving.tcp,
                Door::Unix { .. } => &mut serving.unix,
            };
            // SAFETY: the door owns its descriptor, which stays open and the same until the task that accepts from it ends.
            let door =
                unsafe { AsyncFd::register_with_interest(door, tokio::io::Interest::READABLE) }?;
            kind.push(tokio::spawn(accept(door, Arc::clone(reception))).abort_handle());
        }
        Ok(serving)
    }
}

impl Serving {
    /// Stops listening on TCP, for a shutdown that waits: the Unix socket stays open for the console.
    pub fn close_tcp(&mut self) {
        self.tcp.drain(..).for_each(|task| task.abort());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.tcp
            .iter()
            .chain(&self.unix)
            .for_each(AbortHandle::abort);
    }
}

impl AsRawFd for Door {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Door::Tcp { listener, .. } => listener.as_raw_fd(),
            Door::Unix { listener, .. } => listener.as_raw_fd(),
        }
    }
}

impl Door {
    /// The next connection: its socket, non-blocking, its peer's address and our own.
    fn accept(&self) -> io::Result<(Socket, Address, Address)> {
        match self {
            Door::Tcp { listener, address } => {
                let (stream, peer) = listener.accept()?;
                let socket = Socket::from(OwnedFd::from(stream));
                let local = local_address(&socket, *address);
                Ok((socket, Address::Tcp(peer), Address::Tcp(local)))
            }
            Door::Unix { listener, path, .. } => {
                let (stream, _) = listener.accept()?;
                Ok((
                    Socket::from(OwnedFd::from(stream)),
                    Address::Unix(path.clone()),
                    Address::Unix(path.clone()),
                ))
            }
        }
    }
}

/// Ours is known without asking unless we listen on every address.
fn local_address(socket: &Socket, listening: SocketAddr) -> SocketAddr {
    if !listening.ip().is_unspecified() {
        return listening;
    }
    let own = socket
        .local_addr()
        .ok()
        .and_then(|address| address.as_socket());
    own.unwrap_or(listening)
}

/// Accepts for ever, one task per connection.
async fn accept(door: AsyncFd<Door>, reception: Arc<Reception>) {
    let mut pause = Pause::default();
    let mut applied = Arc::clone(&reception.shared().config.load().general);
    'idle: loop {
        let mut ready = match door.readable().await {
            Ok(ready) => ready,
            Err(error) => return tracing::error!(%error, "nothing more can be accepted"),
        };
        renew_options(door.get_ref(), &mut applied, &reception);
        for _ in 0..BATCH {
            match ready.try_io(|door| door.get_ref().accept()) {
                Err(_would_block) => continue 'idle,
                Ok(Ok((socket, peer, local))) => admit(&reception, socket, peer, local),
                Ok(Err(error)) if is_exhausted(&error) => {
                    pause.complain(&error);
                    tokio::time::sleep(PAUSE).await;
                }
                // The peer had gone before its turn came (accept(2) lists what may be reported here).
                Ok(Err(error)) => tracing::debug!(%error, "a connection could not be accepted"),
            }
        }
        tokio::task::yield_now().await;
    }
}

fn admit(reception: &Arc<Reception>, socket: Socket, peer: Address, local: Address) {
    let Some(arrival) = reception.arrive() else {
        tracing::debug!(?peer, "connection closed: too many are logging in");
        return;
    };
    tokio::spawn(login::serve(
        Arc::clone(reception),
        Visitor {
            socket,
            peer,
            local,
            arrival,
        },
    ));
}

/// A reload's values count for connections accepted from now on.
fn renew_options(door: &Door, applied: &mut Arc<General>, reception: &Reception) {
    let config = reception.shared().config.load();
    if Arc::ptr_eq(applied, &config.general) {
        return;
    }
    *applied = Arc::clone(&config.general);
    if let Door::Tcp { listener, .. } = door
        && let Err(error) = set_options(SockRef::from(listener), applied)
    {
        tracing::warn!(%error, "the new TCP settings could not be applied");
    }
}

/// Out of descriptors or memory: trying again at once would fail again, and the connection stays in the kernel's queue.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// When it was last said that nothing can be accepted.
#[derive(Default)]
struct Pause {
    said_at: Option<tokio::time::Instant>,
}

impl Pause {
    fn complain(&mut self, error: &io::Error) {
        if self
            .said_at
            .is_some_and(|said_at| said_at.elapsed() < COMPLAINT_INTERVAL)
        {
            return;
        }
        self.said_at = Some(tokio::time::Instant::now());
        tracing::error!(%error, "cannot accept connections, trying again every {} ms", PAUSE.as_millis());
    }
}
