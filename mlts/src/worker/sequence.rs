//! A sequence of steps through a model: inputs in, call, outputs out, state carried over.

use super::client::{CallSession, CallTimes, Result, not_offered};
use super::pulse::Pulse;
use crate::data::{CaseEntry, Loaded, bytes_of};

/// Inputs of all steps of a case, by input.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    pub(crate) inputs: Vec<Vec<u8>>,
    pub(crate) steps: usize,
}

impl Feed {
    /// The inputs of a golden case.
    pub(crate) fn of_case(case: &CaseEntry) -> std::result::Result<Self, String> {
        let inputs =
            case.inputs.iter().map(|path| bytes_of(path)).collect::<std::result::Result<_, _>>()?;
        Ok(Self { inputs, steps: case.steps.max(1) })
    }

    /// One step on random inputs.
    pub(crate) fn random(loaded: &Loaded, seed: u64) -> Self {
        Self { inputs: loaded.random_inputs(seed), steps: 1 }
    }

    /// The bytes of an input at a step.
    fn step(&self, input: usize, step: usize) -> Option<&[u8]> {
        let bytes = self.inputs.get(input)?;
        let each = bytes.len() / self.steps.max(1);
        bytes.get(step.saturating_mul(each)..step.saturating_add(1).saturating_mul(each))
    }
}

/// A session of a model with the state that the caller keeps for it.
pub(crate) struct Sequence<'m> {
    pub(crate) loaded: &'m Loaded,
    session: CallSession,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

impl<'m> Sequence<'m> {
    pub(crate) fn new(loaded: &'m Loaded, session: CallSession) -> Self {
        let (inputs, outputs) = (loaded.inputs(), loaded.outputs());
        Self { loaded, session, inputs, outputs }
    }

    /// The refused settings of the session, in words.
    pub(crate) fn warnings(&self) -> &[String] {
        self.session.warnings()
    }

    /// The state as before the first step.
    pub(crate) fn reset(&mut self) -> Result<()> {
        for state in &self.loaded.states {
            self.session.write(state.input, &state.initial)?;
        }
        Ok(())
    }

    /// Writes the inputs of a step.
    pub(crate) fn write(&mut self, feed: &Feed, step: usize) -> Result<()> {
        for (at, &input) in self.inputs.iter().enumerate() {
            let bytes = feed.step(at, step).ok_or_else(|| not_offered("inputs for every step"))?;
            self.session.write(input, bytes)?;
        }
        Ok(())
    }

    /// Executes and carries the state over.
    pub(crate) fn call(&mut self, pulse: &Pulse) -> Result<CallTimes> {
        let sample = self.session.call(pulse)?;
        for state in &self.loaded.states {
            let value = self.session.read(state.output)?;
            self.session.write(state.input, &value)?;
        }
        Ok(sample)
    }

    /// The outputs of the last step.
    pub(crate) fn read(&mut self) -> Result<Vec<Vec<u8>>> {
        let (session, outputs) = (&mut self.session, &self.outputs);
        outputs.iter().map(|&output| session.read(output)).collect()
    }

    /// All steps from the first state on: by output, the values of all steps.
    pub(crate) fn run(&mut self, feed: &Feed, pulse: &Pulse) -> Result<Vec<Vec<u8>>> {
        self.reset()?;
        let mut all = vec![Vec::new(); self.outputs.len()];
        for step in 0..feed.steps {
            self.write(feed, step)?;
            self.call(pulse)?;
            for (all, value) in all.iter_mut().zip(self.read()?) {
                all.extend(value);
            }
        }
        Ok(all)
    }
}
