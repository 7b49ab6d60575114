//! Events as futures, for applications that wait in tasks instead of threads. Feature `futures`; no
//! runtime is brought along, and none is asked for.

use std::future::{Future, IntoFuture};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use nnburst_hal::process;
use nnburst_hal::{ExecutionOutcome, FencedExecutionCallback, HalError, wait_for_driver};

use crate::error::Result;
use crate::execution::{Ending, Event, Pending};
use crate::frame::Frame;

/// The time after which a watcher looks whether its future is still there; by then the driver has
/// been asked once.
const LOOKS_UP_AFTER: Duration = Duration::from_secs(6);

/// The end of an [`Event`]: the frame comes back however the execution ended.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct EventFuture {
    frame: Option<Frame>,
    pending: PendingFuture,
}

/// The end of a [`Pending`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct PendingFuture {
    pending: Option<Pending>,
    ending: Option<Ending>,
    /// The watcher of the fence, once there is one.
    watch: Option<Arc<Watch>>,
}

impl std::fmt::Debug for PendingFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingFuture").field("pending", &self.pending).finish_non_exhaustive()
    }
}

/// A fence that a thread waits for.
#[derive(Debug, Default)]
struct Watch(Mutex<(bool, Option<Waker>)>);

impl Watch {
    fn is_over(&self, waker: &Waker) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = Some(waker.clone());
        state.0
    }

    fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(waker) = state.1.take() {
            drop(state);
            waker.wake();
        }
    }
}

impl Future for PendingFuture {
    type Output = Result<ExecutionOutcome>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.ending.is_none() && this.watch.is_none() {
            this.ending = match this.pending.as_ref().map(Pending::ending).transpose() {
                Ok(ending) => ending,
                Err(error) => return Poll::Ready(Err(error)),
            };
        }
        let is_over = match (&this.watch, &this.ending) {
            (Some(watch), _) => watch.is_over(context.waker()),
            (None, Some(Ending::Answer(answer))) => answer.is_there(context.waker()),
            (None, Some(Ending::Now)) => true,
            (None, Some(Ending::Fence(..)) | None) => false,
        };
        if is_over {
            return Poll::Ready(match this.pending.take() {
                Some(pending) => pending.wait(),
                None => Err(HalError::failure("the future was polled after its end").into()),
            });
        }
        let is_fence = |ending: &mut Ending| matches!(ending, Ending::Fence(..));
        if let Some(Ending::Fence(fence, info)) = this.ending.take_if(is_fence) {
            match watch(fence, info, context.waker()) {
                Ok(watch) => this.watch = Some(watch),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }
}

/// Has a thread wait for a fence: there is no other way that works in every runtime. It ends with
/// the fence, with the driver that is to signal it, or after its future.
fn watch(
    fence: OwnedFd,
    info: Arc<dyn FencedExecutionCallback>,
    waker: &Waker,
) -> Result<Arc<Watch>> {
    let watch = Arc::new(Watch::default());
    watch.is_over(waker);
    let told = Arc::clone(&watch);
    let wait = move || {
        let is_open = || {
            let ended = wait_for_driver(fence.as_fd(), Some(LOOKS_UP_AFTER), info.as_ref());
            // However it ends, whoever is woken looks for themselves.
            matches!(ended, Ok(false))
        };
        while Arc::strong_count(&told) > 1 && is_open() {}
        told.end();
    };
    process::spawn("nnburst-fence", wait)
        .map_err(|error| HalError::failure(format!("no thread for a fence: {error}")))?;
    Ok(watch)
}

impl IntoFuture for Pending {
    type Output = Result<ExecutionOutcome>;
    type IntoFuture = PendingFuture;

    fn into_future(self) -> PendingFuture {
        PendingFuture { pending: Some(self), ending: None, watch: None }
    }
}

impl Future for EventFuture {
    type Output = (Frame, Result<()>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let started = this.pending.pending.as_ref().map(Pending::started);
        let Poll::Ready(result) = Pin::new(&mut this.pending).poll(context) else {
            return Poll::Pending;
        };
        let Some(mut frame) = this.frame.take() else { return Poll::Pending };
        let latency = started.map(|started| started.elapsed()).unwrap_or_default();
        let result = result.and_then(|outcome| frame.finish(outcome, latency));
        Poll::Ready((frame, result))
    }
}

impl IntoFuture for Event {
    type Output = (Frame, Result<()>);
    type IntoFuture = EventFuture;

    fn into_future(self) -> EventFuture {
        let (frame, pending) = self.into_parts();
        EventFuture { frame: Some(frame), pending: pending.into_future() }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;
    use std::thread::Thread;

    use super::*;
    use crate::{Device, PrepareOptions, builtin};

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        let mut future = Box::pin(future);
        let waker = Arc::new(Unpark(std::thread::current())).into();
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    #[test]
    fn events_can_be_awaited() {
        let device = Device::embedded("nnapi-sample_all").unwrap();
        let model = builtin::model("add1").unwrap();
        let compilation = device.compile(&model, PrepareOptions::default()).unwrap();
        for is_fenced in [false, true] {
            let mut frame = compilation.frame().unwrap();
            frame.write(0, &[1.0f32]).unwrap();
            frame.write(1, &[2.0f32]).unwrap();
            let execution = compilation.execution();
            let event = if is_fenced {
                execution.start_fenced(frame, Vec::new()).unwrap()
            } else {
                execution.start(frame).unwrap()
            };
            let (frame, result) = block_on(event.into_future());
            result.unwrap();
            assert_eq!(frame.read::<f32>(0).unwrap(), [3.0], "fenced: {is_fenced}");
        }
    }
}
