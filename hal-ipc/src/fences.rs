//! The waiter for the fences that executions depend on: one thread per client, however many there
//! are.
//!
//! ```text
//!   execute_fenced ──► FenceWaiter ── all fences signalled ──► the client's threads
//!                        poll(all)  └─ error, deadline, client gone ──► failed there and then
//! ```
//!
//! Nobody computes on this thread and nobody waits on those that compute, so that executions may
//! hang on each other in any order.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nnburst_hal::process::{self, Origin};
use nnburst_hal::{
    Budget, ErrorStatus, Exhausted, HalError, Resource, Result, TimePoint, wait_for_fence,
};

/// The period at which the waiter polls whether its client is still there.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The continuation once fences have signalled, or won't.
type Then = Box<dyn FnOnce(Result<()>) + Send>;

/// An execution that hangs on fences.
struct Hanging {
    fences: Vec<OwnedFd>,
    deadline: Option<TimePoint>,
    then: Then,
}

/// The executions of one client that depend on fences: for drivers too, which otherwise would wait
/// where a client that dies leaves them waiting.
///
/// Its thread comes with the first fence and goes with the last.
pub struct FenceWaiter(Arc<Shared>);

struct Shared {
    gone: Arc<AtomicBool>,
    budget: Option<Arc<Budget>>,
    state: Mutex<State>,
    /// In a child of this process nobody waits, and nothing is locked.
    origin: Origin,
}

#[derive(Default)]
struct State {
    new: Vec<Hanging>,
    /// Wakes the thread; `None` while there is none.
    wake: Option<Arc<EventFd>>,
}

impl FenceWaiter {
    /// For a client who is there until `gone` is set ([`Peer::gone`](crate::Peer::gone)).
    pub fn new(gone: Arc<AtomicBool>) -> Self {
        Self(Arc::new(Shared {
            gone,
            budget: None,
            state: Mutex::default(),
            origin: Origin::here(),
        }))
    }

    /// As [`FenceWaiter::new`]; its thread is charged to the client's budget.
    pub fn charged_to(budget: &Arc<Budget>, gone: Arc<AtomicBool>) -> Self {
        let budget = Some(Arc::clone(budget));
        Self(Arc::new(Shared { gone, budget, state: Mutex::default(), origin: Origin::here() }))
    }

    /// Calls `then` once every fence has signalled, or with why they won't be waited for any
    /// longer: `GENERAL_FAILURE` for a fence in error and when the client is gone,
    /// `MISSED_DEADLINE_TRANSIENT`. It runs on the thread that waits for the others too, so it
    /// should hand expensive work on.
    ///
    /// # Errors
    /// There is no thread to wait; `then` was not called.
    pub fn wait(
        &self,
        fences: Vec<OwnedFd>,
        deadline: Option<TimePoint>,
        then: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        self.0.origin.check()?;
        let mut state = self.0.lock();
        let wake = match &state.wake {
            Some(wake) => Arc::clone(wake),
            None => {
                let charge = self.0.budget.as_ref().map(|budget| {
                    let mut charge = budget.take_thread()?;
                    charge.grow(Resource::Descriptors, 1)?;
                    Ok::<_, Exhausted>(charge)
                });
                let charge = charge.transpose()?;
                let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
                let wake = EventFd::from_value_and_flags(0, flags).map_err(|errno| {
                    HalError::failure(format!("eventfd: {}", io::Error::from(errno)))
                })?;
                let (shared, wake) = (Arc::clone(&self.0), Arc::new(wake));
                let waking = Arc::clone(&wake);
                let run = move || {
                    shared.run(&waking);
                    drop(charge);
                };
                process::spawn("nnburst-fences", run)
                    .map_err(|error| HalError::failure(format!("no thread for fences: {error}")))?;
                state.wake = Some(Arc::clone(&wake));
                wake
            }
        };
        state.new.push(Hanging { fences, deadline, then: Box::new(then) });
        drop(state);
        // It can't be full: the thread takes all there is at once.
        let _ = wake.write(1);
        Ok(())
    }
}

