//! `eventfd`: the kernel's counter, blocking. Its eight bytes are all it carries.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::EventfdFlags;

use super::{Channel, Rx, Tx};
use crate::Result;
use crate::link::Link;

/// The transport.
#[derive(Debug)]
pub struct Eventfd;

/// One end.
#[derive(Debug)]
pub struct End(OwnedFd);

impl Channel<[u64; 1]> for Eventfd {
    type Both = End;
    type Tx = End;
    type Rx = End;

    fn create(link: &Link) -> Result<End> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        link.send(b"eventfd", &[fd.as_fd()])?;
        Ok(End(fd))
    }

    fn join(link: &Link) -> Result<End> {
        let (_, mut fds) = link.expect()?;
        Ok(End(fds.pop().ok_or("an eventfd without a file")?))
    }

    fn tx(both: End) -> Result<End> {
        Ok(both)
    }

    fn rx(both: End) -> Result<End> {
        Ok(both)
    }
}

impl Tx<[u64; 1]> for End {
    fn put(&mut self, [number]: &[u64; 1]) -> Result<()> {
        rustix::io::write(&self.0, &number.to_ne_bytes())?;
        Ok(())
    }
}

impl Rx<[u64; 1]> for End {
    fn take(&mut self, [number]: &mut [u64; 1]) -> Result<()> {
        let mut bytes = [0; 8];
        rustix::io::read(&self.0, &mut bytes)?;
        *number = u64::from_ne_bytes(bytes);
        Ok(())
    }
}
