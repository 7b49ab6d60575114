//! `ANeuralNetworksBurst`.

use std::ffi::c_int;
use std::sync::Arc;

use nnburst::{BurstOptions, Wait};

use crate::c::Out;
use crate::compilation::{Compilation, Ready, ready, wait_strategy};
use crate::error::{Error, Result, call, quietly};
use crate::handle::{Handle, object};

/// A burst. Whoever executes in it works with it until the end: a second one finds it in use.
#[derive(Debug)]
pub(crate) struct Burst {
    pub(crate) ready: Arc<Ready>,
    /// Nothing where the device has no bursts, or needs none because it is in this process.
    pub(crate) channel: Option<nnburst::Burst>,
}

object!(Burst, "burst", 6);

pub(crate) extern "C" fn create(
    compilation: Handle<Compilation>,
    burst: Out<'_, Handle<Burst>>,
) -> c_int {
    call(|| open(compilation, None, burst))
}

/// `nnburst_Burst_create`.
pub(crate) extern "C" fn create_waiting(
    compilation: Handle<Compilation>,
    wait: c_int,
    burst: Out<'_, Handle<Burst>>,
) -> c_int {
    call(|| open(compilation, Some(wait_strategy(wait)?), burst))
}

fn open(
    compilation: Handle<Compilation>,
    wait: Option<Wait>,
    burst: Out<'_, Handle<Burst>>,
) -> Result<()> {
    let burst = burst.ok_or_else(|| Error::null("burst"))?;
    // The handle is looked at before the result is touched, its state after that.
    compilation.with(|_| Ok(()))?;
    burst.write(Handle::NULL);
    let ready = ready(compilation)?;
    let wait =
        wait.map_or_else(|| compilation.with(|compilation| Ok(compilation.burst_wait)), Ok)?;
    let options = BurstOptions { wait, ..BurstOptions::default() };
    // What can't have a burst takes the ordinary path, silently; what a dead driver made has no
    // path at all.
    let opened = (!ready.is_here).then(|| ready.compilation.burst(&options)).transpose();
    let channel = match opened {
        Ok(channel) => channel,
        Err(error) if error.is_device_lost() || error.is_deadline_missed() => {
            return Err(error.into());
        }
        Err(_) => None,
    };
    burst.write(Handle::new(Burst { ready, channel })?);
    Ok(())
}

pub(crate) extern "C" fn free(burst: Handle<Burst>) {
    quietly(|| drop(burst.free()));
}
