//! `eventfd`: the kernel's counter, blocking. Its eight bytes are all it carries.

use std::os::fd::{AsFd, OwnedFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::{Channel, Rx, Tx};
use crate::Result;
use crate::link::Link;

/// The transport.
#[derive(Debug)]
pub struct Eventfd;

/// One end.
#[derive(Debug)]
pub struct EventfdEnd(OwnedFd);

impl Channel<[u64; 1]> for Eventfd {
    type Both = EventfdEnd;
    type Tx = EventfdEnd;
    type Rx = EventfdEnd;

    fn create(link: &Link) -> Result<EventfdEnd> {
        let fd = OwnedFd::from(EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?);
        link.send(b"eventfd", &[fd.as_fd()])?;
        Ok(EventfdEnd(fd))
    }

    fn join(link: &Link) -> Result<EventfdEnd> {
        let (_, mut fds) = link.expect()?;
        Ok(EventfdEnd(fds.pop().ok_or("an eventfd without a file")?))
    }

    fn tx(both: EventfdEnd) -> Result<EventfdEnd> {
        Ok(both)
    }

    fn rx(both: EventfdEnd) -> Result<EventfdEnd> {
        Ok(both)
    }
}

impl Tx<[u64; 1]> for EventfdEnd {
    fn put(&mut self, [number]: &[u64; 1]) -> Result<()> {
        nix::unistd::write(&self.0, &number.to_ne_bytes())?;
        Ok(())
    }
}

impl Rx<[u64; 1]> for EventfdEnd {
    fn take(&mut self, [number]: &mut [u64; 1]) -> Result<()> {
        let mut bytes = [0; 8];
        nix::unistd::read(&self.0, &mut bytes)?;
        *number = u64::from_ne_bytes(bytes);
        Ok(())
    }
}
