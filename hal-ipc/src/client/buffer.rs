//! A driver-managed buffer in another process.

use std::sync::Arc;

use nnburst_hal::{Buffer, Memory, Result};

use super::link::Link;
use crate::wire::{CallRef, DescriptorsOut};

/// A driver-managed buffer in another process; freed there when dropped here.
#[derive(Debug)]
pub struct RemoteBuffer {
    link: Arc<Link>,
    object: u64,
    token: u32,
}

impl RemoteBuffer {
    pub(super) fn new(link: Arc<Link>, object: u64, token: u32) -> Self {
        Self { link, object, token }
    }
}

impl Drop for RemoteBuffer {
    fn drop(&mut self) {
        self.link.release(self.object);
    }
}

impl Buffer for RemoteBuffer {
    fn token(&self) -> u32 {
        self.token
    }

    fn is_lost(&self) -> bool {
        self.link.lost().is_some()
    }

    fn copy_to(&self, destination: &Memory) -> Result<()> {
        let mut fds = DescriptorsOut::default();
        let destination = fds.memory(destination)?;
        let call = CallRef::CopyTo { buffer: self.object, destination };
        let answer = self.link.call_with(&call, &[], &fds);
        answer.map(|answer| answer.value).map_err(|failure| failure.error)
    }

    fn copy_from(&self, source: &Memory, dimensions: &[u32]) -> Result<()> {
        let mut fds = DescriptorsOut::default();
        let source = fds.memory(source)?;
        let dimensions = dimensions.to_vec();
        let call = CallRef::CopyFrom { buffer: self.object, source, dimensions };
        let answer = self.link.call_with(&call, &[], &fds);
        answer.map(|answer| answer.value).map_err(|failure| failure.error)
    }
}
