//! A driver in a child process of one's own, over a socket that has no name.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use nnburst_hal::process::Origin;

use crate::client::{ConnectError, RemoteDevice};
use crate::sys::duplicate;

/// A driver's process and the device it serves; killed and reaped when dropped, but not by a forked
/// child of this process.
///
/// If this process is killed instead, the system closes its end of the socket, and the child's
/// [`Service::serve`](crate::Service::serve) returns. (A parent-death signal would be one more
/// string attached, and to the wrong thing: it fires when the *thread* that started the child
/// ends.)
#[derive(Debug)]
pub struct Spawned {
    child: Child,
    device: RemoteDevice,
    origin: Origin,
}

impl Spawned {
    /// Starts the command with the socket as its standard input (descriptor 0); the child serves it
    /// with [`Service::serve`](crate::Service::serve) on what [`inherited`] gives it.
    ///
    /// # Errors
    /// The command can't be started, or doesn't serve.
    pub fn start(command: &mut Command) -> Result<Self, ConnectError> {
        let failed = |error: io::Error| ConnectError::Unusable { why: error.to_string() };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let mut child = command.stdin(OwnedFd::from(theirs)).spawn().map_err(failed)?;
        // The command keeps its copy of the child's end; the child's death shows only once it is
        // gone.
        command.stdin(Stdio::null());
        match RemoteDevice::from_socket(ours.into()) {
            Ok(device) => Ok(Self { child, device, origin: Origin::here() }),
            Err(error) => {
                // Others tell what is wrong with a program that goes on.
                let is_lost = matches!(error, ConnectError::Lost { .. });
                let ended = if is_lost { ended_by_itself(&mut child) } else { None };
                end(&mut child);
                let program = command.get_program().display();
                Err(ended.map_or(error, |status| ConnectError::Lost {
                    why: format!("{program} ended before it served ({status})"),
                }))
            }
        }
    }

    /// The device.
    pub fn device(&self) -> &RemoteDevice {
        &self.device
    }

    /// The driver's process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status of the driver's process, which stays to be reaped; `None` while it runs, or
    /// where somebody else in this program has reaped it. A process closes its socket shortly
    /// before it can be waited for.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        if !self.origin.is_here() {
            return None;
        }
        let pid = Pid::from_raw(i32::try_from(self.child.id()).ok()?);
        let options = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        // As `wait` would encode them.
        match waitid(Id::Pid(pid), options).ok()? {
            WaitStatus::Exited(_, code) => Some(ExitStatus::from_raw((code & 0xff) << 8)),
            WaitStatus::Signaled(_, signal, _) => Some(ExitStatus::from_raw(signal as i32)),
            _ => None,
        }
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // A child of the process that started the driver has nothing to end.
        if self.origin.is_here() {
            end(&mut self.child);
        }
    }
}

/// How a program ended that closed its socket: shortly after that.
fn ended_by_itself(child: &mut Child) -> Option<ExitStatus> {
    /// Milliseconds for a process to end in.
    const PATIENCE: u32 = 100;
    (0..PATIENCE).find_map(|_| {
        let status = child.try_wait().ok().flatten();
        if status.is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        status
    })
}

fn end(child: &mut Child) {
    // Both fail only for a child that is gone and reaped.
    let _ = child.kill();
    let _ = child.wait();
}

/// A duplicate of a descriptor that this process was started with: the child's end of [`Spawned`]'s
/// socket (0), or one from a service manager.
///
/// # Errors
/// There is no such descriptor.
pub fn inherited(number: u32) -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if i64::from(number) == i64::from(stdin.as_raw_fd()) {
        return stdin.as_fd().try_clone_to_owned();
    }
    let number = i32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(duplicate(number)?)
}
