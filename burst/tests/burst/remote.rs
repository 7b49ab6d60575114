//! A driver in a process of its own, and as much of a control connection as a burst needs.
//!
//! Messages are JSON in packets of a Unix socket, file descriptors beside them. The client answers
//! the driver's questions on a thread of its own.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};
use nnburst_burst::testing::AddOne;
use nnburst_fmq::{Descriptor, DescriptorData, PeerWatch};
use nnburst_hal::testing::{Calls, CountingAllocator, MockModel, mark};
use nnburst_hal::{
    BurstCallback, BurstContext, BurstOptions, BurstTerms, HalError, Memory, PreparedModel, Result,
};
use serde::{Deserialize, Serialize};

use crate::support::HANG;

/// Settings of the driver's model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Model {
    pub(crate) pause: Duration,
    pub(crate) extra_shapes: usize,
    pub(crate) plain: bool,
    /// Frames after which the burst's thread is watched, and how many are.
    pub(crate) watch: Option<(u64, u64)>,
    pub(crate) panic: bool,
    /// `true` if the process stays when its client goes.
    pub(crate) linger: bool,
    /// `true` if bursts stay open when others are opened.
    pub(crate) keep: bool,
}

#[derive(Debug, Serialize, Deserialize)]
enum Message {
    Configure { options: BurstOptions, queues: [DescriptorData; 2] },
    Configured(Result<BurstTerms>),
    Free(i32),
    Freed,
    AskMemories(Vec<i32>),
    Memories(Result<Vec<u64>>),
    AskAllocations,
    Allocations(Option<u64>),
    AskDescriptors,
    Descriptors(usize),
}

fn send(socket: BorrowedFd<'_>, message: &Message, fds: &[BorrowedFd<'_>]) -> bool {
    let bytes = serde_json::to_vec(message).unwrap();
    let fds: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let (parts, rights) = ([IoSlice::new(&bytes)], [ControlMessage::ScmRights(&fds)]);
    let flags = MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(socket.as_raw_fd(), &parts, &rights, flags, None).is_ok()
}

fn receive(socket: BorrowedFd<'_>) -> Option<(Message, Vec<OwnedFd>)> {
    let mut bytes = vec![0; 1 << 16];
    let mut space = nix::cmsg_space!([RawFd; 64]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let mut fds = Vec::new();
    let count = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(Errno::EINTR) => {}
            other => {
                let received = other.ok()?;
                for message in received.cmsgs().unwrap() {
                    if let ControlMessageOwned::ScmRights(rights) = message {
                        // SAFETY: made for this message, and nobody else knows of them.
                        let own = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
                        fds.extend(rights.into_iter().map(own));
                    }
                }
                break received.bytes;
            }
        }
    };
    let bytes = bytes.get(..count).filter(|bytes| !bytes.is_empty())?;
    Some((serde_json::from_slice(bytes).unwrap(), fds))
}

/// A driver's process, seen as the prepared model it serves.
pub(crate) struct Driver {
    link: Arc<Link>,
    model: MockModel,
    process: Option<Process>,
}

/// A process that is killed when dropped.
pub(crate) struct Process(Child);

impl Process {
    fn spawn(test: &str, stdin: OwnedFd, set: (&str, String)) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(set.0, set.1)
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// A driver and a client in processes of their own, connected; `test` is the client's part.
pub(crate) fn driver_and_client(test: &str, window: Duration) -> (Process, Process) {
    let (for_client, for_driver) = pair();
    let model = Model { linger: true, ..Model::default() };
    let driver = driver_process(&model, for_driver);
    let window = serde_json::to_string(&window).unwrap();
    (driver, Process::spawn(test, for_client, (CLIENT, window)))
}

fn driver_process(model: &Model, socket: OwnedFd) -> Process {
    Process::spawn("driver_process", socket, (MODEL, serde_json::to_string(model).unwrap()))
}

/// The driver that this process is the client of, if it was started as one; and how to wait.
pub(crate) fn client_if_asked() -> Option<(Driver, Duration)> {
    let window = std::env::var(CLIENT).ok()?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let driver = Driver::over(Link::new(socket), None);
    Some((driver, serde_json::from_str(&window).unwrap()))
}

/// Standard input is the connection's other end; elsewhere these are not set.
const MODEL: &str = "NNBURST_TEST_MODEL";
const CLIENT: &str = "NNBURST_TEST_CLIENT";

struct Link {
    socket: Arc<OwnedFd>,
    replies: Mutex<mpsc::Receiver<Message>>,
    callback: Mutex<Option<Arc<dyn BurstCallback>>>,
    /// The questions of the driver for memories.
    asked: Mutex<Vec<Vec<i32>>>,
}

impl Driver {
    pub(crate) fn spawn(model: &Model) -> Self {
        let (ours, theirs) = pair();
        Self::over(Link::new(ours), Some(driver_process(model, theirs)))
    }

