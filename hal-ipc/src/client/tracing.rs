//! Spans of a driver in another process.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use nnburst_hal::Result;

use super::link::Link;
use crate::wire::{CallRef, DescriptorsOut, TraceBody};

/// A driver writes its spans to a file of ours, until this is dropped.
pub struct RemoteTracing {
    link: Arc<Link>,
    object: u64,
}

impl RemoteTracing {
    pub(super) fn start(link: Arc<Link>, file: BorrowedFd<'_>) -> Result<Self> {
        let mut fds = DescriptorsOut::default();
        let call = CallRef::Trace { file: fds.push(file)? };
        let answer = link.call_making::<TraceBody>(&call, &fds);
        let TraceBody { object } = answer.map_err(|failure| failure.error)?.value;
        Ok(Self { link, object })
    }
}

impl std::fmt::Debug for RemoteTracing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteTracing").field("object", &self.object).finish_non_exhaustive()
    }
}

impl Drop for RemoteTracing {
    fn drop(&mut self) {
        self.link.release(self.object);
    }
}
