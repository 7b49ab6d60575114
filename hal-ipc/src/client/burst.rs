//! A burst whose driver's end is in another process.

use std::sync::Arc;
use std::time::Duration;

use nnburst_fmq::Descriptor;
use nnburst_hal::{BurstCallback, BurstContext, BurstFigures, BurstOptions, BurstTerms, Result};

use super::link::Link;
use crate::wire::{BurstBody, CallRef, DescriptorsOut, QueueBody};

/// The time that a driver may take to forget a memory.
const PATIENCE: Duration = Duration::from_millis(100);

/// The driver's end of a burst; released there when dropped here. The queues themselves are between
/// the two ends of the burst, and none of this crate's business.
pub(super) struct RemoteBurst {
    link: Arc<Link>,
    /// The number by which the driver knows our callback.
    callback: u64,
    object: u64,
    terms: BurstTerms,
}

impl RemoteBurst {
    pub(super) fn configure(
        link: &Arc<Link>,
        model: u64,
        callback: Arc<dyn BurstCallback>,
        [requests, results]: [&Descriptor; 2],
        options: BurstOptions,
    ) -> Result<Self> {
        let mut fds = DescriptorsOut::default();
        let requests = QueueBody::new(requests, &mut fds)?;
        let results = QueueBody::new(results, &mut fds)?;
        let callback = link.callbacks.add_burst(callback);
        let call = CallRef::ConfigureBurst { model, callback, requests, results, options };
        match link.call_making(&call, &fds) {
            Ok(answer) => {
                let BurstBody { object, terms } = answer.value;
                Ok(Self { link: Arc::clone(link), callback, object, terms })
            }
            Err(failure) => {
                link.callbacks.remove_burst(callback);
                Err(failure.error)
            }
        }
    }
}

impl BurstContext for RemoteBurst {
    fn free_memory(&self, slot: i32) {
        // If the driver is gone, so is what it kept for the slot.
        let _ = self.link.call::<()>(&CallRef::FreeMemory { burst: self.object, slot });
    }

    fn try_free_memory(&self, slot: i32) -> bool {
        // Who drops a memory doesn't wait for a driver that is stopped, and once for one that
        // doesn't answer.
        let patience = if self.link.is_silent() { Duration::ZERO } else { PATIENCE };
        let call = CallRef::FreeMemory { burst: self.object, slot };
        match self.link.call_for::<()>(&call, patience) {
            Ok(()) => true,
            // If the driver is gone, so is what it kept for the slot.
            Err(_) => self.link.lost().is_some(),
        }
    }

    fn figures(&self) -> Option<BurstFigures> {
        self.link.query(&CallRef::BurstFigures { burst: self.object }).ok()?
    }

    fn terms(&self) -> BurstTerms {
        self.terms.clone()
    }
}

impl Drop for RemoteBurst {
    fn drop(&mut self) {
        self.link.callbacks.remove_burst(self.callback);
        self.link.release(self.object);
    }
}
