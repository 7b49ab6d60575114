//! Polls of whoever validates a large model, and memory whose size a model says.

use std::cell::Cell;

use super::error::Rule;

/// The work between two polls, in operands, operations and entries of their lists: a few
/// tens of nanoseconds each, some hundred in a debug build, so that polls are well below 5 ms
/// apart.
const BETWEEN: usize = 4096;

/// Polls whether the validation may go on.
pub(super) struct Polls<'a> {
    /// False where it may not.
    goes_on: Option<&'a dyn Fn() -> bool>,
    /// The work since the last poll.
    done: Cell<usize>,
}

impl<'a> Polls<'a> {
    /// Nobody asks.
    pub(super) const fn none() -> Self {
        Self { goes_on: None, done: Cell::new(0) }
    }

    pub(super) const fn new(goes_on: &'a dyn Fn() -> bool) -> Self {
        Self { goes_on: Some(goes_on), done: Cell::new(0) }
    }

    /// Notes that this much is about to be looked at.
    pub(super) fn pass(&self, amount: usize) -> Result<(), Rule> {
        let Some(goes_on) = self.goes_on else { return Ok(()) };
        let done = self.done.get().saturating_add(amount);
        if done < BETWEEN {
            self.done.set(done);
            return Ok(());
        }
        self.done.set(0);
        if goes_on() { Ok(()) } else { Err(Rule::Ended) }
    }
}

/// As many copies of a value as a model has of something.
pub(super) fn marks<T: Clone>(value: T, count: usize) -> Result<Vec<T>, Rule> {
    let mut marks = Vec::new();
    marks.try_reserve_exact(count).map_err(|_| Rule::NoMemory { count })?;
    marks.resize(count, value);
    Ok(marks)
}
