//! Several frames in flight: submitted by a thread that must not wait, handed back when they are
//! done.
//!
//! ```text
//!   try_submit(frame) ──► packet in the request queue    (else in the background)
//!   poll() ◄── the oldest frame, once it is answered     looks, and returns at once
//!   wait_until(t) ◄── the same, waited for until t
//! ```

#[cfg(feature = "futures")]
use std::os::fd::OwnedFd;
#[cfg(feature = "futures")]
use std::sync::Arc;
#[cfg(feature = "futures")]
use std::task::Waker;
use std::time::Instant;

use nnburst_burst::packet::BurstAnswer;
use nnburst_burst::{BurstError, BurstFrame, Fallback, SubmitError};
#[cfg(feature = "futures")]
use nnburst_fmq::Readiness;
use nnburst_hal::{ErrorStatus, ExecutionOptions, HalError, TimePoint};

#[cfg(feature = "futures")]
use super::wakes::WakeBoth;
use super::{Burst, CallOptions, Way, gone, lost, take_answer};
use crate::error::{Result, RuntimeError};
use crate::execution::Event;
use crate::frame::Frame;

/// A frame that was submitted and has come back.
#[derive(Debug)]
pub struct Finished {
    /// The frame. Its outputs mean nothing where the result is an error.
    pub frame: Frame,
    /// The result of its execution, as [`Burst::compute`] would have returned it.
    pub result: Result<()>,
}

/// A frame that was not submitted.
#[derive(Debug)]
pub struct Unsubmitted {
    /// The frame, as it was.
    pub frame: Frame,
    /// The reason: [`RuntimeError::Busy`] where as many as can be are in flight.
    pub error: RuntimeError,
}

/// A frame that was submitted and not handed back.
#[derive(Debug)]
pub(super) enum Underway {
    /// Its packet is with the burst's controller.
    Sent(Frame),
    /// It takes the ordinary path, in the background.
    Started(Event),
}

impl Burst {
    /// Frames that may be in flight, or answered and not taken: as [`BurstOptions::depth`] asked
    /// for, or as many as the driver agreed to.
    ///
    /// [`BurstOptions::depth`]: super::BurstOptions::depth
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Frames that were submitted and not handed back.
    pub fn in_flight(&self) -> usize {
        self.underway.len()
    }

    /// Sends a frame and returns at once; [`Burst::poll`] and [`Burst::wait_until`] hand it back,
    /// in the order of submission. From the second time on nothing is allocated; nothing is locked,
    /// and while the driver polls no system call is made: for the callback of a sound card.
    ///
    /// What a burst can't carry, and a model over several devices, is executed in the background
    /// instead, which allocates.
    ///
    /// A frame in flight may be dropped with the burst, or forgotten ([`Burst::forget`]): its
    /// memory stays until the driver is done with it.
    ///
    /// # Errors
    /// The frame comes back, with the reason.
    pub fn try_submit(&mut self, frame: Frame) -> std::result::Result<(), Unsubmitted> {
        self.try_submit_with(frame, &CallOptions::default())
    }

    /// As [`Burst::try_submit`], within limits of its own. A frame whose time is over is handed
    /// back with `MISSED_DEADLINE_TRANSIENT`, by a driver that is stopped a tenth of a second after
    /// the deadline; such a driver may still write to its outputs.
    ///
    /// # Errors
    /// As for [`Burst::try_submit`]; a time of zero is over at once.
    pub fn try_submit_with(
        &mut self,
        mut frame: Frame,
        call: &CallOptions,
    ) -> std::result::Result<(), Unsubmitted> {
        let refused = |frame, error| Err(Unsubmitted { frame, error });
        if self.underway.len() >= self.depth {
            return refused(frame, RuntimeError::Busy { depth: self.depth });
        }
        if let Err(error) = frame.gather() {
            return refused(frame, error);
        }
        let options = self.options(call);
        if options.deadline.is_some_and(TimePoint::has_passed) {
            return refused(frame, lost(&BurstError::DeadlineMissed));
        }
        let Self { way: Way::Direct(controller), id, .. } = self else {
            return self.start(frame, &options);
        };
        let written = frame.packet(*id, controller, &options).map(|packet| {
            packet.set_limits(options.deadline, options.loop_timeout);
            packet.set_low_power(call.is_low_power());
        });
        let sent = match (written, frame.take_packet()) {
            (Ok(()), Some(packet)) => controller.try_submit(packet).map_err(|rejected| {
                frame.put_packet(rejected.frame);
                rejected.why
            }),
            (Ok(()), None) => return self.start(frame, &options),
            (Err(why), _) => Err(SubmitError::Fallback(why)),
        };
        match sent {
            Ok(()) => self.underway.push_back(Underway::Sent(frame)),
            Err(SubmitError::Busy { depth }) => {
                return refused(frame, RuntimeError::Busy { depth });
            }
            Err(SubmitError::Fallback(Fallback::Closed(why))) => return refused(frame, gone(why)),
            Err(SubmitError::Fallback(_)) => return self.start(frame, &options),
        }
        Ok(())
    }

