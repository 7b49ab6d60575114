//! The control connection between the two processes of a run: commands, and the file descriptors of
//! the transports.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
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
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
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
        let mut fds = [PollFd::new(&self.0, PollFlags::RDHUP)];
        while let Err(rustix::io::Errno::INTR) = poll(&mut fds, None) {}
    }

    /// Sends `bytes`, at least one, and copies of `fds`, at most [`MOST_FDS`].
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(format!("{} descriptors are more than {MOST_FDS}", fds.len()).into());
        }
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives one message; `None` once the other end has closed.
    ///
    /// # Errors
    /// If the connection broke.
    pub fn receive(&self) -> Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if got.bytes == 0 {
            return Ok(None);
        }
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                fds.extend(more);
            }
        }
        bytes.truncate(got.bytes);
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
