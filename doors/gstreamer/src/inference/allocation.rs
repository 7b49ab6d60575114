//! The answer to upstream's ALLOCATION query: memory that the driver maps.

use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::*;

use super::imp::Inference;
use crate::CAT;
use crate::allocator::MemfdAllocator;

/// Buffers of the pool that is offered: one that upstream fills, one that is computed.
const LEAST_BUFFERS: u32 = 2;

/// The alignment that is offered, less one: kernels read whole cache lines.
const ALIGNMENT: usize = 63;

impl Inference {
    /// Offers memfds. The allocator comes first and by itself, as sources take it from there and
    /// replace the one of a pool; then a pool for those that want one.
    ///
    /// # Errors
    /// The query has no caps of a video.
    pub(super) fn offer(
        &self,
        allocator: &MemfdAllocator,
        query: &mut gst::query::Allocation,
    ) -> Result<(), gst::LoggableError> {
        let (caps, needs_pool) = query.get_owned();
        let caps =
            caps.ok_or_else(|| gst::loggable_error!(CAT, "an allocation query without caps"))?;
        let info = gst_video::VideoInfo::from_caps(&caps)?;
        let size = u32::try_from(info.size())
            .map_err(|_| gst::loggable_error!(CAT, "a frame of {} bytes", info.size()))?;
        let params = gst::AllocationParams::new(gst::MemoryFlags::empty(), ALIGNMENT, 0, 0);
        query.add_allocation_param(Some(allocator), params);
        let pool = needs_pool.then(|| pool(&caps, size, allocator, &params)).flatten();
        query.add_allocation_pool(pool.as_ref(), size, LEAST_BUFFERS, 0);
        // Pictures go on downstream as they are, so upstream may place rows as it likes only where
        // downstream can follow.
        let mut downstream = gst::query::Allocation::new(Some(&caps), false);
        let answered = self.obj().src_pad().peer_query(&mut downstream);
        if answered && downstream.find_allocation_meta::<gst_video::VideoMeta>().is_some() {
            query.add_allocation_meta::<gst_video::VideoMeta>(None);
        }
        gst::debug!(CAT, imp = self, "offered memfds of {size} bytes");
        Ok(())
    }
}

/// A pool of memfds.
fn pool(
    caps: &gst::Caps,
    size: u32,
    allocator: &MemfdAllocator,
    params: &gst::AllocationParams,
) -> Option<gst_video::VideoBufferPool> {
    let pool = gst_video::VideoBufferPool::new();
    let mut config = pool.config();
    config.set_params(Some(caps), size, LEAST_BUFFERS, 0);
    config.set_allocator(Some(allocator), Some(params));
    pool.set_config(config).ok()?;
    Some(pool)
}
