//! `ANeuralNetworksBurst`.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use nnburst::hal::ExecutionPreference;
use nnburst::{BurstOptions, Wait};

use crate::c::Out;
use crate::compilation::{Compilation, Ready, ready};
use crate::error::{Error, Result, call, quietly};
use crate::handle::{Handle, object};

/// A burst; executions that are underway share it with the handle.
#[derive(Debug)]
pub(crate) struct Burst {
    pub(crate) ready: Arc<Ready>,
    /// Nothing where the device has no bursts, or needs none because it is in this process.
    channel: Mutex<Option<nnburst::Burst>>,
}

object!(Arc<Burst>, "burst", 6);

impl Burst {
    /// The channel, for one execution.
    ///
    /// # Errors
    /// `BAD_STATE` while another execution has it.
    pub(crate) fn channel(&self) -> Result<MutexGuard<'_, Option<nnburst::Burst>>> {
        match self.channel.try_lock() {
            Ok(channel) => Ok(channel),
            Err(TryLockError::Poisoned(channel)) => Ok(channel.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::state("another execution is in the burst")),
        }
    }
}

pub(crate) extern "C" fn create(
    compilation: Handle<Compilation>,
    burst: Out<'_, Handle<Arc<Burst>>>,
) -> c_int {
    call(|| {
        let burst = burst.ok_or_else(|| Error::null("burst"))?;
        // The handle is looked at before the result is touched, its state after that.
        compilation.with(|_| Ok(()))?;
        burst.write(Handle::NULL);
        let ready = ready(compilation)?;
        let wait = match ready.preference {
            ExecutionPreference::LowPower => Wait::Block,
            _ => Wait::Adaptive,
        };
        let options = BurstOptions { wait, ..BurstOptions::default() };
        let is_here = ready.compilation.devices().iter().all(nnburst::Device::is_embedded);
        // What can't have a burst takes the ordinary path, silently.
        let channel = if is_here { None } else { ready.compilation.burst(&options).ok() };
        burst.write(Handle::new(Arc::new(Burst { ready, channel: Mutex::new(channel) }))?);
        Ok(())
    })
}

pub(crate) extern "C" fn free(burst: Handle<Arc<Burst>>) {
    quietly(|| drop(burst.free()));
}