    fn over(link: Arc<Link>, process: Option<Process>) -> Self {
        Self { model: remote_model(&link), link, process }
    }

    /// The model whose bursts it serves.
    pub(crate) fn model(&self) -> &MockModel {
        &self.model
    }

    /// Ends waits when the process goes.
    pub(crate) fn watch(&self) -> PeerWatch {
        PeerWatch::process(self.id()).unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.as_mut().unwrap().kill();
    }

    /// The slots that the driver has asked for, question by question.
    pub(crate) fn asked(&self) -> Vec<Vec<i32>> {
        self.link.asked.lock().unwrap().clone()
    }

    /// Allocations of the burst's thread in the frames that were watched.
    pub(crate) fn allocations(&self) -> u64 {
        match self.link.call(&Message::AskAllocations, &[]) {
            Some(Message::Allocations(Some(count))) => count,
            other => panic!("the driver has not finished watching: {other:?}"),
        }
    }

    /// Open file descriptors of the driver.
    pub(crate) fn descriptors(&self) -> usize {
        match self.link.call(&Message::AskDescriptors, &[]) {
            Some(Message::Descriptors(count)) => count,
            other => panic!("no count: {other:?}"),
        }
    }
}

impl Link {
    fn new(socket: OwnedFd) -> Arc<Self> {
        let (tell, replies) = mpsc::channel();
        let link = Arc::new(Self {
            socket: Arc::new(socket),
            replies: Mutex::new(replies),
            callback: Mutex::default(),
            asked: Mutex::default(),
        });
        let reader = Arc::clone(&link);
        std::thread::spawn(move || reader.read(&tell));
        link
    }

    fn read(&self, tell: &mpsc::Sender<Message>) {
        while let Some((message, _)) = receive(self.socket.as_fd()) {
            let Message::AskMemories(slots) = message else {
                if tell.send(message).is_err() {
                    return;
                }
                continue;
            };
            self.asked.lock().unwrap().push(slots.clone());
            let callback = self.callback.lock().unwrap().clone().unwrap();
            let memories = callback.memories(&slots);
            let fds: Vec<_> = memories.iter().flatten().map(Memory::fd).collect();
            let sizes =
                memories.as_ref().map(|memories| memories.iter().map(Memory::size).collect());
            send(self.socket.as_fd(), &Message::Memories(sizes.map_err(HalError::clone)), &fds);
        }
    }

    fn call(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> Option<Message> {
        let replies = self.replies.lock().unwrap();
        send(self.socket.as_fd(), message, fds).then_some(())?;
        replies.recv_timeout(HANG).ok()
    }
}

struct RemoteBurst {
    link: Arc<Link>,
    terms: BurstTerms,
}

impl BurstContext for RemoteBurst {
    fn free_memory(&self, slot: i32) {
        // A driver that is gone has forgotten everything.
        let _ = self.link.call(&Message::Free(slot), &[]);
    }

