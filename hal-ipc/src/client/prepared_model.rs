//! A prepared model in another process.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nnburst_fmq::Descriptor;
use nnburst_hal::{
    BurstCallback, BurstContext, BurstOptions, ExecutionCallback, ExecutionOptions,
    ExecutionResult, FencedExecution, FencedExecutionCallback, FencedTiming, PreparedModel,
    Request, Result, bound,
};

use super::burst::RemoteBurst;
use super::link::{self, Link};
use crate::wire::{CallRef, DescriptorsOut, FencedBody, RequestBody};

/// A prepared model in another process; released there when dropped here.
#[derive(Debug)]
pub struct RemotePreparedModel {
    link: Arc<Link>,
    object: u64,
}

impl RemotePreparedModel {
    pub(super) fn new(link: Arc<Link>, object: u64) -> Self {
        Self { link, object }
    }

    /// The driver's number for the model, if it is of that connection.
    pub(super) fn object_of(&self, link: &Arc<Link>) -> Option<u64> {
        Arc::ptr_eq(&self.link, link).then_some(self.object)
    }

    /// Returns whether the driver that prepared it is gone. It stays so, even where the driver is
    /// back.
    pub fn is_lost(&self) -> bool {
        self.link.lost().is_some()
    }

    /// A descriptor that becomes ready (`POLLHUP`, `POLLRDHUP`) when the driver is gone; it must
    /// not be read.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub fn peer_watch_fd(&self) -> Result<OwnedFd> {
        self.link.watch()
    }
}

impl Drop for RemotePreparedModel {
    fn drop(&mut self) {
        self.link.release(self.object);
    }
}

impl PreparedModel for RemotePreparedModel {
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult {
        let mut fds = DescriptorsOut::default();
        let request = RequestBody::new(request, &mut fds)?;
        let call = CallRef::ExecuteSynchronously { model: self.object, request, options };
        self.link.call_with(&call, &[], &fds).map(|answer| answer.value)
    }

    fn execute(
        &self,
        request: Request,
        options: ExecutionOptions,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        if let Err(error) = self.link.check_origin() {
            callback.notify(Err(error.clone().into()));
            return Err(error);
        }
        let deadline = options.deadline.map(bound::answered_by);
        let deadline = bound::earlier(deadline, bound::bound());
        let id = self.link.callbacks.add_executed(callback, &self.link, deadline);
        let launch = || {
            let mut fds = DescriptorsOut::default();
            let request = RequestBody::new(&request, &mut fds)?;
            let call = CallRef::Execute { model: self.object, request, options, callback: id };
            let answer = self.link.call_with(&call, &[], &fds);
            answer.map(|answer| answer.value).map_err(|failure| failure.error)
        };
        launch().inspect_err(|error| {
            if let Some(waiting) = self.link.callbacks.take_executed(id) {
                waiting.tell(Err(error.clone().into()));
            }
        })
    }

    fn execute_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        options: ExecutionOptions,
        duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        let mut fds = DescriptorsOut::default();
        let body = RequestBody::new(&request, &mut fds)?;
        let wait_for = link::places(wait_for.iter().map(AsFd::as_fd), &mut fds)?;
        let call = CallRef::ExecuteFenced {
            model: self.object,
            request: body,
            wait_for,
            options,
            duration,
        };
        let mut answer =
            self.link.call_making::<FencedBody>(&call, &fds).map_err(|failure| failure.error)?;
        let callback =
            Arc::new(RemoteFenced { link: Arc::clone(&self.link), object: answer.value.object });
        let sync_fence = link::fence(&mut answer.fds, answer.value.fence)?;
        Ok(FencedExecution { sync_fence, callback })
    }

    fn waits_in_background(&self) -> bool {
        // The service waits, and this process is its client.
        true
    }

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        let queues = [&request_channel, &result_channel];
        let burst = RemoteBurst::configure(&self.link, self.object, callback, queues, options)?;
        Ok(Arc::new(burst))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The callback of a fenced execution.
struct RemoteFenced {
    link: Arc<Link>,
    object: u64,
}

impl Drop for RemoteFenced {
    fn drop(&mut self) {
        self.link.release(self.object);
    }
}

impl FencedExecutionCallback for RemoteFenced {
    fn execution_info(&self) -> Result<FencedTiming> {
        self.link.query(&CallRef::ExecutionInfo { fenced: self.object })
    }

    fn check_driver(&self) -> Result<()> {
        self.link.check_peer()
    }
}
