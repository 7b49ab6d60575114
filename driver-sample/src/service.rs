//! What `nnburst serve` does: a sample driver behind a socket.

use std::io;
use std::path::Path;

use nnburst_hal_ipc::{Serving, inherited, raise_descriptor_limit};

use crate::device::SampleDriver;

/// Listens on the socket that systemd started this process with, or else as the driver's name in a directory
/// of services ([`service_dir`](nnburst_hal_ipc::service_dir) is the usual one), until what it returns is
/// dropped.
///
/// # Errors
/// The directory is not ours alone, or the name is served already.
pub fn serve_in(driver: &SampleDriver, dir: &Path) -> io::Result<Serving> {
    raise_descriptor_limit();
    let service = driver.service();
    match service.listen_activated()? {
        Some(serving) => Ok(serving),
        None => service.listen(dir),
    }
}

/// Serves the one client at the other end of an inherited socket, until it hangs up: what a driver
/// does that [`Spawned`](nnburst_hal_ipc::Spawned) started.
///
/// # Errors
/// There is no such descriptor.
pub fn serve_inherited(driver: &SampleDriver, number: u32) -> io::Result<()> {
    raise_descriptor_limit();
    let socket = inherited(number)?;
    driver.service().serve(socket);
    Ok(())
}
