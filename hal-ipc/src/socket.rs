//! Frames on a connected Unix stream socket, file descriptors included.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::sys::{self, Received};
use crate::wire::{self, GREETING_BYTES, HEADER_BYTES, Header, Kind, MAX_DESCRIPTORS, WireError};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    ControlMessage, MsgFlags, Shutdown, recv, sendmsg, setsockopt, shutdown, sockopt,
};
use nix::sys::time::{TimeSpec, TimeVal, TimeValLike};
use nnburst_hal::process;
use nnburst_hal::{Budget, Charge, ErrorStatus, HalError, Resource, TimePoint};

/// The time that a peer may take to read what we send, or to greet, before it counts as
/// disconnected.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a frame that are allocated before any of them has arrived.
const FIRST_BITE: usize = 1 << 20;

/// Messages that are no longer than this come with their connection: they are charged to nobody, so
/// that what is small is taken also of who has used up everything.
const SMALL: usize = 4 << 10;

/// Messages that are longer leave more behind in the allocator than it is worth keeping, and take
/// milliseconds to read and to answer.
pub(crate) const MUCH: usize = 64 << 10;

/// Held by whoever takes file descriptors in, until they are charged or closed: at most one message
/// of them is charged to nobody.
static ARRIVAL: Mutex<()> = Mutex::new(());

/// Why nothing more comes from the peer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("the peer hung up")]
    HungUp,
    #[error("{call}: {}", io::Error::from(*errno))]
    System { call: &'static str, errno: Errno },
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// The part of a frame that was sent before a deadline.
#[derive(Debug)]
pub(crate) enum Sent {
    Whole,
    /// All but these bytes. The descriptors went with the first.
    InPart(Vec<u8>),
    Nothing,
}

/// A frame as it came.
#[derive(Debug)]
pub(crate) struct ReceivedFrame {
    pub(crate) kind: Kind,
    pub(crate) id: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) fds: Arrived,
    /// For the bytes of the payload.
    pub(crate) charge: Charge,
    /// The peer's budget has no room for the message: payload and descriptors were discarded.
    pub(crate) refused: Option<HalError>,
}

/// File descriptors, each with what it is charged.
pub(crate) type Arrived = Vec<(OwnedFd, Charge)>;

/// A connected socket. Reading is for one thread at a time, writing too; both at once are fine.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: Arc<OwnedFd>,
    max_message: usize,
    /// True once a message was longer than [`MUCH`], or was to be. Relaxed: a hint.
    has_received_much: Arc<AtomicBool>,
}

impl Socket {
    /// Takes a connected stream socket; messages longer than `max_message` are refused.
    pub(crate) fn new(
        fd: impl Into<Arc<OwnedFd>>,
        max_message: usize,
    ) -> Result<Self, SocketError> {
        let fd = fd.into();
        // A socket that came from elsewhere may be set not to block.
        let flags = fcntl(&fd, FcntlArg::F_GETFL).map_err(system("fcntl(F_GETFL)"))?;
        let flags = OFlag::from_bits_retain(flags).difference(OFlag::O_NONBLOCK);
        fcntl(&fd, FcntlArg::F_SETFL(flags)).map_err(system("fcntl(F_SETFL)"))?;
        setsockopt(&fd, sockopt::SendTimeout, &socket_timeout(PATIENCE))
            .map_err(system("setsockopt(SO_SNDTIMEO)"))?;
        Ok(Self { fd, max_message, has_received_much: Arc::default() })
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The flag that is set with the first long message, for whoever cleans up behind them.
    pub(crate) fn has_received_much(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_received_much)
    }

    /// Ends both directions: whoever waits in a read or write of ours or of the peer's wakes up.
    pub(crate) fn shut_down(&self) {
        // The only error is that the peer was faster.
        let _ = shutdown(self.fd.as_raw_fd(), Shutdown::Both);
    }

    pub(crate) fn send_greeting(&self, bytes: &[u8; GREETING_BYTES]) -> Result<(), SocketError> {
        self.send_all(&[bytes], &[])
    }

