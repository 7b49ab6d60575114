//! The serving of `nnburst serve`: a driver behind a socket.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nnburst_hal::process;
use nnburst_hal_ipc::{BoundService, Service, Serving, inherited, raise_descriptor_limit};

use crate::device::CpuDriver;
use crate::sandbox::Sandbox;

/// Has a driver's [service](crate::CpuDriver::service) listen on the socket that systemd started
/// this process with, or else by its name in a directory of services
/// ([`service_dir`](nnburst_hal_ipc::service_dir) is the usual one), until what it returns is
/// dropped. With a sandbox, the process gives up the rest of its rights before
/// the first client is accepted.
///
/// # Errors
/// The directory is not ours alone, the name is served already, or the sandbox can't be entered.
pub fn serve_in(service: &Service, dir: &Path, sandbox: Option<&Sandbox>) -> io::Result<Serving> {
    raise_descriptor_limit();
    match service.bind_activated()? {
        Some(bound) => accept(bound, sandbox.cloned()),
        None => accept(service.bind(dir)?, sandbox.map(|sandbox| removing_in(sandbox, dir))),
    }
}

/// As [`serve_in`]; where another process serves by that name, it loses it to this one, and serves
/// on those clients that it has.
///
/// # Errors
/// The directory is not ours alone, the socket is a service manager's and this process isn't, or
/// the sandbox can't be entered.
pub fn take_over_in(
    service: &Service,
    dir: &Path,
    sandbox: Option<&Sandbox>,
) -> io::Result<Serving> {
    raise_descriptor_limit();
    if service.bind_activated()?.is_some() {
        let why = "a service manager's socket is its own to give: restart the service there";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let bound = service.take_over(dir)?;
    let removes = bound.has_own_socket();
    let sandbox =
        sandbox.map(|sandbox| if removes { removing_in(sandbox, dir) } else { sandbox.clone() });
    accept(bound, sandbox)
}

fn removing_in(sandbox: &Sandbox, dir: &Path) -> Sandbox {
    sandbox.clone().removing_in(dir)
}

fn accept(bound: BoundService, sandbox: Option<Sandbox>) -> io::Result<Serving> {
    if let Some(sandbox) = sandbox {
        sandbox.enforce()?;
    }
    bound.accept()
}

/// Serves the one client at the other end of an inherited socket, until it disconnects: what a
/// driver does that [`Spawned`](nnburst_hal_ipc::Spawned) started. With a sandbox, the process
/// gives up the rest of its rights first.
///
/// The disconnection stops what runs for the client, which takes some milliseconds. What does not
/// stop within half a second goes on in threads of its own when this returns, and ends with the
/// process.
///
/// No signal stays blocked in this thread: its mask is that of whoever started the program.
///
/// # Errors
/// There is no such descriptor, the sandbox can't be entered, or the system has no pipe or thread.
pub fn serve_inherited(
    driver: &CpuDriver,
    number: u32,
    sandbox: Option<&Sandbox>,
) -> io::Result<()> {
    raise_descriptor_limit();
    // Those that the thread blocked which started this program, such as one of a door's.
    SigSet::empty().thread_set_mask()?;
    let socket = inherited(number)?;
    if let Some(sandbox) = sandbox {
        sandbox.enforce()?;
    }
    let lifeline = socket.try_clone()?;
    let (over, ending) = io::pipe()?;
    let service = driver.service();
    process::spawn("nnburst-client", move || {
        service.serve(socket);
        // Whoever waits sees the end of the pipe, also if serving panics.
        drop(ending);
    })?;
    let wait = |fds: &mut [PollFd<'_>], limit: PollTimeout| loop {
        match poll(fds, limit) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    };
    let over = || PollFd::new(over.as_fd(), PollFlags::empty());
    let disconnection = PollFlags::from_bits_retain(libc::POLLRDHUP);
    // Hang-ups are told whether they are asked for or not; that of the client's half of the socket
    // is.
    wait(&mut [over(), PollFd::new(lifeline.as_fd(), disconnection)], PollTimeout::NONE)?;
    wait(&mut [over()], PollTimeout::from(FAREWELL_MS))?;
    Ok(())
}

/// The time that work for a disconnected client may take to stop, in milliseconds.
const FAREWELL_MS: u16 = 500;
