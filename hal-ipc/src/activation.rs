//! Sockets that a service manager opened for us: systemd's socket activation.
//!
//! The manager listens, and starts us with the first client; descriptors 3 and up are ours if
//! `LISTEN_PID` is us, and `LISTEN_FDS` says how many there are.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockaddrLike, SockaddrStorage, getsockname, getsockopt, sockopt,
};
use nnburst_hal::environment;

use crate::spawn::inherited;

/// The first descriptor that a service manager hands over.
const FIRST: u32 = 3;

/// The listening socket that we were started with, if we were started with one.
///
/// # Errors
/// What came is no listening Unix socket, or more than one came: a service has one.
pub(crate) fn listener() -> io::Result<Option<OwnedFd>> {
    let number = |name| environment(name)?.to_str()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(None);
    }
    match number("LISTEN_FDS") {
        None | Some(0) => Ok(None),
        Some(1) => listening(inherited(FIRST)?).map(Some),
        Some(count) => {
            let reason =
                format!("{count} sockets came from the service manager, a service has one");
            Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
        }
    }
}

/// The socket, if it listens.
pub(crate) fn listening(socket: OwnedFd) -> io::Result<OwnedFd> {
    let address = getsockname::<SockaddrStorage>(socket.as_raw_fd())?;
    let is_unix = address.family() == Some(AddressFamily::Unix);
    if is_unix && getsockopt(&socket, sockopt::AcceptConn)? {
        return Ok(socket);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the descriptor is no listening Unix socket"))
}