    /// Waits for the peer's greeting, but not for ever.
    pub(crate) fn receive_greeting(&self) -> Result<[u8; GREETING_BYTES], SocketError> {
        self.receive_greeting_within(PATIENCE)
    }

    /// All of it arrives within `patience`, however slowly.
    fn receive_greeting_within(
        &self,
        patience: Duration,
    ) -> Result<[u8; GREETING_BYTES], SocketError> {
        let end = Instant::now().checked_add(patience);
        let mut bytes = [0; GREETING_BYTES];
        let mut rest = bytes.as_mut_slice();
        while !rest.is_empty() {
            let left = end.map_or(patience, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(SocketError::System { call: "recv", errno: Errno::ETIMEDOUT });
            }
            // Zero would be no limit at all.
            self.set_receive_timeout(left.max(Duration::from_millis(1)))?;
            match self.receive_bytes(rest) {
                Err(SocketError::System { errno: Errno::EAGAIN, .. }) => {}
                received => rest = rest.get_mut(received?..).unwrap_or_default(),
            }
        }
        self.set_receive_timeout(Duration::ZERO)?;
        Ok(bytes)
    }

    /// Zero is no limit.
    fn set_receive_timeout(&self, timeout: Duration) -> Result<(), SocketError> {
        setsockopt(&self.fd, sockopt::ReceiveTimeout, &socket_timeout(timeout))
            .map_err(system("setsockopt(SO_RCVTIMEO)"))
    }

    /// Sends one frame; its message is `head` and `tail` together.
    pub(crate) fn send(
        &self,
        kind: Kind,
        id: u64,
        message: [&[u8]; 2],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), SocketError> {
        self.send_until(kind, id, message, fds, None).map(drop)
    }

