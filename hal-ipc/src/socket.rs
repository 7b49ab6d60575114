//! Frames on a connected Unix stream socket, file descriptors included.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown,
};

use crate::limits::Charge;
use crate::wire::{self, GREETING_BYTES, HEADER_BYTES, Header, Kind, MAX_DESCRIPTORS, WireError};

/// How long a peer may take to read what we send, or to greet, before it counts as gone.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a frame that are allocated before any of them has arrived.
const FIRST_BITE: usize = 1 << 20;

/// Why nothing more comes from the peer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("the peer hung up")]
    HungUp,
    #[error("{call}: {errno}")]
    System { call: &'static str, errno: Errno },
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// A frame as it came.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) id: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
    /// For the descriptors; of calls and notes that were let in.
    pub(crate) charge: Option<Charge>,
}

/// A connected socket. Reading is for one thread at a time, writing too; both at once are fine.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    max_message: usize,
}

impl Socket {
    /// Takes a connected stream socket; messages longer than `max_message` are refused.
    pub(crate) fn new(fd: OwnedFd, max_message: usize) -> Result<Self, SocketError> {
        // A socket that came from elsewhere may be set not to block.
        rustix::io::ioctl_fionbio(&fd, false).map_err(system("ioctl(FIONBIO)"))?;
        let timeout = Some(PATIENCE);
        rustix::net::sockopt::set_socket_timeout(&fd, rustix::net::sockopt::Timeout::Send, timeout)
            .map_err(system("setsockopt(SO_SNDTIMEO)"))?;
        Ok(Self { fd, max_message })
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Ends both directions: whoever waits in a read or write of ours or of the peer's wakes up.
    pub(crate) fn shut_down(&self) {
        // The only error is that the peer was faster.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    pub(crate) fn send_greeting(&self, bytes: &[u8; GREETING_BYTES]) -> Result<(), SocketError> {
        self.send_all(&[bytes], &[])
    }

    /// Waits for the peer's greeting, but not for ever.
    pub(crate) fn receive_greeting(&self) -> Result<[u8; GREETING_BYTES], SocketError> {
        self.receive_greeting_within(PATIENCE)
    }

    fn receive_greeting_within(
        &self,
        patience: Duration,
    ) -> Result<[u8; GREETING_BYTES], SocketError> {
        self.set_receive_timeout(Some(patience))?;
        let mut bytes = [0; GREETING_BYTES];
        self.receive_exactly(&mut bytes)?;
        self.set_receive_timeout(None)?;
        Ok(bytes)
    }

    fn set_receive_timeout(&self, timeout: Option<Duration>) -> Result<(), SocketError> {
        rustix::net::sockopt::set_socket_timeout(
            &self.fd,
            rustix::net::sockopt::Timeout::Recv,
            timeout,
        )
        .map_err(system("setsockopt(SO_RCVTIMEO)"))
    }

    /// Sends one frame; its message is `head` and `tail` together.
    pub(crate) fn send(
        &self,
        kind: Kind,
        id: u64,
        [head, tail]: [&[u8]; 2],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), SocketError> {
        let length = head.len().saturating_add(tail.len());
        let limit = self.max_message;
        let too_long =
            WireError::TooLong { bytes: u64::try_from(length).unwrap_or(u64::MAX), limit };
        let Some(bytes) = u32::try_from(length).ok().filter(|_| length <= limit) else {
            return Err(too_long.into());
        };
        let descriptors = u16::try_from(fds.len()).unwrap_or(u16::MAX);
        let header = Header { bytes, descriptors, kind, id }.to_bytes();
        self.send_all(&[&header, head, tail], fds)
    }

    /// The descriptors go with the first byte, and with it alone.
    fn send_all(&self, parts: &[&[u8]], fds: &[BorrowedFd<'_>]) -> Result<(), SocketError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut slices: [IoSlice<'_>; 3] =
            [IoSlice::new(&[]), IoSlice::new(&[]), IoSlice::new(&[])];
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        let mut rest: &mut [IoSlice<'_>] = &mut slices;
        let mut fds = fds;
        while rest.iter().any(|slice| !slice.is_empty()) {
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(SocketError::System { call: "sendmsg", errno: Errno::INVAL });
            }
            match rustix::net::sendmsg(&self.fd, rest, &mut control, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    fds = &[];
                    IoSlice::advance_slices(&mut rest, sent);
                }
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(SocketError::HungUp),
                Err(errno) => return Err(SocketError::System { call: "sendmsg", errno }),
            }
        }
        Ok(())
    }

