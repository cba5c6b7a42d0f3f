//! Readiness, and the receives and sends of a batch. They go out either as one io_uring submission or as plain system
//! calls; nothing else in the program knows which.
//!
//! Architecture invariant: every request completes before the call returns. Sockets are non-blocking and MSG_DONTWAIT is set, so no buffer
//! outlives a call and nothing has to be cancelled when a connection moves or closes.

use io_uring::{IoUring, opcode, types};
use mio::unix::SourceFd;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// Bytes of one receive: 64 KiB costs least per byte of large results, and small ones touch only its first page.
pub const SLOT_SIZE: usize = 64 * 1024;
/// Receives in one batch.
pub const BATCH: usize = 32;
const EVENTS: usize = 256;
const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
const READING: mio::Interest = mio::Interest::READABLE;

/// Which system interface carries receives and sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface {
    IoUring,
    Epoll,
}

pub struct Reactor {
    poll: mio::Poll,
    events: mio::Events,
    ring: Option<Box<IoUring>>,
}

/// What happened on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    pub token: usize,
    pub readable: bool,
    pub writable: bool,
    /// The peer has closed, or will not send any more.
    pub closed: bool,
}

/// The receive buffers of a worker, one for each receive of a batch.
pub struct Slots {
    memory: Vec<u8>,
}

impl Slots {
    pub fn new(count: usize) -> Slots {
        Slots {
            memory: vec![0; count * SLOT_SIZE],
        }
    }

    /// `len` bytes of a slot, from `start` on.
    pub fn part(&self, slot: usize, start: usize, len: usize) -> &[u8] {
        &self.memory[slot * SLOT_SIZE + start..][..len]
    }

    pub fn space(&mut self, slot: usize) -> &mut [u8] {
        &mut self.memory[slot * SLOT_SIZE..(slot + 1) * SLOT_SIZE]
    }
}

/// One receive: into the slot of its number in the batch.
pub struct Receive {
    pub token: usize,
    pub fd: RawFd,
    /// Bytes received; 0 at the end of the stream.
    pub result: io::Result<usize>,
}

/// The sends of a batch.
#[derive(Default)]
pub struct Outgoing {
    pieces: Vec<libc::iovec>,
    sends: Vec<Send>,
    headers: Vec<libc::msghdr>,
}

struct Send {
    fd: RawFd,
    /// Whose output it is, in the outbox.
    number: usize,
    first: usize,
    count: usize,
    /// Of a send of several pieces: its place among the headers.
    header: usize,
    result: io::Result<usize>,
}

impl Outgoing {
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.sends.clear();
        self.headers.clear();
    }

    /// Begins the send of one connection; its pieces follow.
    pub fn begin(&mut self, fd: RawFd, number: usize) {
        self.sends.push(Send {
            fd,
            number,
            first: self.pieces.len(),
            count: 0,
            header: 0,
            result: Ok(0),
        });
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.pieces.push(libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        });
        if let Some(send) = self.sends.last_mut() {
            send.count += 1;
        }
    }

    pub fn len(&self) -> usize {
        self.sends.len()
    }

    /// What came of a send: its number in the outbox, and the bytes that the socket took.
    pub fn take_result(&mut self, send: usize) -> (usize, io::Result<usize>) {
        let send = &mut self.sends[send];
        (send.number, std::mem::replace(&mut send.result, Ok(0)))
    }

    /// Message headers for the sends of several pieces; made last, when no piece moves any more.
    fn make_headers(&mut self) {
        for send in self.sends.iter_mut().filter(|send| send.count > 1) {
            send.header = self.headers.len();
            // SAFETY: all-zero is a valid msghdr; the fields that matter are set below.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            header.msg_iov = self.pieces[send.first..].as_ptr().cast_mut();
            header.msg_iovlen = send.count.min(PIECES_MAX) as _;
            self.headers.push(header);
        }
    }
}

/// IOV_MAX of Linux; what is beyond it goes into the backlog and out with the next send.
const PIECES_MAX: usize = 1024;

impl Reactor {
    /// # Errors
    /// What the system says if it has no epoll, or no io_uring when that is asked for.
    pub fn new(interface: Interface) -> io::Result<Reactor> {
        let ring = match interface {
            Interface::IoUring => Some(Box::new(
                IoUring::builder()
                    .setup_single_issuer()
                    .setup_coop_taskrun()
                    .build(2 * EVENTS as u32)?,
            )),
            Interface::Epoll => None,
        };
        Ok(Reactor {
            poll: mio::Poll::new()?,
            events: mio::Events::with_capacity(EVENTS),
            ring,
        })
    }

    pub fn poll(&self) -> &mio::Poll {
        &self.poll
    }

    /// Registers a connection for reading, edge-triggered. Closing the descriptor ends that.
    pub fn register(&self, fd: &OwnedFd, token: usize) -> io::Result<()> {
        let mut source = SourceFd(&fd.as_raw_fd());
        let registry = self.poll.registry();
        registry.register(&mut source, mio::Token(token), READING)
    }

    /// Gives its own token to a connection that has been registered with the mailbox's. If there is something to read, the kernel says so again.
    pub fn adopt(&self, fd: &OwnedFd, token: usize) -> io::Result<()> {
        let mut source = SourceFd(&fd.as_raw_fd());
        let registry = self.poll.registry();
        registry.reregister(&mut source, mio::Token(token), READING)
    }

    /// From now on the kernel also says when a socket that was full takes bytes again. Most never are.
    pub fn watch_writable(&self, fd: RawFd, token: usize) -> io::Result<()> {
        let interest = READING | mio::Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.reregister(&mut SourceFd(&fd), mio::Token(token), interest)
    }

