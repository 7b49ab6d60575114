//! The control connection between the two processes of a run: commands, and the file descriptors of
//! the transports.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};

use crate::Result;

/// One end of a connection that keeps messages apart.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Both ends of a new connection.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn pair() -> Result<(Self, Self)> {
        let (a, b) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        Ok((Self(a), Self(b)))
    }

    /// The end that this process was started with as its standard input.
    ///
    /// # Errors
    /// If standard input can't be duplicated.
    pub fn inherited() -> Result<Self> {
        Ok(Self(std::io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// The descriptor, to give it to a child as standard input.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Another handle to this end.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Sleeps until the other end has closed; messages are left alone.
    pub fn wait_for_hang_up(&self) {
        let closed = PollFlags::from_bits_retain(libc::POLLRDHUP);
        let mut fds = [PollFd::new(self.0.as_fd(), closed)];
        while poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) {}
    }

    /// Sends `bytes`, at least one, and copies of `fds`, at most [`MOST_FDS`].
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        if fds.len() > MOST_FDS {
            return Err(format!("{} descriptors are more than {MOST_FDS}", fds.len()).into());
        }
        let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let control = if fds.is_empty() { &[][..] } else { &rights };
        let (parts, flags) = ([IoSlice::new(bytes)], MsgFlags::MSG_NOSIGNAL);
        sendmsg::<()>(self.0.as_raw_fd(), &parts, control, flags, None)?;
        Ok(())
    }

    /// Receives one message; `None` once the other end has closed.
    ///
    /// # Errors
    /// If the connection broke.
    pub fn receive(&self) -> Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; 4096];
        let mut space = nix::cmsg_space!([RawFd; MOST_FDS]);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let got = recvmsg::<()>(self.0.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        let mut fds = Vec::new();
        for message in got.cmsgs()? {
            if let ControlMessageOwned::ScmRights(more) = message {
                // SAFETY: the system made them for this message, and nobody else knows of them.
                fds.extend(more.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        let count = got.bytes;
        if count == 0 {
            return Ok(None);
        }
        bytes.truncate(count);
        Ok(Some((bytes, fds)))
    }

    /// [`Self::receive`], where the end of the connection is an error.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn expect(&self) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
        self.receive()?.ok_or_else(|| "the other process is gone".into())
    }
}

/// Most file descriptors in one message.
pub const MOST_FDS: usize = 8;
