//! The steps of a longer chore, and the time that each of them took.

use std::time::Instant;

use crate::cargo::Outcome;

/// Steps that were taken; prints the seconds of each when it is dropped, after a failure as well.
#[derive(Default)]
pub(crate) struct Steps(Vec<Step>);

struct Step {
    name: &'static str,
    seconds: f64,
}

impl Steps {
    /// Takes a step.
    pub(crate) fn take(&mut self, name: &'static str, run: impl FnOnce() -> Outcome) -> Outcome {
        let begun = Instant::now();
        let outcome = run();
        self.0.push(Step { name, seconds: begun.elapsed().as_secs_f64() });
        outcome
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        for Step { name, seconds } in &self.0 {
            println!("{seconds:7.0} s  {name}");
        }
    }
}
