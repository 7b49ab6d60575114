//! Bursts for tasks and event loops: frames that come back as futures, and a descriptor that says
//! when. Feature `futures`; no runtime is brought along, and none is asked for.
//!
//! ```text
//!   task ── compute(frame) ──► Burst ── packet ──► driver
//!     ▲                                              │ wakes the queue's futex
//!     ├── its waker ◄── one thread of the process ◄──┘ (fmq::Readiness, for all bursts)
//!     └── the eventfd ◄─┘
//! ```

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use nnburst_fmq::Readiness;
use nnburst_hal::process::{Origin, forked};
use nnburst_hal::{ErrorStatus, HalError};

use crate::burst::{Burst, CallOptions, Finished, Unsubmitted};
use crate::error::{Result, RuntimeError};
use crate::frame::Frame;

/// A burst whose frames are awaited. Clones are the same burst; tasks of any executor share it.
///
/// As many frames are in flight as the burst's [depth](crate::BurstOptions::depth) allows, and the
/// others follow in the order of their calls. No call has a thread: one of the process sleeps for
/// all bursts, and wakes the task whose frame is due.
///
/// A wake-up takes some microseconds more than a thread of one's own that waits ([`Burst::compute`]
/// polls); this is for programs that do other things meanwhile.
///
/// Loops without wakers wait until the descriptor ([`AsFd`]) is readable, and poll their futures
/// then: epoll, asyncio, GLib. It may be readable for no reason.
///
/// ```
/// # use std::{future::Future, sync::Arc, task::{Context, Poll, Wake}, thread::Thread};
/// # struct Unpark(Thread);
/// # impl Wake for Unpark { fn wake(self: Arc<Self>) { self.0.unpark(); } }
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let mut future = Box::pin(future);
/// #     let waker = Arc::new(Unpark(std::thread::current())).into();
/// #     loop {
/// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
/// #             Poll::Ready(output) => return output,
/// #             Poll::Pending => std::thread::park(),
/// #         }
/// #     }
/// # }
/// use nnburst::{AsyncBurst, BurstOptions, Device, PrepareOptions, builtin};
///
/// let device = Device::embedded("nnburst-cpu")?;
/// let model = device.compile(&builtin::model("add1")?, PrepareOptions::default())?;
/// let burst = AsyncBurst::new(model.burst(&BurstOptions::default())?)?;
/// let mut frame = model.frame()?;
/// frame.write(0, &[1.0f32])?;
/// frame.write(1, &[2.0f32])?;
/// // In tokio: `let (frame, result) = burst.compute(frame).await;`
/// let (frame, result) = block_on(burst.compute(frame));
/// result?;
/// assert_eq!(frame.read::<f32>(0)?, [3.0]);
/// # Ok::<(), nnburst::RuntimeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AsyncBurst(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The eventfd of `State::readiness`.
    fd: Arc<OwnedFd>,
    origin: Origin,
}

#[derive(Debug)]
struct State {
    burst: Burst,
    readiness: Readiness,
    /// The number of the last call.
    last: u64,
    /// Frames that are not sent yet, the oldest first.
    queued: VecDeque<Queued>,
    /// The calls whose frames are in flight, the oldest first.
    sent: VecDeque<u64>,
    /// The calls that have futures.
    calls: HashMap<u64, Call>,
}

#[derive(Debug)]
struct Queued {
    id: u64,
    frame: Frame,
    options: CallOptions,
    /// The end of the time that the call may take.
    deadline: Option<Instant>,
}

#[derive(Debug, Default)]
struct Call {
    /// The task that awaits it.
    waker: Option<Waker>,
    finished: Option<Finished>,
}

impl AsyncBurst {
    /// A burst to be awaited. Frames that were submitted before are given up.
    ///
    /// # Errors
    /// The kernel can't sleep on several queues at once (Linux before 5.16), or there is no
    /// descriptor or thread left.
    pub fn new(mut burst: Burst) -> Result<Self> {
        let failed = |why: &dyn std::fmt::Display| {
            RuntimeError::from(HalError::failure(format!("a burst to be awaited: {why}")))
        };
        burst.forget();
        let readiness = Readiness::new().map_err(|error| failed(&error))?;
        let fd = readiness.as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
        let state = State {
            burst,
            readiness,
            last: 0,
            queued: VecDeque::new(),
            sent: VecDeque::new(),
            calls: HashMap::new(),
        };
        let (state, origin) = (Mutex::new(state), Origin::here());
        Ok(Self(Arc::new(Shared { state, fd: Arc::new(fd), origin })))
    }

    /// Sends a frame, or queues it where as many as can be are in flight. The frame comes back with
    /// the result, as [`Burst::compute`] would have returned it.
    ///
    /// The frame of a future that is dropped is lost: one that is in flight is dropped when the
    /// driver is done with it, others at once.
    pub fn compute(&self, frame: Frame) -> FrameFuture {
        self.compute_with(frame, &CallOptions::default())
    }

    /// As [`AsyncBurst::compute`], within limits of its own; the time counts from here. A driver at
    /// work says when it is over. For one that is stopped, and for frames behind it, nobody wakes
    /// the task: use the executor's own timer, and poll again.
    pub fn compute_with(&self, frame: Frame, call: &CallOptions) -> FrameFuture {
        if !self.0.origin.is_here() {
            let result = Err(forked().into());
            return FrameFuture { kind: Kind::Refused(Some(Finished { frame, result })) };
        }
        let mut state = self.0.lock();
        state.last = state.last.wrapping_add(1);
        let id = state.last;
        state.calls.insert(id, Call::default());
        let timeout = call.timeout.or_else(|| state.burst.timeout());
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        state.queued.push_back(Queued { id, frame, options: *call, deadline });
        let wakers = state.send_queued();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        FrameFuture { kind: Kind::Call { shared: Arc::clone(&self.0), id } }
    }