    /// Executes a frame in the background, by the ordinary path.
    fn start(
        &mut self,
        frame: Frame,
        options: &ExecutionOptions,
    ) -> std::result::Result<(), Unsubmitted> {
        let event = self.compilation.execution().with(*options).try_start(frame);
        let event = event.map_err(|(frame, error)| Unsubmitted { frame, error })?;
        self.underway.push_back(Underway::Started(event));
        Ok(())
    }

    /// The oldest submitted frame, if it is done. Never waits, and neither allocates nor locks nor
    /// calls the system for a frame that went through the burst.
    pub fn poll(&mut self) -> Option<Finished> {
        loop {
            match (self.underway.front()?, &mut self.way) {
                (Underway::Sent(_), Way::Direct(controller)) => {
                    let packet = controller.poll()?;
                    if let Some(finished) = self.take_sent(packet) {
                        return Some(finished);
                    }
                }
                (Underway::Started(event), _) if !event.wait_until(Instant::now()) => return None,
                _ => return self.take_started(),
            }
        }
    }

    /// As [`Burst::poll`]; where it returns `None` with frames in flight, `fd` (that of
    /// `readiness`) becomes readable when one may be back, and `waker` is woken.
    #[cfg(feature = "futures")]
    pub(crate) fn poll_ready(
        &mut self,
        readiness: &mut Readiness,
        waker: Option<&Waker>,
        fd: &Arc<OwnedFd>,
    ) -> Option<Finished> {
        loop {
            match (self.underway.front()?, &mut self.way) {
                (Underway::Sent(_), Way::Direct(controller)) => {
                    readiness.set_waker(waker);
                    let packet = controller.poll_ready(readiness)?;
                    if let Some(finished) = self.take_sent(packet) {
                        return Some(finished);
                    }
                }
                (Underway::Started(event), _) => {
                    let (fd, waker) = (Arc::clone(fd), waker.cloned());
                    let both = Waker::from(Arc::new(WakeBoth { fd, waker }));
                    return if event.is_over(&both) { self.take_started() } else { None };
                }
                _ => return self.take_started(),
            }
        }
    }

    /// Returns whether a frame can be submitted, or the burst is over. If not, `fd` becomes
    /// readable when that may have changed, and `waker` is woken, as by [`Burst::poll_ready`],
    /// which is to be called first.
    #[cfg(feature = "futures")]
    pub(crate) fn room_ready(&mut self, readiness: &mut Readiness, waker: Option<&Waker>) -> bool {
        match &mut self.way {
            _ if self.underway.len() >= self.depth => false,
            Way::Direct(controller) => {
                readiness.set_waker(waker);
                controller.room_ready(readiness)
            }
            _ => true,
        }
    }

    /// Waits for the oldest submitted frame, by the burst's wait strategy and until `deadline` at
    /// most. `None` at the deadline, the frame then being in flight still, and where nothing is in
    /// flight.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<Finished> {
        loop {
            match (self.underway.front()?, &mut self.way) {
                (Underway::Sent(_), Way::Direct(controller)) => {
                    let packet = controller.wait_until(deadline)?;
                    if let Some(finished) = self.take_sent(packet) {
                        return Some(finished);
                    }
                }
                (Underway::Started(event), _) if !event.wait_until(deadline) => return None,
                _ => return self.take_started(),
            }
        }
    }

    /// Gives up all frames in flight. Their answers are thrown away when they come; until then they
    /// count towards the depth, and their memories stay.
    pub fn forget(&mut self) {
        if let Way::Direct(controller) = &mut self.way {
            controller.forget();
        }
        self.underway.clear();
    }

    /// Hands back the oldest frame, whose packet this is. `None` where the driver has no room for
    /// its memory beside all others of this client: it then takes the ordinary path.
    fn take_sent(&mut self, packet: BurstFrame) -> Option<Finished> {
        let Some(Underway::Sent(mut frame)) = self.underway.pop_front() else { return None };
        frame.put_packet(packet);
        let verdict = match frame.packet_answer() {
            Ok(answer) if answer.status.is_resource_exhausted() => {
                return self.start_again(frame);
            }
            Ok(answer) => self.verdict(answer),
            Err(error) => Err(lost(&error)),
        };
        let answered = frame.packet_answered();
        Some(Finished { frame, result: verdict.and(answered) })
    }

    fn verdict(&self, answer: &BurstAnswer) -> Result<()> {
        take_answer(answer).and_then(|()| self.compilation.check_shapes(&answer.output_shapes))
    }

    /// Has the oldest frame, which is not underway any more, take the ordinary path; what can't is
    /// handed back.
    fn start_again(&mut self, frame: Frame) -> Option<Finished> {
        let options = self.options(&CallOptions::default());
        match self.compilation.execution().with(options).try_start(frame) {
            Ok(event) => {
                self.underway.push_front(Underway::Started(event));
                None
            }
            Err((frame, error)) => Some(Finished { frame, result: Err(error) }),
        }
    }

    fn take_started(&mut self) -> Option<Finished> {
        match self.underway.pop_front()? {
            Underway::Started(event) => {
                let (frame, result) = event.wait();
                Some(Finished { frame, result })
            }
            // Packets are with controllers alone.
            Underway::Sent(frame) => {
                let error = HalError::new(ErrorStatus::GeneralFailure, "a packet without a burst");
                Some(Finished { frame, result: Err(error.into()) })
            }
        }
    }
}