impl std::fmt::Debug for FenceWaiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FenceWaiter")
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until nothing hangs any more.
    fn run(&self, wake: &EventFd) {
        let mut hanging = Vec::new();
        loop {
            {
                let mut state = self.lock();
                hanging.append(&mut state.new);
                if hanging.is_empty() {
                    state.wake = None;
                    return;
                }
            }
            self.settle(&mut hanging);
            sleep(wake, &hanging);
            let _ = wake.read();
        }
    }

    /// Sends on whatever waits for nothing any more.
    fn settle(&self, hanging: &mut Vec<Hanging>) {
        // Acquire: pairs with the release of whoever saw the client go.
        let gone = self.gone.load(Ordering::Acquire);
        for mut one in std::mem::take(hanging) {
            let mut broken = None;
            one.fences.retain(|fence| match has_signalled(fence) {
                Ok(signalled) => !signalled,
                Err(error) => {
                    broken.get_or_insert_with(|| HalError::failure(error.reason));
                    false
                }
            });
            if let Some(error) = broken {
                (one.then)(Err(error));
            } else if one.fences.is_empty() {
                (one.then)(Ok(()));
            } else if gone {
                (one.then)(Err(HalError::failure("the client is gone")));
            } else if one.deadline.is_some_and(TimePoint::has_passed) {
                let status = ErrorStatus::MissedDeadlineTransient;
                let reason = "the deadline passed before the fences signalled";
                (one.then)(Err(HalError::new(status, reason)));
            } else {
                hanging.push(one);
            }
        }
    }
}

/// Returns whether a fence has signalled.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is in error already.
pub(crate) fn has_signalled(fence: &OwnedFd) -> Result<bool> {
    wait_for_fence(fence.as_fd(), Some(Duration::ZERO))
}

/// Until a fence changes, a deadline passes, somebody wakes us, or [`POLL_INTERVAL`] is over.
fn sleep(wake: &EventFd, hanging: &[Hanging]) {
    let deadlines = hanging.iter().filter_map(|one| one.deadline);
    let left = deadlines.map(TimePoint::remaining).fold(POLL_INTERVAL, Duration::min);
    let fences = hanging.iter().flat_map(|one| &one.fences);
    let mut fds: Vec<_> = std::iter::once(wake.as_fd())
        .chain(fences.map(AsFd::as_fd))
        .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
        .collect();
    if hanging.is_empty() {
        return;
    }
    if ppoll(&mut fds, Some(TimeSpec::from(left)), None).is_err() {
        // Interrupted, or more descriptors than may be polled: look again, but not at once.
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Write};
    use std::sync::mpsc;

    use super::*;

    /// A fence and what signals it with a byte, or puts it in error when dropped.
    fn fence() -> (OwnedFd, PipeWriter) {
        let (fence, signal) = io::pipe().unwrap();
        (fence.into(), signal)
    }

    fn waiting(
        waiter: &FenceWaiter,
        fences: Vec<OwnedFd>,
        deadline: Option<TimePoint>,
    ) -> mpsc::Receiver<Result<()>> {
        let (told, word) = mpsc::channel();
        waiter.wait(fences, deadline, move |result| told.send(result).unwrap()).unwrap();
        word
    }

    fn status(word: &mpsc::Receiver<Result<()>>) -> Option<ErrorStatus> {
        let word = word.recv_timeout(Duration::from_secs(20)).unwrap();
        word.err().map(|error| error.status)
    }

    #[test]
    fn one_thread_waits_for_many_fences_in_any_order() {
        let gone = Arc::new(AtomicBool::new(false));
        let waiter = FenceWaiter::new(Arc::clone(&gone));
        let (fences, signals): (Vec<_>, Vec<_>) = (0..50).map(|_| fence()).unzip();
        let words: Vec<_> =
            fences.into_iter().map(|fence| waiting(&waiter, vec![fence], None)).collect();
        assert!(words.iter().all(|word| word.try_recv().is_err()), "nothing signalled yet");
        for (mut signal, word) in signals.into_iter().zip(&words).rev() {
            signal.write_all(&[1]).unwrap();
            assert_eq!(status(word), None);
        }
        assert_eq!(status(&waiting(&waiter, vec![], None)), None, "nothing to wait for");

        let (broken, signal) = fence();
        let word = waiting(&waiter, vec![broken], None);
        drop(signal);
        assert_eq!(status(&word), Some(ErrorStatus::GeneralFailure), "a fence in error");

        let (never, _signal) = fence();
        let soon = Some(TimePoint::after(Duration::from_millis(5)));
        let late = waiting(&waiter, vec![never], soon);
        assert_eq!(status(&late), Some(ErrorStatus::MissedDeadlineTransient));

        let (never, _signal) = fence();
        let word = waiting(&waiter, vec![never], None);
        gone.store(true, Ordering::Release);
        assert_eq!(status(&word), Some(ErrorStatus::GeneralFailure), "nobody waits any more");
    }
}
