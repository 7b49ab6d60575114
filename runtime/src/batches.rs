//! Requests that are computed several at a time: more results a second, each of them later.
//!
//! ```text
//!   next() ──► place of the next request ──► submit()   sends the batch once it is full
//!                                            flush()    sends what there is
//!   poll(), wait_until() ◄── the answers of the oldest batch
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nnburst_hal::{Direction, Operand, View, ViewMut};

use crate::burst::{Burst, Finished};
use crate::element::Element;
use crate::error::{Result, RuntimeError};
use crate::frame::Frame;

/// A burst on a model whose arguments hold several requests, along the first axis of each.
///
/// A batch reads each weight once for all of its requests and crosses to the driver once, which
/// pays where weights or the crossing are most of a request's time: layers with one row, networks
/// of some microseconds. Convolutions of pictures gain nothing. A batch that is not full takes as
/// long as a full one.
///
/// From the second batch of each frame on nothing is allocated.
#[derive(Debug)]
pub struct Batches {
    burst: Burst,
    size: usize,
    patience: Option<Duration>,
    /// The batch that takes requests.
    filling: Option<Filling>,
    /// Batches in flight, the oldest first.
    sent: VecDeque<Sent>,
    /// Frames that nobody uses.
    free: Vec<Frame>,
    /// The batch whose answers were handed out last.
    answered: Option<Frame>,
    next: u64,
}

#[derive(Debug)]
struct Filling {
    frame: Frame,
    first: u64,
    count: usize,
    begun: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    first: u64,
    count: usize,
}

/// The place of the next request in its batch.
#[derive(Debug)]
pub struct BatchPlace<'a> {
    frame: &'a mut Frame,
    place: usize,
    size: usize,
}

/// The answers of a batch, until the next call.
#[derive(Debug)]
pub struct BatchAnswers<'a> {
    /// The number of the first request; the others follow. [`Batches::submit`] told it.
    pub first: u64,
    /// The number of requests.
    pub count: usize,
    /// The result of all of them. Outputs mean nothing where it is an error.
    pub result: Result<()>,
    frame: &'a Frame,
    size: usize,
}

impl Batches {
    /// Gathers requests for a burst, whose depth is the number of batches in flight. After
    /// `patience` a batch that is not full is sent as it is, by whichever call comes next; `None`
    /// for no end.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] where the first extents of the model's arguments differ or are
    /// unknown; what making a frame gave.
    pub fn new(burst: Burst, patience: Option<Duration>) -> Result<Self> {
        let (inputs, outputs) = burst.arguments();
        let size = batch_of(inputs, outputs)?;
        // One that is filled while all others are in flight, and one whose answers are looked at.
        let frames = burst.depth() + 2;
        let mut free = Vec::with_capacity(frames);
        for _ in 0..frames {
            free.push(burst.frame()?);
        }
        Ok(Self {
            size,
            patience,
            filling: None,
            sent: VecDeque::with_capacity(burst.depth()),
            free,
            answered: None,
            next: 0,
            burst,
        })
    }

    /// Requests of a batch.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Requests that were submitted and whose answers were not handed out.
    pub fn pending(&self) -> usize {
        let filled = self.filling.as_ref().map_or(0, |filling| filling.count);
        self.sent.iter().map(|sent| sent.count).sum::<usize>() + filled
    }

    /// The place of the next request, to be filled before [`Batches::submit`].
    ///
    /// # Errors
    /// [`RuntimeError::Busy`] where the batch is full and as many as can be are in flight: take
    /// answers first.
    pub fn place(&mut self) -> Result<BatchPlace<'_>> {
        self.send_due()?;
        if self.filling.as_ref().is_some_and(|filling| filling.count == self.size) {
            self.flush()?;
        }
        let (size, first) = (self.size, self.next);
        let filling = match &mut self.filling {
            Some(filling) => filling,
            empty @ None => {
                let busy = RuntimeError::Busy { depth: self.burst.depth() };
                let frame = self.free.pop().or_else(|| self.answered.take()).ok_or(busy)?;
                empty.insert(Filling { frame, first, count: 0, begun: Instant::now() })
            }
        };
        Ok(BatchPlace { frame: &mut filling.frame, place: filling.count, size })
    }

    /// Takes the request that was written to [`Batches::place`], and sends its batch once that is
    /// full. Returns the request's number, counted from 0. Where as many batches as can be are in
    /// flight a full one waits for the next call that finds room.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] where no place was asked for; what sending the batch gave, the
    /// request then being in it still.
    pub fn submit(&mut self) -> Result<u64> {
        let Some(filling) = self.filling.as_mut().filter(|filling| filling.count < self.size)
        else {
            let why = "a request was submitted without a place of its own (Batches::place)";
            return Err(RuntimeError::Argument(why.into()));
        };
        if filling.count == 0 {
            filling.begun = Instant::now();
        }
        filling.count += 1;
        let number = self.next;
        self.next += 1;
        if filling.count == self.size {
            match self.flush() {
                Ok(()) | Err(RuntimeError::Busy { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(number)
    }

    /// Sends the batch that is being filled, if any request is in it.
    ///
    /// # Errors
    /// As for [`Burst::try_submit`]; the requests stay in the batch.
    pub fn flush(&mut self) -> Result<()> {
        let Some(filling) = self.filling.take_if(|filling| filling.count > 0) else {
            return Ok(());
        };
        let Filling { frame, first, count, begun } = filling;
        match self.burst.try_submit(frame) {
            Ok(()) => {
                self.sent.push_back(Sent { first, count });
                Ok(())
            }
            Err(unsubmitted) => {
                let frame = unsubmitted.frame;
                self.filling = Some(Filling { frame, first, count, begun });
                Err(unsubmitted.error)
            }
        }
    }

    /// The answers of the oldest batch in flight, if they are there. Sends a batch that has waited
    /// for long enough.
    ///
    /// # Errors
    /// As for [`Batches::flush`].
    pub fn poll(&mut self) -> Result<Option<BatchAnswers<'_>>> {
        self.free.extend(self.answered.take());
        self.send_due()?;
        let finished = self.burst.poll();
        Ok(finished.and_then(|finished| self.answers(finished)))
    }

    /// As [`Batches::poll`], waiting until `deadline` at most. A batch whose patience ends
    /// meanwhile is sent, where there is room.
    ///
    /// # Errors
    /// As for [`Batches::flush`].
    pub fn wait_until(&mut self, deadline: Instant) -> Result<Option<BatchAnswers<'_>>> {
        self.free.extend(self.answered.take());
        let finished = loop {
            self.send_due()?;
            let now = Instant::now();
            // One that is due still found no room: an answer makes it.
            let due = self.due().filter(|due| now < *due && *due < deadline);
            let until = due.unwrap_or(deadline);
            let finished = if due.is_some() && self.sent.is_empty() {
                std::thread::sleep(until.saturating_duration_since(now));
                None
            } else {
                self.burst.wait_until(until)
            };
            if finished.is_some() || due.is_none() {
                break finished;
            }
        };
        Ok(finished.and_then(|finished| self.answers(finished)))
    }

    fn answers(&mut self, finished: Finished) -> Option<BatchAnswers<'_>> {
        let Sent { first, count } = self.sent.pop_front()?;
        let frame = self.answered.insert(finished.frame);
        Some(BatchAnswers { first, count, result: finished.result, frame, size: self.size })
    }

    /// The moment at which the batch that is being filled has waited for long enough.
    fn due(&self) -> Option<Instant> {
        let filling = self.filling.as_ref().filter(|filling| filling.count > 0)?;
        filling.begun.checked_add(self.patience?)
    }

    /// Sends a batch that is full, or has waited for long enough, where there is room.
    fn send_due(&mut self) -> Result<()> {
        let is_full = self.filling.as_ref().is_some_and(|filling| filling.count == self.size);
        if !is_full && self.due().is_none_or(|due| Instant::now() < due) {
            return Ok(());
        }
        match self.flush() {
            Err(RuntimeError::Busy { .. }) => Ok(()),
            sent => sent,
        }
    }
}

