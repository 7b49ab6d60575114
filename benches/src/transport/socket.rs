//! `unix-socket`: a seqpacket socket each way, blocking.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};

use super::{Channel, Message, Rx, Tx};
use crate::Result;
use crate::link::Link;

/// The transport.
#[derive(Debug)]
pub struct Seqpacket;

/// One end.
#[derive(Debug)]
pub struct SocketEnd(OwnedFd);

impl<M: Message> Channel<M> for Seqpacket {
    type Both = SocketEnd;
    type Tx = SocketEnd;
    type Rx = SocketEnd;

    fn create(link: &Link) -> Result<SocketEnd> {
        let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
        let (ours, theirs) = socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC)?;
        link.send(b"socket", &[theirs.as_fd()])?;
        Ok(SocketEnd(ours))
    }

    fn join(link: &Link) -> Result<SocketEnd> {
        let (_, mut fds) = link.expect()?;
        Ok(SocketEnd(fds.pop().ok_or("a socket without a file")?))
    }

    fn tx(both: SocketEnd) -> Result<SocketEnd> {
        Ok(both)
    }

    fn rx(both: SocketEnd) -> Result<SocketEnd> {
        Ok(both)
    }
}

impl<M: Message> Tx<M> for SocketEnd {
    fn put(&mut self, message: &M) -> Result<()> {
        send(self.0.as_raw_fd(), bytemuck::bytes_of(message), MsgFlags::MSG_NOSIGNAL)?;
        Ok(())
    }
}

impl<M: Message> Rx<M> for SocketEnd {
    fn take(&mut self, message: &mut M) -> Result<()> {
        let room = bytemuck::bytes_of_mut(message);
        let bytes = recv(self.0.as_raw_fd(), room, MsgFlags::empty())?;
        if bytes == size_of::<M>() { Ok(()) } else { Err(format!("{bytes} bytes came").into()) }
    }
}
