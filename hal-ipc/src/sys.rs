//! System calls that `nix` lacks, each behind one safe function.

#![expect(unsafe_code, reason = "nix drops the descriptors of a message that was cut short")]

use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use nix::errno::Errno;

use crate::wire::MAX_DESCRIPTORS;

/// A message's bytes, and the file descriptors that came with them.
#[derive(Debug)]
pub(crate) struct Received {
    /// How many bytes.
    pub(crate) bytes: usize,
    pub(crate) fds: Vec<OwnedFd>,
    /// True if descriptors were sent that the system had no room for.
    pub(crate) is_cut_short: bool,
}

/// Bytes of control messages with [`MAX_DESCRIPTORS`] descriptors, as many as the system sends.
const CONTROL_BYTES: usize = {
    #[expect(clippy::cast_possible_truncation, reason = "a kilobyte")]
    let descriptors = (MAX_DESCRIPTORS * size_of::<RawFd>()) as libc::c_uint;
    // SAFETY: arithmetic on a number.
    (unsafe { libc::CMSG_SPACE(descriptors) }) as usize
};

/// Room for control messages, aligned as their headers are.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

const _: () = assert!(align_of::<Control>() >= align_of::<libc::cmsghdr>());

/// Takes what there is to read from a socket, without waiting. Descriptors are closed on `exec`,
/// and all that arrived are in the result, also where others got lost.
pub(crate) fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<Received, Errno> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all zeros is a valid msghdr: no address, no bytes, no control messages.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.0.as_mut_ptr().cast();
    // Its type differs between C libraries.
    message.msg_controllen = CONTROL_BYTES as _;
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: the message names memory that lives during the call, and its lengths.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let bytes = usize::try_from(Errno::result(count)?).unwrap_or(0);
    let is_cut_short = message.msg_flags & libc::MSG_CTRUNC != 0;
    Ok(Received { bytes, fds: descriptors(&message), is_cut_short })
}

/// Takes the descriptors out of a message that the system filled. Once for each message.
fn descriptors(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the system filled the control messages, and says how many bytes they have.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while let Some(found) = NonNull::new(at) {
        // SAFETY: within the control messages, and aligned as they are.
        let header = unsafe { found.read() };
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: arithmetic on a number.
            let head = unsafe { libc::CMSG_LEN(0) } as usize;
            #[expect(clippy::unnecessary_cast, reason = "its type differs between C libraries")]
            let length = (header.cmsg_len as usize).saturating_sub(head);
            // SAFETY: the header is one of the message's.
            let data = unsafe { libc::CMSG_DATA(at) }.cast::<RawFd>();
            for index in 0..length / size_of::<RawFd>() {
                // SAFETY: within the control message's bytes, which need no alignment.
                let fd = unsafe { data.add(index).read_unaligned() };
                // SAFETY: the system made it for this message, and nobody else knows of it.
                fds.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        // SAFETY: as for the first.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    fds
}

/// A descriptor of its own for what this number refers to; an error where it refers to nothing.
pub(crate) fn duplicate(number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: takes numbers, and no memory.
    let fd = Errno::result(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: a new descriptor, which nobody else knows of.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

    use super::*;

    fn send(socket: &UnixStream, fds: &[RawFd]) {
        let sent = sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(b"fds")],
            &[ControlMessage::ScmRights(fds)],
            MsgFlags::empty(),
            None,
        );
        assert_eq!(sent, Ok(3));
    }

    #[test]
    fn descriptors_arrive_as_many_as_were_sent_and_are_not_inherited() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        for count in [1, 2, MAX_DESCRIPTORS] {
            send(&theirs, &vec![null.as_raw_fd(); count]);
            let mut bytes = [0; 8];
            let received = receive(ours.as_fd(), &mut bytes).unwrap();
            assert_eq!((received.bytes, received.fds.len()), (3, count));
            assert!(!received.is_cut_short);
            for fd in &received.fds {
                let flags = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_GETFD).unwrap();
                assert_eq!(flags, libc::FD_CLOEXEC);
            }
        }
    }

    #[test]
    fn what_is_not_there_is_an_error_and_what_has_no_descriptors_has_none() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut bytes = [0; 8];
        assert_eq!(receive(ours.as_fd(), &mut bytes).unwrap_err(), Errno::EAGAIN);
        theirs.write_all(b"no").unwrap();
        let received = receive(ours.as_fd(), &mut bytes).unwrap();
        assert_eq!((received.bytes, received.fds.len()), (2, 0));
        drop(theirs);
        assert_eq!(receive(ours.as_fd(), &mut bytes).unwrap().bytes, 0);
    }

    #[test]
    fn numbers_of_nothing_are_errors() {
        assert_eq!(duplicate(-1).unwrap_err(), Errno::EBADF);
        assert_eq!(duplicate(RawFd::MAX).unwrap_err(), Errno::EBADF);
    }
}