    /// As [`Self::send`]. With a deadline, returns then with what is left.
    pub(crate) fn send_until(
        &self,
        kind: Kind,
        id: u64,
        [head, tail]: [&[u8]; 2],
        fds: &[BorrowedFd<'_>],
        deadline: Option<TimePoint>,
    ) -> Result<Sent, SocketError> {
        let length = head.len().saturating_add(tail.len());
        let limit = self.max_message;
        let too_long =
            WireError::TooLong { bytes: u64::try_from(length).unwrap_or(u64::MAX), limit };
        let Some(bytes) = u32::try_from(length).ok().filter(|_| length <= limit) else {
            return Err(too_long.into());
        };
        let descriptors = u16::try_from(fds.len()).unwrap_or(u16::MAX);
        let header = Header { bytes, descriptors, kind, id }.to_bytes();
        self.send_parts(&[&header, head, tail], fds, deadline)
    }

    /// Sends what was left of a frame.
    pub(crate) fn send_rest(&self, rest: &[u8]) -> Result<(), SocketError> {
        self.send_all(&[rest], &[])
    }

    fn send_all(&self, parts: &[&[u8]], fds: &[BorrowedFd<'_>]) -> Result<(), SocketError> {
        self.send_parts(parts, fds, None).map(drop)
    }

    /// The descriptors go with the first byte, and with it alone.
    fn send_parts(
        &self,
        parts: &[&[u8]],
        fds: &[BorrowedFd<'_>],
        deadline: Option<TimePoint>,
    ) -> Result<Sent, SocketError> {
        // Who has a deadline waits for room by itself.
        let flags = match deadline {
            None => MsgFlags::MSG_NOSIGNAL,
            Some(_) => MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
        };
        if fds.len() > MAX_DESCRIPTORS {
            return Err(SocketError::System { call: "sendmsg", errno: Errno::EINVAL });
        }
        let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let mut has_begun = false;
        let mut slices: [IoSlice<'_>; 3] =
            [IoSlice::new(&[]), IoSlice::new(&[]), IoSlice::new(&[])];
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        let mut rest: &mut [IoSlice<'_>] = &mut slices;
        let mut control = if fds.is_empty() { &[][..] } else { &rights };
        while rest.iter().any(|slice| !slice.is_empty()) {
            match sendmsg::<()>(self.fd.as_raw_fd(), rest, control, flags, None) {
                Ok(sent) => {
                    has_begun = true;
                    control = &[];
                    IoSlice::advance_slices(&mut rest, sent);
                }
                Err(Errno::EINTR) => {}
                Err(errno @ Errno::EAGAIN) => {
                    let system = SocketError::System { call: "sendmsg", errno };
                    let deadline = deadline.ok_or(system)?;
                    if self.has_room_by(deadline)? {
                        continue;
                    }
                    if !has_begun {
                        return Ok(Sent::Nothing);
                    }
                    let left =
                        rest.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
                    let mut bytes = Vec::new();
                    let no_memory =
                        |_| SocketError::System { call: "sendmsg", errno: Errno::ENOMEM };
                    bytes.try_reserve_exact(left).map_err(no_memory)?;
                    rest.iter().for_each(|part| bytes.extend_from_slice(part));
                    return Ok(Sent::InPart(bytes));
                }
                Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(SocketError::HungUp),
                Err(errno) => return Err(SocketError::System { call: "sendmsg", errno }),
            }
        }
        Ok(Sent::Whole)
    }

    /// Waits until something can be sent; `false` where that is not before the deadline.
    fn has_room_by(&self, deadline: TimePoint) -> Result<bool, SocketError> {
        match poll_for(&self.fd, PollFlags::POLLOUT, Some(deadline.remaining())) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(true),
            Err(errno) => Err(SocketError::System { call: "poll", errno }),
        }
    }

    /// Waits for the next frame. What it brings is charged to `budget` as it arrives.
    pub(crate) fn receive(&self, budget: &Arc<Budget>) -> Result<ReceivedFrame, SocketError> {
        let mut bytes = [0; HEADER_BYTES];
        let mut fds = Fds { taken: Vec::new(), count: Some(0), refused: None };
        self.receive_header(&mut bytes, budget, &mut fds)?;
        let header = Header::parse(bytes, self.max_message)?;
        if let Some(came) = fds.count.filter(|&came| came != usize::from(header.descriptors)) {
            return Err(WireError::Descriptors { said: header.descriptors, came }.into());
        }
        let Fds { mut taken, mut refused, .. } = fds;
        let length = usize::try_from(header.bytes).unwrap_or(0);
        let mut charge = budget.empty();
        let mut payload = Vec::new();
        if length > MUCH {
            self.has_received_much.store(true, Ordering::Relaxed);
        }
        if refused.is_none() {
            let mut receive = || self.receive_payload(length, &mut payload, &mut charge);
            let received = if length > MUCH { process::long_work(receive) } else { receive() };
            refused = received?.err();
        }
        if refused.is_some() {
            self.discard(length.saturating_sub(payload.len()))?;
            (taken, payload) = (Vec::new(), Vec::new());
            charge = budget.empty();
        }
        let Header { kind, id, .. } = header;
        Ok(ReceivedFrame { kind, id, payload, fds: taken, charge, refused })
    }

    /// Descriptors are taken with the header's bytes only: those sent later are closed by the
    /// system.
    fn receive_header(
        &self,
        bytes: &mut [u8],
        budget: &Arc<Budget>,
        fds: &mut Fds,
    ) -> Result<(), SocketError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            self.wait_for_bytes()?;
            match self.receive_some(rest, budget, fds)? {
                Some(0) => return Err(SocketError::HungUp),
                Some(received) => rest = rest.get_mut(received..).unwrap_or_default(),
                None => {}
            }
            if fds.count.is_some_and(|count| count > MAX_DESCRIPTORS) {
                return Err(SocketError::System { call: "recvmsg", errno: Errno::EMFILE });
            }
        }
        Ok(())
    }

    /// Waits for the next frame to begin, or the connection to end; false where neither comes in
    /// time.
    pub(crate) fn begins_within(&self, limit: Duration) -> Result<bool, SocketError> {
        let end = Instant::now().checked_add(limit);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            match poll_for(&self.fd, PollFlags::POLLIN, left) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(SocketError::System { call: "poll", errno }),
            }
        }
    }

