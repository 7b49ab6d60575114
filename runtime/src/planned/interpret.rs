//! IF and WHILE: which steps come next, and where their graphs find their values.

use std::time::{Duration, Instant};

use nnburst_hal::{DEFAULT_LOOP_TIMEOUT, ErrorStatus, HalError, MAX_LOOP_TIMEOUT, OutputShape};

use super::places::{ValuePlace, merge};
use super::plan::{Branch, LoopStep};
use super::run::{Run, Stop};

/// A loop under way.
#[derive(Debug)]
pub(super) struct LoopState {
    began: Instant,
    /// True if the condition is what ran last.
    condition_ran: bool,
    /// The present places of the variables.
    variables: Vec<ValuePlace>,
    /// The one of the two buffers that the next iteration writes.
    turn: usize,
}

impl Run<'_> {
    /// The step behind an IF.
    pub(super) fn branch(&mut self, at: usize, branch: &Branch) -> Result<usize, Stop> {
        let condition = self.places.get(branch.condition).cloned().unwrap_or_default();
        let [yes, no] = &branch.bindings;
        let (bindings, next) =
            if condition.first_byte()? != 0 { (yes, at + 1) } else { (no, branch.otherwise) };
        for &(inner, outer) in bindings {
            let place = self.places.get(outer).cloned().unwrap_or_default();
            self.bind(inner, place);
        }
        Ok(next)
    }

    /// The step behind a WHILE: reached once from before it, then from the ends of condition and
    /// body.
    pub(super) fn repeat(&mut self, at: usize, step: &LoopStep) -> Result<usize, Stop> {
        let mut state = match self.loops.remove(&at) {
            Some(state) => state,
            None => LoopState {
                began: Instant::now(),
                condition_ran: false,
                variables: self.places_of(&step.variables),
                turn: 0,
            },
        };
        if !state.condition_ran {
            self.bind_all(&step.condition_inputs, &state.variables);
            let (verdict, home) = &step.verdict;
            self.bind(*verdict, self.place_of(home, *verdict));
            state.condition_ran = true;
            self.loops.insert(at, state);
            return Ok(at + 1);
        }
        let verdict = self.places.get(step.verdict.0).cloned().unwrap_or_default();
        if verdict.first_byte()? == 0 {
            self.hand_out(step, &state)?;
            return Ok(step.exit);
        }
        let limit = self.loop_timeout();
        if state.began.elapsed() > limit {
            let status = ErrorStatus::MissedDeadlineTransient;
            let error = HalError::new(status, format!("a WHILE ran longer than {limit:?}"));
            return Err(Stop::for_good(error));
        }
        self.bind_all(&step.body_inputs, &state.variables);
        for (index, (&slot, buffers)) in step.body_outputs.iter().zip(&step.buffers).enumerate() {
            let Some(home) = buffers.get(state.turn) else { continue };
            let place = self.place_of(home, slot);
            self.bind(slot, place.clone());
            if let Some(variable) = state.variables.get_mut(index) {
                *variable = place;
            }
        }
        state.turn = 1 - state.turn;
        state.condition_ran = false;
        self.loops.insert(at, state);
        Ok(step.body_at)
    }

    /// Copies the variables to where the loop's results belong.
    fn hand_out(&mut self, step: &LoopStep, state: &LoopState) -> Result<(), Stop> {
        for (&slot, variable) in step.results.iter().zip(&state.variables) {
            let Some(result) = self.places.get_mut(slot) else { continue };
            let shape =
                OutputShape { dimensions: variable.dimensions.clone(), is_sufficient: true };
            result.dimensions = merge(&result.dimensions, &shape)?;
            variable.copy_to(result)?;
        }
        Ok(())
    }

    fn loop_timeout(&self) -> Duration {
        self.options.loop_timeout.unwrap_or(DEFAULT_LOOP_TIMEOUT).min(MAX_LOOP_TIMEOUT)
    }

    fn places_of(&self, slots: &[usize]) -> Vec<ValuePlace> {
        slots.iter().map(|&slot| self.places.get(slot).cloned().unwrap_or_default()).collect()
    }

    fn bind_all(&mut self, slots: &[usize], places: &[ValuePlace]) {
        for (&slot, place) in slots.iter().zip(places) {
            self.bind(slot, place.clone());
        }
    }

    /// Has a value of an inner graph live where one of the outer graph does.
    fn bind(&mut self, slot: usize, place: ValuePlace) {
        if let Some(bound) = self.places.get_mut(slot) {
            *bound = place;
        }
    }
}
