//! The quickest road through a burst for arguments in memories: the request of the execution
//! before, sent again.

use nnburst::hal::{RequestArgument, RequestPool};
use nnburst::{Burst, RuntimeError};

use super::call::{Argument, ArgumentPlace, Call};
use super::kept::Again;
use crate::compiled::Compiled;
use crate::error::Result;

impl Call {
    /// Sends the request of the execution before, if this one has the same arguments in the same
    /// memories and nothing else went through the burst; `None` where it has to be written.
    pub(super) fn run_again(&mut self, ready: &Compiled, burst: &mut Burst) -> Option<Result<()>> {
        let again = self.again.as_ref()?;
        if self.has_options() || !again.is_same(self) {
            return None;
        }
        self.copy_inputs();
        let computed: std::result::Result<(), RuntimeError> = burst.compute_last(again.last)?;
        if let Err(error) = computed {
            return Some(self.settle(ready, Err(error)));
        }
        self.copy_outputs();
        Some(self.note_contents(ready, true))
    }

    /// Takes note of the request that a burst has executed.
    pub(super) fn note_last(&mut self, ready: &Compiled, burst: &Burst) {
        self.again = None;
        if self.has_options() || ready.has_open_output {
            return;
        }
        let id = |pool: &RequestPool| match pool {
            RequestPool::Memory(memory) => Some(memory.id()),
            RequestPool::Token(_) => None,
        };
        let pools: Option<Vec<_>> = self.request.pools.iter().map(id).collect();
        self.again = burst.last_request().zip(pools).map(|(last, pools)| Again { last, pools });
    }
}

impl Again {
    fn is_same(&self, call: &Call) -> bool {
        let staging = call.staging.memory().map(|memory| memory.id());
        let inputs = call.inputs.iter().zip(&call.request.inputs);
        let outputs = call.outputs.iter().zip(&call.request.outputs);
        inputs.into_iter().all(|(given, last)| self.has(given, last, staging))
            && outputs.into_iter().all(|(given, last)| self.has(given, last, staging))
    }

    /// Returns whether an argument is as it was in the request.
    fn has<P>(&self, given: &Argument<P>, last: &RequestArgument, staging: Option<u64>) -> bool {
        let (memory, offset, length) = match &given.source {
            ArgumentPlace::Omitted => return last.has_no_value,
            ArgumentPlace::Unset => return false,
            // Pointers of these lengths lie in these places.
            ArgumentPlace::Pointer { length, .. } => (staging, last.location.offset, *length),
            ArgumentPlace::Memory { memory, place } => {
                (memory.shared().map(|memory| memory.id()), place.offset, place.length)
            }
        };
        let pool = usize::try_from(last.location.pool_index).ok().and_then(|at| self.pools.get(at));
        !last.has_no_value
            && pool.is_some_and(|&pool| memory == Some(pool))
            && (last.location.offset, last.location.length) == (offset, length)
            && given.dimensions.iter().eq(&last.dimensions)
    }
}