impl BatchPlace<'_> {
    /// Copies values into an input of the request.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such input, or its type or size are others.
    pub fn write<T: Element>(&mut self, input: usize, values: &[T]) -> Result<()> {
        self.frame.check::<T>(Direction::Input, input)?;
        let view = self.input(input)?;
        let bytes: &[u8] = bytemuck::cast_slice(values);
        if view.len() != bytes.len() {
            let (takes, given) = (view.len(), bytes.len());
            let why = format!("input {input} of a request takes {takes} bytes, {given} given");
            return Err(RuntimeError::Argument(why));
        }
        view.copy_from_slice(bytes);
        Ok(())
    }

    /// The bytes of an input of the request, in place.
    ///
    /// # Errors
    /// As for [`Frame::input`].
    pub fn input(&mut self, input: usize) -> Result<ViewMut<'_>> {
        let view = self.frame.input(input)?;
        let bytes = view.len() / self.size;
        let range = self.place * bytes..(self.place + 1) * bytes;
        view.slice(range).ok_or_else(|| no_part(Direction::Input, input))
    }
}

impl BatchAnswers<'_> {
    /// The bytes of an output of a request, counted from 0 within the batch.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such request; as for [`Frame::output`].
    pub fn output(&self, request: usize, output: usize) -> Result<View<'_>> {
        if request >= self.count {
            let why = format!("request {request} of a batch of {} asked for", self.count);
            return Err(RuntimeError::Argument(why));
        }
        let view = self.frame.output(output)?;
        let bytes = view.len() / self.size;
        let range = request * bytes..(request + 1) * bytes;
        view.slice(range).ok_or_else(|| no_part(Direction::Output, output))
    }

    /// Copies an output of a request out.
    ///
    /// # Errors
    /// As for [`BatchAnswers::output`]; its type is another.
    pub fn read<T: Element>(&self, request: usize, output: usize) -> Result<Vec<T>> {
        self.frame.check::<T>(Direction::Output, output)?;
        let view = self.output(request, output)?;
        let mut values = vec![T::zeroed(); view.len() / size_of::<T>()];
        view.copy_to_slice(bytemuck::cast_slice_mut(&mut values));
        Ok(values)
    }
}

fn no_part(direction: Direction, index: usize) -> RuntimeError {
    RuntimeError::Argument(format!("{direction} {index} has no whole part for each request"))
}

/// The requests that a model's arguments hold: the first extent of each.
fn batch_of(inputs: &[Operand], outputs: &[Operand]) -> Result<usize> {
    let all = inputs.iter().map(|input| (Direction::Input, input));
    let all = all.chain(outputs.iter().map(|output| (Direction::Output, output)));
    let mut batch = None;
    for (at, (direction, operand)) in all.enumerate() {
        let index = if at < inputs.len() { at } else { at - inputs.len() };
        let dims = &operand.dimensions;
        if dims.is_empty() || dims.contains(&0) {
            let why = format!("{direction} {index} of shape {dims:?} has no known batch");
            return Err(RuntimeError::Argument(why));
        }
        let first = *batch.get_or_insert(dims[0]);
        if dims[0] != first {
            let why = format!("{direction} {index} of shape {dims:?} holds no batch of {first}");
            return Err(RuntimeError::Argument(why));
        }
    }
    let batch = batch.and_then(|batch| usize::try_from(batch).ok());
    batch.ok_or_else(|| RuntimeError::Argument("the model has no arguments".into()))
}