    fn wait_for_bytes(&self) -> Result<(), SocketError> {
        match poll_for(&self.fd, PollFlags::POLLIN, None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(SocketError::System { call: "poll", errno }),
        }
    }

    /// Takes what there is of a header, and charges the descriptors that come with it. `None` if
    /// nothing was there after all.
    fn receive_some(
        &self,
        bytes: &mut [u8],
        budget: &Arc<Budget>,
        fds: &mut Fds,
    ) -> Result<Option<usize>, SocketError> {
        let _arrival = ARRIVAL.lock().unwrap_or_else(PoisonError::into_inner);
        let Received { bytes, fds: came, is_cut_short } = match sys::receive(self.as_fd(), bytes) {
            Ok(received) => received,
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(None),
            Err(Errno::ECONNRESET) => return Err(SocketError::HungUp),
            Err(errno) => return Err(SocketError::System { call: "recvmsg", errno }),
        };
        if !came.is_empty() {
            fds.take(came, budget);
        }
        if is_cut_short {
            fds.lose();
        }
        Ok(Some(bytes))
    }

    /// Memory grows with what has arrived, so that a header alone makes nobody allocate, and is
    /// charged before it does. The inner error: there is no room, and the rest is still to come.
    fn receive_payload(
        &self,
        length: usize,
        payload: &mut Vec<u8>,
        charge: &mut Charge,
    ) -> Result<Result<(), HalError>, SocketError> {
        while payload.len() < length {
            let start = payload.len();
            let bite = length.saturating_sub(start).min(start.max(FIRST_BITE));
            if let Err(error) = grow(payload, bite, length > SMALL, charge) {
                return Ok(Err(error));
            }
            self.receive_exactly(payload.get_mut(start..).unwrap_or_default())?;
        }
        Ok(Ok(()))
    }

    /// Receives bytes that nobody keeps.
    fn discard(&self, length: usize) -> Result<(), SocketError> {
        let mut room = [0; SMALL];
        let mut left = length;
        while left > 0 {
            let bite = left.min(room.len());
            self.receive_exactly(room.get_mut(..bite).unwrap_or_default())?;
            left = left.saturating_sub(bite);
        }
        Ok(())
    }

    fn receive_exactly(&self, bytes: &mut [u8]) -> Result<(), SocketError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let received = self.receive_bytes(rest)?;
            rest = rest.get_mut(received..).unwrap_or_default();
        }
        Ok(())
    }

    /// Receives at least one byte.
    fn receive_bytes(&self, bytes: &mut [u8]) -> Result<usize, SocketError> {
        loop {
            match recv(self.fd.as_raw_fd(), bytes, MsgFlags::empty()) {
                Ok(0) | Err(Errno::ECONNRESET) => return Err(SocketError::HungUp),
                Ok(received) => return Ok(received),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(SocketError::System { call: "recv", errno }),
            }
        }
    }

    /// Returns whether anything arrives, or the peer disconnects, within `patience`.
    pub(crate) fn is_readable_within(&self, patience: Duration) -> bool {
        // Interrupted: as if something had come.
        !matches!(poll_for(&self.fd, PollFlags::POLLIN, Some(patience)), Ok(0))
    }
}

/// Waits for an event of a socket, `patience` long or without an end; 0 where it didn't come.
fn poll_for(fd: &OwnedFd, event: PollFlags, patience: Option<Duration>) -> Result<i32, Errno> {
    // A duration beyond the kernel's range is as good as none.
    let patience = patience.filter(|time| i64::try_from(time.as_secs()).is_ok());
    ppoll(&mut [PollFd::new(fd.as_fd(), event)], patience.map(TimeSpec::from), None)
}

/// A socket's timeout; zero is none.
pub(crate) fn socket_timeout(timeout: Duration) -> TimeVal {
    // As long as every machine's `timeval` can be, which is 68 years.
    let longest = Duration::from_secs(i32::MAX as u64);
    TimeVal::microseconds(i64::try_from(timeout.min(longest).as_micros()).unwrap_or(i64::MAX))
}