    /// For a connection that moves to another worker.
    pub fn deregister(&self, fd: &OwnedFd) {
        let _ = self
            .poll
            .registry()
            .deregister(&mut SourceFd(&fd.as_raw_fd()));
    }

    /// Waits until something is ready or the time is over.
    pub fn wait(&mut self, timeout: Duration, ready: &mut Vec<Readiness>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        ready.extend(self.events.iter().map(|event| Readiness {
            token: event.token().0,
            readable: event.is_readable(),
            writable: event.is_writable(),
            closed: event.is_read_closed() || event.is_error(),
        }));
        Ok(())
    }

    /// Carries out all receives, each into the slot of its number.
    pub fn receive(&mut self, batch: &mut [Receive], slots: &mut Slots) {
        match &mut self.ring {
            Some(ring) if batch.len() > 1 => receive_in_ring(ring, batch, slots),
            _ => {
                for (slot, receive) in batch.iter_mut().enumerate() {
                    // SAFETY: its connection owns the descriptor and is not closed before the batch is over.
                    let fd = unsafe { BorrowedFd::borrow_raw(receive.fd) };
                    receive.result = rustix::net::recv(fd, slots.space(slot), RecvFlags::DONTWAIT)
                        .map(|(received, _)| received)
                        .map_err(io::Error::from);
                }
            }
        }
    }

    /// Carries out all sends. The bytes that the pieces point to must be alive.
    pub fn send(&mut self, outgoing: &mut Outgoing) {
        outgoing.make_headers();
        match &mut self.ring {
            Some(ring) if outgoing.sends.len() > 1 => send_in_ring(ring, outgoing),
            _ => {
                for send in &mut outgoing.sends {
                    send.result = match send.count {
                        1 => send_piece(send.fd, &outgoing.pieces[send.first]),
                        _ => send_pieces(send.fd, &outgoing.headers[send.header]),
                    };
                }
            }
        }
    }
}

/// By the bare system call: libc's makes each a point where a thread could be cancelled, which costs more than all else around it.
fn send_piece(fd: RawFd, piece: &libc::iovec) -> io::Result<usize> {
    // SAFETY: the connection owns the descriptor and is not closed before the batch is over; the piece's bytes are alive until then.
    let (fd, bytes) = unsafe {
        let start = piece.iov_base.cast::<u8>();
        let bytes = std::slice::from_raw_parts(start, piece.iov_len);
        (BorrowedFd::borrow_raw(fd), bytes)
    };
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::send(fd, bytes, flags).map_err(io::Error::from)
}

fn send_pieces(fd: RawFd, header: &libc::msghdr) -> io::Result<usize> {
    // SAFETY: pieces and header are valid until the call returns, and it does not keep them.
    let sent = unsafe { libc::sendmsg(fd, header, FLAGS) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn receive_in_ring(ring: &mut IoUring, batch: &mut [Receive], slots: &mut Slots) {
    for (slot, receive) in batch.iter().enumerate() {
        let space = slots.space(slot);
        let entry = opcode::Recv::new(
            types::Fd(receive.fd),
            space.as_mut_ptr(),
            space.len() as u32,
        )
        .flags(libc::MSG_DONTWAIT)
        .build()
        .user_data(slot as u64);
        submit(ring, &entry);
    }
    complete(ring, batch.len(), |number, result| {
        batch[number].result = result
    });
}

/// In parts that fit into the submission queue: a notification, or the end of a database, concerns any number of clients.
fn send_in_ring(ring: &mut IoUring, outgoing: &mut Outgoing) {
    let Outgoing {
        sends,
        pieces,
        headers,
        ..
    } = outgoing;
    for part in sends.chunks_mut(EVENTS) {
        for (number, send) in part.iter().enumerate() {
            let piece = pieces[send.first];
            let entry = match send.count {
                1 => opcode::Send::new(
                    types::Fd(send.fd),
                    piece.iov_base.cast(),
                    piece.iov_len as u32,
                )
                .flags(FLAGS)
                .build(),
                _ => opcode::SendMsg::new(types::Fd(send.fd), &headers[send.header])
                    .flags(FLAGS as u32)
                    .build(),
            };
            submit(ring, &entry.user_data(number as u64));
        }
        complete(ring, part.len(), |number, result| {
            part[number].result = result
        });
    }
}

fn submit(ring: &mut IoUring, entry: &io_uring::squeue::Entry) {
    // SAFETY: what the entry points to is alive until `complete` has returned.
    // The queue is larger than any batch, and it was emptied by the batch before.
    let pushed = unsafe { ring.submission().push(entry) };
    debug_assert!(
        pushed.is_ok(),
        "a batch is smaller than the submission queue"
    );
}

/// Submits what was pushed and waits until all of it is done: the kernel completes each request inline.
fn complete(ring: &mut IoUring, count: usize, mut done: impl FnMut(usize, io::Result<usize>)) {
    let mut seen = 0;
    while seen < count {
        match ring.submit_and_wait(count - seen) {
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) => {}
            Err(error) => {
                // Nothing in flight may be left behind; without the ring no connection can be served.
                tracing::error!(%error, "io_uring failed");
                std::process::abort();
            }
        }
        for completion in ring.completion() {
            let result = completion.result();
            let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            done(completion.user_data() as usize, result);
            seen += 1;
        }
    }
}

/// Which interface `auto` means here: io_uring, if the kernel lets this process use it.
pub fn probe() -> Result<(), io::Error> {
    Reactor::new(Interface::IoUring).map(|_| ())
}
