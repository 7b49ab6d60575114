//! Two processes and two queues: the parent sends numbers, the child answers with their squares.
//!
//!     cargo run --release -p nnburst-fmq --example two_processes
//!
//! The parent starts itself again as the child, with a Unix socket as its standard input. Over that
//! socket go the descriptors, the files as ancillary data; afterwards it is the lifeline that each
//! side watches.

use std::error::Error;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use nnburst_fmq::{
    Descriptor, DescriptorData, Grantor, PeerWatch, Queue, QueueError, RawGrantor, Wait,
};

const CHILD: &str = "two_processes_child";
const ROUNDS: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some(CHILD) { child() } else { parent() }
}

fn parent() -> Result<(), Box<dyn Error>> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut child =
        Command::new(std::env::current_exe()?).arg(CHILD).stdin(OwnedFd::from(theirs)).spawn()?;
    let requests = Queue::<u64>::builder(64).event_flag(true).create()?;
    let answers = Queue::<u64>::builder(64).event_flag(true).create()?;
    send(&ours, requests.descriptor()?)?;
    send(&ours, answers.descriptor()?)?;

    let watch = PeerWatch::connection(Arc::new(ours))?;
    let (mut requests, mut answers) = (requests.into_producer(), answers.into_consumer());
    requests.set_peer(&watch);
    answers.set_peer(&watch);
    let start = Instant::now();
    for i in 0..ROUNDS {
        requests.push(i, Wait::adaptive(50))?;
        let square = answers.pop(Wait::adaptive(50).within(Duration::from_secs(10)))?;
        assert_eq!(square, i * i);
    }
    let each = start.elapsed() / u32::try_from(ROUNDS)?;
    writeln(format_args!("{ROUNDS} squares, {each:?} there and back each"))?;
    // Our end of the lifeline goes with its last holders; the child sees that and ends.
    drop((requests, answers, watch));
    child.wait()?;
    Ok(())
}

fn child() -> Result<(), Box<dyn Error>> {
    let lifeline = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut requests = Queue::<u64>::attach(receive(&lifeline)?)?.into_consumer();
    let mut answers = Queue::<u64>::attach(receive(&lifeline)?)?.into_producer();
    requests.set_peer(&PeerWatch::connection(lifeline)?);
    loop {
        match requests.pop(Wait::adaptive(50)) {
            Ok(i) => answers.push(i * i, Wait::adaptive(50))?,
            Err(QueueError::PeerDied) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends quantum, flavour and grantors as bytes, the files beside them.
fn send(socket: &UnixStream, descriptor: Descriptor) -> Result<(), Box<dyn Error>> {
    let DescriptorData { grantors, quantum, flags } = descriptor.data;
    let grantors: Vec<RawGrantor> = grantors.into_iter().map(RawGrantor::from).collect();
    let mut bytes: Vec<u8> = [quantum, flags].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend_from_slice(bytemuck::cast_slice(&grantors));
    let length = u32::try_from(bytes.len())?.to_le_bytes();
    let fds: Vec<_> = descriptor.fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let message = [IoSlice::new(&length), IoSlice::new(&bytes)];
    sendmsg::<()>(socket.as_raw_fd(), &message, &rights, MsgFlags::empty(), None)?;
    Ok(())
}

/// The other half of [`send`]. What is received is only parsed here; `attach` decides whether it is
/// any good.
fn receive(socket: &UnixStream) -> Result<Descriptor, Box<dyn Error>> {
    let mut length = [0; 4];
    let mut space = nix::cmsg_space!([RawFd; 4]);
    let mut parts = [IoSliceMut::new(&mut length)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let fds = message.cmsgs()?.flat_map(|message| match message {
        ControlMessageOwned::ScmRights(fds) => fds,
        _ => Vec::new(),
    });
    // SAFETY: the system made them for this message, and nobody else knows of them.
    let fds = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect();
    let mut bytes = vec![0; usize::try_from(u32::from_le_bytes(length))?.min(4096)];
    std::io::Read::read_exact(&mut &*socket, &mut bytes)?;
    let (head, grantors) = bytes.split_first_chunk::<8>().ok_or("a short descriptor")?;
    let [quantum, flags]: [u32; 2] = bytemuck::cast(*head);
    let grantors = grantors
        .chunks_exact(24)
        .map(|raw| Grantor::from(bytemuck::pod_read_unaligned::<RawGrantor>(raw)));
    let data = DescriptorData { grantors: grantors.collect(), quantum, flags };
    Ok(Descriptor { data, fds })
}

fn writeln(line: std::fmt::Arguments<'_>) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}")
}
