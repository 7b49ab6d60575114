//! The answer of an execution in the background: told once, waited for by a thread or a task.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "futures")]
use std::task::Waker;
use std::time::Instant;

use nnburst_hal::{
    ExecutionCallback, ExecutionOptions, ExecutionResult, HalError, PreparedModel, Request,
};

use crate::settings::Settings;

/// The first answer counts; repeats are ignored. Clones are the same answer.
#[derive(Clone, Default)]
pub(crate) struct Answer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    told: Condvar,
}

#[derive(Default)]
struct State {
    answered: bool,
    result: Option<ExecutionResult>,
    #[cfg(feature = "futures")]
    waker: Option<Waker>,
}

impl Answer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The callback through which a driver reports the result.
    pub(crate) fn callback(&self) -> Arc<dyn ExecutionCallback> {
        Arc::new(Callback(self.clone()))
    }

    /// Tells the answer.
    pub(crate) fn tell(&self, result: ExecutionResult) {
        let mut state = self.state();
        if state.answered {
            return;
        }
        state.answered = true;
        state.result = Some(result);
        self.0.told.notify_all();
        #[cfg(feature = "futures")]
        if let Some(waker) = state.waker.take() {
            drop(state);
            waker.wake();
        }
    }

    /// Waits for the answer and takes it.
    pub(crate) fn wait(&self) -> ExecutionResult {
        let mut state = self.state();
        loop {
            if let Some(result) = state.result.take() {
                return result;
            }
            state = self.0.told.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the answer, until `deadline` at most; returns whether it is there.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let (state, _) = self
            .0
            .told
            .wait_timeout_while(self.state(), left, |state| !state.answered)
            .unwrap_or_else(PoisonError::into_inner);
        state.answered
    }

    /// Returns whether there is an answer; if not, `waker` is woken once there is.
    #[cfg(feature = "futures")]
    pub(crate) fn is_there(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        if !state.answered {
            state.waker = Some(waker.clone());
        }
        state.answered
    }
}

/// The driver's end of an answer. Dropped untold, it tells that.
struct Callback(Answer);

impl ExecutionCallback for Callback {
    fn notify(&self, result: ExecutionResult) {
        self.0.tell(result);
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        let why = "the driver went away without telling how the execution ended";
        self.0.tell(Err(HalError::unavailable(why).into()));
    }
}

/// Calls a device and waits for it, by the call that the settings say.
pub(crate) fn call_in_turn(
    model: &Arc<dyn PreparedModel>,
    request: &Request,
    options: ExecutionOptions,
) -> ExecutionResult {
    if Settings::of_process().synchronous_drivers {
        return model.execute_synchronously(request, options);
    }
    let answer = Answer::default();
    model.execute(request.clone(), options, answer.callback())?;
    answer.wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_that_is_dropped_untold_is_an_answer_too() {
        let answer = Answer::default();
        drop(answer.callback());
        let failure = answer.wait().unwrap_err();
        assert!(failure.to_string().contains("without telling"), "{failure}");
    }
}