    fn terms(&self) -> BurstTerms {
        self.terms.clone()
    }
}

/// A model whose bursts the process at the other end of `link` serves.
fn remote_model(link: &Arc<Link>) -> MockModel {
    let link = Arc::clone(link);
    MockModel::new().opening_bursts(move |callback, queues, options| {
        *link.callback.lock().unwrap() = Some(callback);
        let fds: Vec<_> = queues.iter().flat_map(|queue| &queue.fds).map(AsFd::as_fd).collect();
        let queues = queues.each_ref().map(|queue| queue.data.clone());
        match link.call(&Message::Configure { options, queues }, &fds) {
            Some(Message::Configured(Ok(terms))) => {
                Ok(Arc::new(RemoteBurst { link: Arc::clone(&link), terms }))
            }
            Some(Message::Configured(Err(error))) => Err(error),
            _ => Err(HalError::unavailable("the driver is gone")),
        }
    })
}

fn pair() -> (OwnedFd, OwnedFd) {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC).unwrap()
}

/// The driver's side of the connection is standard input.
pub(crate) fn serve_if_asked() {
    let Ok(model) = std::env::var(MODEL) else { return };
    let model: Model = serde_json::from_str(&model).unwrap();
    let socket = Arc::new(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    serve(&socket, &model);
    if model.linger {
        std::thread::sleep(2 * HANG);
    }
}

/// Asks the client.
struct RemoteCallback {
    socket: Arc<OwnedFd>,
    answers: Mutex<mpsc::Receiver<Result<Vec<Memory>>>>,
}

impl BurstCallback for RemoteCallback {
    fn memories(&self, slots: &[i32]) -> Result<Vec<Memory>> {
        let gone = || HalError::unavailable("the client is gone");
        let answers = self.answers.lock().unwrap();
        send(self.socket.as_fd(), &Message::AskMemories(slots.to_vec()), &[]);
        answers.recv().map_err(|_| gone())?
    }
}

fn serve(socket: &Arc<OwnedFd>, model: &Model) {
    let watched = Arc::new(Watched::default());
    let prepared = AddOne::with(|add| {
        (add.pause, add.extra_shapes, add.plain) = (model.pause, model.extra_shapes, model.plain);
        let (watched, model) = (Arc::clone(&watched), model.clone());
        add.before = Some(Box::new(move || watched.frame(&model)));
    });
    let mut kept = Vec::new();
    let mut context: Option<Arc<dyn BurstContext>> = None;
    let mut tell: Option<mpsc::Sender<Result<Vec<Memory>>>> = None;
    while let Some((message, fds)) = receive(socket.as_fd()) {
        let reply = match message {
            Message::Configure { options, queues } => {
                kept.extend(context.take().filter(|_| model.keep));
                let (sender, answers) = mpsc::channel();
                tell = Some(sender);
                let socket = Arc::clone(socket);
                let callback = Arc::new(RemoteCallback { socket, answers: Mutex::new(answers) });
                let mut fds = fds.into_iter();
                let [requests, results] = queues.map(|data| {
                    let files = data.grantors.iter().map(|grantor| grantor.fd_index).max();
                    let count = files.map_or(0, |index| index as usize + 1);
                    Descriptor { data, fds: fds.by_ref().take(count).collect() }
                });
                let opened =
                    prepared.configure_execution_burst(callback, requests, results, options);
                Message::Configured(opened.map(|burst| {
                    let terms = burst.terms();
                    context = Some(burst);
                    terms
                }))
            }
            Message::Free(slot) => {
                context.as_ref().unwrap().free_memory(slot);
                Message::Freed
            }
            Message::Memories(sizes) => {
                let memories = sizes.and_then(|sizes| {
                    let memory =
                        |(fd, &size)| Memory::from_handle("ashmem", vec![fd], vec![], size);
                    let memories: std::result::Result<_, _> =
                        fds.into_iter().zip(&sizes).map(memory).collect();
                    memories.map_err(HalError::from)
                });
                tell.as_ref().unwrap().send(memories).unwrap();
                continue;
            }
            Message::AskAllocations => Message::Allocations(*watched.allocations.lock().unwrap()),
            Message::AskDescriptors => {
                Message::Descriptors(std::fs::read_dir("/proc/self/fd").unwrap().count())
            }
            other => panic!("the client said {other:?}"),
        };
        send(socket.as_fd(), &reply, &[]);
    }
}

/// Watches the burst's thread for a number of frames: counts allocations, and marks begin and end
/// with a system call that nothing else makes.
#[derive(Default)]
struct Watched {
    /// Calls of the allocator before the frames that are watched.
    before: Mutex<Calls>,
    frames: Mutex<u64>,
    allocations: Mutex<Option<u64>>,
}

impl Watched {
    fn frame(&self, model: &Model) {
        assert!(!model.panic, "a driver's mistake");
        let Some((after, count)) = model.watch else { return };
        let mut frames = self.frames.lock().unwrap();
        *frames += 1;
        if *frames == after {
            mark();
            *self.before.lock().unwrap() = CountingAllocator::calls_of_thread();
        } else if *frames == after + count {
            let calls = CountingAllocator::calls_of_thread() - *self.before.lock().unwrap();
            mark();
            *self.allocations.lock().unwrap() = Some(calls.allocations + calls.releases);
        }
    }
}