/// `bite` zeros more, charged if they are not few.
fn grow(
    payload: &mut Vec<u8>,
    bite: usize,
    is_charged: bool,
    charge: &mut Charge,
) -> Result<(), HalError> {
    if is_charged {
        let bytes = u64::try_from(bite).unwrap_or(u64::MAX);
        charge.grow(Resource::CallBytes, bytes)?;
        charge.grow(Resource::Memory, bytes)?;
    }
    payload.try_reserve_exact(bite)?;
    payload.resize(payload.len().saturating_add(bite), 0);
    Ok(())
}

/// The descriptors of a header.
struct Fds {
    taken: Arrived,
    /// The number that came; `None` if the system kept some back.
    count: Option<usize>,
    refused: Option<HalError>,
}

impl Fds {
    /// Charges descriptors that arrived; without room for all of them none is kept.
    fn take(&mut self, came: Vec<OwnedFd>, budget: &Arc<Budget>) {
        self.count = self.count.map(|count| count.saturating_add(came.len()));
        let mut charges = budget.empty();
        match charges.grow(Resource::Descriptors, u64::try_from(came.len()).unwrap_or(u64::MAX)) {
            Ok(()) if self.refused.is_none() => {
                let one = |fd| (fd, charges.split(Resource::Descriptors, 1));
                self.taken.extend(came.into_iter().map(one));
            }
            Ok(()) => {}
            Err(error) => self.refuse(error.into()),
        }
    }

    /// The system had no room for some that were sent.
    fn lose(&mut self) {
        self.count = None;
        let status = ErrorStatus::ResourceExhaustedTransient;
        self.refuse(HalError::new(status, "the process has no room for the file descriptors"));
    }

    fn refuse(&mut self, error: HalError) {
        self.taken = Vec::new();
        self.refused.get_or_insert(error);
    }
}

fn system(call: &'static str) -> impl FnOnce(Errno) -> SocketError {
    move |errno| SocketError::System { call, errno }
}

/// Returns whether whoever is at the other end greets, whatever they say.
pub(crate) fn is_answered(socket: OwnedFd, patience: Duration) -> bool {
    let ask = || -> Result<_, SocketError> {
        let socket = Socket::new(socket, 0)?;
        socket.send_greeting(&wire::greeting(wire::Verdict::Welcome))?;
        socket.receive_greeting_within(patience)
    };
    ask().is_ok()
}

/// The client's half of the greeting: sends our version, and receives theirs within `patience`.
pub(crate) fn greet(
    socket: &Socket,
    patience: Duration,
) -> Result<(u32, wire::Verdict), SocketError> {
    match socket.send_greeting(&wire::greeting(wire::Verdict::Welcome)) {
        // A service that has no room refuses before it reads: its verdict is there all the same.
        Ok(()) | Err(SocketError::HungUp) => {}
        Err(error) => return Err(error),
    }
    Ok(wire::parse_greeting(&socket.receive_greeting_within(patience)?)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn a_slow_greeting_ends_with_its_time_and_not_with_its_last_byte() {
        const PATIENCE: Duration = Duration::from_millis(500);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let sender = std::thread::spawn(move || {
            // Each byte comes within the time of all; the last one never does.
            while count.load(Ordering::Relaxed) < GREETING_BYTES - 1
                && theirs.write_all(b"N").is_ok()
            {
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(PATIENCE.mul_f32(0.6));
            }
        });
        let socket = Socket::new(OwnedFd::from(ours), 0).unwrap();
        let error = socket.receive_greeting_within(PATIENCE).unwrap_err();
        assert!(matches!(error, SocketError::System { errno: Errno::ETIMEDOUT, .. }), "{error}");
        assert!(sent.load(Ordering::Relaxed) < GREETING_BYTES - 1);
        drop(socket);
        sender.join().unwrap();
    }
}