    /// Looks at the burst itself: its figures, its warnings.
    pub fn with<R>(&self, look: impl FnOnce(&Burst) -> R) -> R {
        look(&self.0.lock().burst)
    }
}

impl AsFd for AsyncBurst {
    /// Readable when a frame may be back: an eventfd, which polling a future empties.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Sends what there is room for. What can't be sent is finished; returns whom to wake for it,
    /// without the lock.
    fn send_queued(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while self.burst.in_flight() < self.burst.depth() {
            let Some(Queued { id, frame, options, deadline }) = self.queued.pop_front() else {
                break;
            };
            let timeout = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let options = CallOptions { timeout, ..options };
            match self.burst.try_submit_with(frame, &options) {
                Ok(()) => self.sent.push_back(id),
                // Frames that were given up before are in flight still.
                Err(Unsubmitted { frame, error: RuntimeError::Busy { .. } }) => {
                    self.queued.push_front(Queued { id, frame, options, deadline });
                    break;
                }
                Err(Unsubmitted { frame, error }) => {
                    wakers.extend(self.finish(id, Finished { frame, result: Err(error) }));
                }
            }
        }
        wakers
    }

    /// Takes what has come back, and has the descriptor and a task told of what comes next. Returns
    /// whom to wake, without the lock; not the task of the call that is `polled`.
    fn take_finished(&mut self, fd: &Arc<OwnedFd>, polled: Option<u64>) -> Vec<Waker> {
        let mut wakers = self.give_up_overdue();
        loop {
            // Answers come in order, so whoever awaits the oldest call looks for all.
            let ids = self.sent.iter().chain(self.queued.iter().map(|queued| &queued.id));
            let mut calls = ids.filter_map(|id| self.calls.get(id));
            let waker = calls.find_map(|call| call.waker.as_ref());
            if let Some(finished) = self.burst.poll_ready(&mut self.readiness, waker, fd) {
                if let Some(id) = self.sent.pop_front() {
                    let waker = self.finish(id, finished);
                    wakers.extend(waker.filter(|_| polled != Some(id)));
                }
            } else if self.queued.is_empty() || !self.burst.room_ready(&mut self.readiness, waker) {
                return wakers;
            }
            wakers.extend(self.send_queued());
        }
    }

    /// Finishes the calls that were not sent within their time. Returns whom to wake.
    fn give_up_overdue(&mut self) -> Vec<Waker> {
        let now = Instant::now();
        let is_over = |queued: &Queued| queued.deadline.is_some_and(|end| end <= now);
        let mut wakers = Vec::new();
        while let Some(at) = self.queued.iter().position(is_over) {
            let Some(Queued { id, frame, .. }) = self.queued.remove(at) else { break };
            let why = "the time of the call is over before it was sent";
            let result = Err(HalError::new(ErrorStatus::MissedDeadlineTransient, why).into());
            wakers.extend(self.finish(id, Finished { frame, result }));
        }
        wakers
    }

    /// Keeps a frame for its future, if that is still there. Returns whom to wake.
    fn finish(&mut self, id: u64, finished: Finished) -> Option<Waker> {
        let call = self.calls.get_mut(&id)?;
        call.finished = Some(finished);
        call.waker.take()
    }

    /// What a call has come to; else `waker` is woken once there is something.
    fn poll(
        &mut self,
        id: u64,
        fd: &Arc<OwnedFd>,
        waker: &Waker,
    ) -> (Option<Finished>, Vec<Waker>) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.waker = call.finished.is_none().then(|| waker.clone());
        }
        let wakers = self.take_finished(fd, Some(id));
        let is_finished = self.calls.get(&id).is_some_and(|call| call.finished.is_some());
        let call = if is_finished { self.calls.remove(&id) } else { None };
        (call.and_then(|call| call.finished), wakers)
    }
}

/// A frame that is computed, with its result.
#[derive(Debug)]
#[must_use = "the frame comes back when the future is awaited"]
pub struct FrameFuture {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Call {
        shared: Arc<Shared>,
        id: u64,
    },
    /// Its burst is of the process that this one was forked from.
    Refused(Option<Finished>),
    Over,
}

impl Future for FrameFuture {
    type Output = (Frame, Result<()>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let finished = match &mut self.kind {
            Kind::Call { shared, id } => {
                let (finished, wakers) = shared.lock().poll(*id, &shared.fd, context.waker());
                wakers.into_iter().for_each(Waker::wake);
                finished
            }
            Kind::Refused(finished) => finished.take(),
            Kind::Over => None,
        };
        match finished {
            Some(Finished { frame, result }) => {
                self.kind = Kind::Over;
                Poll::Ready((frame, result))
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for FrameFuture {
    fn drop(&mut self) {
        let Kind::Call { shared, id } = &self.kind else { return };
        if !shared.origin.is_here() {
            return;
        }
        let mut state = shared.lock();
        state.queued.retain(|queued| queued.id != *id);
        let call = state.calls.remove(id);
        // Another task is to be told from now on.
        let wakers = state.take_finished(&shared.fd, None);
        drop(state);
        // Memory is unmapped, and tasks are woken, without the lock.
        drop(call);
        wakers.into_iter().for_each(Waker::wake);
    }
}
