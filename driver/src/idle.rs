//! The watchdog: scratch memory of models that nobody executes for a while is given back, and the
//! threads that share its steps with it.
//!
//! One thread for all models of a driver; it is there while there are models.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use nnburst_hal::process;

use crate::compiled::Compiled;

/// The models that are watched.
#[derive(Debug)]
pub(crate) struct IdleWatch {
    /// Scratch memory that was not used for this long goes.
    idle: Duration,
    state: Mutex<State>,
    model_gone: Condvar,
}

#[derive(Debug, Default)]
struct State {
    models: Vec<Weak<Compiled>>,
    running: bool,
}

impl IdleWatch {
    pub(crate) fn new(idle: Duration) -> Self {
        Self { idle, state: Mutex::default(), model_gone: Condvar::new() }
    }

    /// Watches a model for as long as it lives.
    pub(crate) fn watch(self: &Arc<Self>, model: Weak<Compiled>) {
        let mut state = self.lock();
        if model.strong_count() == 0 {
            return;
        }
        state.models.push(model);
        if !state.running {
            let watch = Arc::clone(self);
            // Without a thread scratch memory stays until its model goes.
            state.running = process::spawn("nnburst-idle", move || watch.run()).is_ok();
        }
    }

    /// A model is gone: with the last of them the watchdog goes.
    pub(crate) fn forget(&self) {
        // Under the lock, so that the watchdog is not between its look and its sleep.
        drop(self.lock());
        self.model_gone.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        // Often enough that nothing stays for much longer than it may; models count these polls.
        let poll = self.idle / 2;
        let mut state = self.lock();
        loop {
            state.models.retain(|model| model.strong_count() > 0);
            if state.models.is_empty() {
                state.running = false;
                return;
            }
            let (woken, waited) =
                self.model_gone.wait_timeout(state, poll).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if waited.timed_out() {
                let models: Vec<_> = state.models.iter().filter_map(Weak::upgrade).collect();
                // Outside the lock: one that we hold last comes back to `forget`.
                drop(state);
                for model in models {
                    model.release_idle();
                }
                state = self.lock();
            }
        }
    }
}