    /// Waits for the next frame.
    pub(crate) fn receive(&self) -> Result<Frame, SocketError> {
        let mut bytes = [0; HEADER_BYTES];
        let fds = self.receive_header(&mut bytes)?;
        let header = Header::parse(bytes, self.max_message)?;
        if usize::from(header.descriptors) != fds.len() {
            let (said, came) = (header.descriptors, fds.len());
            return Err(WireError::Descriptors { said, came }.into());
        }
        let payload = self.receive_payload(usize::try_from(header.bytes).unwrap_or(0))?;
        Ok(Frame { kind: header.kind, id: header.id, payload, fds, charge: None })
    }

    /// Descriptors are taken with the header's bytes only: those sent later are closed by the system.
    fn receive_header(&self, bytes: &mut [u8]) -> Result<Vec<OwnedFd>, SocketError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut fds = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let received = rustix::net::recvmsg(
                &self.fd,
                &mut [IoSliceMut::new(rest)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            );
            let message = match received {
                Ok(message) if message.bytes == 0 => return Err(SocketError::HungUp),
                Ok(message) => message,
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) => return Err(SocketError::HungUp),
                Err(errno) => return Err(SocketError::System { call: "recvmsg", errno }),
            };
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(came) = message {
                    fds.extend(came);
                }
            }
            // Some could not be taken: this process has too many open, or there were too many.
            if message.flags.contains(ReturnFlags::CTRUNC) || fds.len() > MAX_DESCRIPTORS {
                return Err(SocketError::System { call: "recvmsg", errno: Errno::MFILE });
            }
            rest = rest.get_mut(message.bytes..).unwrap_or_default();
        }
        Ok(fds)
    }

    /// Memory grows with what has arrived, so that a header alone makes nobody allocate.
    fn receive_payload(&self, length: usize) -> Result<Vec<u8>, SocketError> {
        let mut payload = Vec::new();
        while payload.len() < length {
            let start = payload.len();
            let bite = length.saturating_sub(start).min(start.max(FIRST_BITE));
            payload.resize(start.saturating_add(bite), 0);
            self.receive_exactly(payload.get_mut(start..).unwrap_or_default())?;
        }
        Ok(payload)
    }

    fn receive_exactly(&self, bytes: &mut [u8]) -> Result<(), SocketError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::net::recv(&self.fd, &mut *rest, RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Err(SocketError::HungUp),
                Ok((received, _)) => rest = rest.get_mut(received..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(SocketError::System { call: "recv", errno }),
            }
        }
        Ok(())
    }
}

fn system(call: &'static str) -> impl FnOnce(Errno) -> SocketError {
    move |errno| SocketError::System { call, errno }
}

/// Whether whoever is at the other end greets, whatever they say.
pub(crate) fn is_answered(socket: OwnedFd, patience: Duration) -> bool {
    let ask = || -> Result<_, SocketError> {
        let socket = Socket::new(socket, 0)?;
        socket.send_greeting(&wire::greeting(wire::Verdict::Welcome))?;
        socket.receive_greeting_within(patience)
    };
    ask().is_ok()
}

/// The client's half of the greeting: says our version, hears theirs.
pub(crate) fn greet(socket: &Socket) -> Result<(u32, wire::Verdict), SocketError> {
    socket.send_greeting(&wire::greeting(wire::Verdict::Welcome))?;
    Ok(wire::parse_greeting(&socket.receive_greeting()?)?)
}
