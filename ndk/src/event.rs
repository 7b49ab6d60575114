//! `ANeuralNetworksEvent`: the end of an execution, or a fence of somebody else's.

use std::ffi::c_int;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use nnburst::hal::{TimePoint, bound, wait_for_fence};

use crate::c::{Out, duplicate};
use crate::error::{Code, Error, Result, call, quietly};
use crate::execution::Flight;
use crate::handle::{Handle, object};

/// An event; executions that depend on it share it with the handle.
#[derive(Debug)]
pub(crate) enum Event {
    /// The end of an execution.
    Execution(Arc<Flight>),
    /// Somebody else's fence.
    Fence(OwnedFd),
}

object!(Arc<Event>, "event", 8);

/// The role of an event for the execution that depends on it.
pub(crate) enum Dependency {
    /// A fence that the driver waits for.
    Fence(OwnedFd),
    /// Nothing any more.
    Over,
}

impl Event {
    fn wait(&self) -> Result<()> {
        match self {
            Self::Execution(flight) => flight.wait(),
            Self::Fence(fence) => {
                let left = bound::bound().map(TimePoint::remaining);
                match wait_for_fence(fence.as_fd(), left) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(bound::missed("fence").into()),
                    Err(error) => Err(Error::new(Code::OpFailed, error.to_string())),
                }
            }
        }
    }

    /// Another descriptor of the fence, where there is one.
    fn fence(&self) -> Option<Result<OwnedFd>> {
        match self {
            Self::Execution(flight) => flight.fence().map(|fence| copy(&fence)),
            Self::Fence(fence) => Some(copy(fence)),
        }
    }

    /// A fence to be handed on, or, having waited for the end, nothing.
    ///
    /// # Errors
    /// The fence can't be duplicated, or the execution waited for failed.
    pub(crate) fn dependency(&self) -> Result<Dependency> {
        match self.fence() {
            Some(fence) => Ok(Dependency::Fence(fence?)),
            None => self.wait().map(|()| Dependency::Over),
        }
    }
}

fn copy(fence: &OwnedFd) -> Result<OwnedFd> {
    fence
        .try_clone()
        .map_err(|error| Error::new(Code::OpFailed, format!("duplicating a fence: {error}")))
}

pub(crate) extern "C" fn wait(event: Handle<Arc<Event>>) -> c_int {
    call(|| event.with(|event| Ok(Arc::clone(event)))?.wait())
}

/// Waits for the end first.
pub(crate) extern "C" fn free(event: Handle<Arc<Event>>) {
    quietly(|| {
        if let Some(event) = event.free() {
            // How it ended is nobody's question any more. Somebody else's fence may never signal.
            if let Event::Execution(_) = &*event {
                let _ = event.wait();
            }
        }
    });
}

pub(crate) extern "C" fn create_from_sync_fence_fd(
    fd: c_int,
    event: Out<'_, Handle<Arc<Event>>>,
) -> c_int {
    call(|| {
        let event = event.ok_or_else(|| Error::null("event"))?;
        event.write(Handle::NULL);
        if fd <= 0 {
            return Err(Error::data(format!("{fd} is no fence")));
        }
        let fence = duplicate(fd).map_err(|error| Error::data(format!("{fd}: {error}")))?;
        event.write(Handle::new(Arc::new(Event::Fence(fence)))?);
        Ok(())
    })
}

pub(crate) extern "C" fn get_sync_fence_fd(event: Handle<Arc<Event>>, fd: Out<'_, c_int>) -> c_int {
    call(|| {
        let fd = fd.ok_or_else(|| Error::null("sync_fence_fd"))?;
        fd.write(-1);
        let event = event.with(|event| Ok(Arc::clone(event)))?;
        let fence = event.fence().ok_or_else(|| {
            Error::new(Code::OpFailed, "no fence stands behind the event, or not any more")
        })?;
        fd.write(fence?.into_raw_fd());
        Ok(())
    })
}
