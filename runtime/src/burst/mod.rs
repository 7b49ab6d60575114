//! Bursts: executions by packets through queues in shared memory, for whoever counts microseconds.

mod flight;
mod options;
#[cfg(feature = "futures")]
mod wakes;

use std::collections::VecDeque;
use std::sync::Arc;
#[cfg(feature = "futures")]
use std::time::Duration;
use std::time::Instant;

use nnburst_burst::packet::BurstAnswer;
use nnburst_burst::{
    BurstController, BurstError, BurstStats, Closed, ControllerOptions, Fallback, LastRequest,
};
use nnburst_fmq::PeerWatch;
use nnburst_hal::process::forked;
use nnburst_hal::{
    BurstOptions as HalBurstOptions, ErrorStatus, ExecutionOptions, ExecutionOutcome,
    ExecutionPreference, ExecutionResult, HalError, Layer, MeasureTiming, Operand, Phase,
    PreparedModel, Request, TimePoint, bound, trace_span, vlog,
};

use crate::compilation::{Compilation, peer_watch_fd};
use crate::error::{Result, RuntimeError};
use crate::frame::Frame;
use crate::planned::{Planned, StepCall};
use flight::Underway;
pub use flight::{Finished, Unsubmitted};
pub(crate) use options::FIFO_PRIORITY;
pub use options::{BurstOptions, CallOptions};

/// An open burst. One thread drives it; dropping it ends it.
///
/// What a burst can't carry (a request with too many arguments for its queues) takes the ordinary
/// path by itself, and so does everything on a driver without bursts. A model over several devices
/// has a burst for each of its steps. When the driver dies, whichever call waits fails within
/// milliseconds with `DEVICE_UNAVAILABLE`.
///
/// A call whose time is over fails with `MISSED_DEADLINE_TRANSIENT`, also if the driver is stopped
/// and does not answer. The burst goes on when the driver does: an answer that comes late is
/// dropped. Until then the driver may still write to the frame's outputs.
#[derive(Debug)]
pub struct Burst {
    way: Way,
    compilation: Compilation,
    measure: MeasureTiming,
    /// Limits of calls that have none of their own.
    limits: CallOptions,
    depth: usize,
    /// Submitted and not handed back, the oldest first.
    underway: VecDeque<Underway>,
    /// Tells the packets of this burst from those of others that a frame was used with.
    id: u64,
    warnings: Vec<String>,
}

/// The path of requests to the devices.
#[derive(Debug)]
enum Way {
    /// One device, one burst.
    Direct(Box<BurstController>),
    /// By the ordinary path where a step has no burst.
    Planned { planned: Arc<Planned>, bursts: StepBursts },
    /// The driver has no bursts.
    Ordinary,
}

/// A burst for each step that has one.
#[derive(Debug, Default)]
struct StepBursts {
    controllers: Vec<(usize, BurstController)>,
}

impl StepCall for StepBursts {
    fn call(
        &mut self,
        at: usize,
        model: &Arc<dyn PreparedModel>,
        request: &Request,
        options: &ExecutionOptions,
    ) -> ExecutionResult {
        let burst = self.controllers.iter_mut().find(|(step, _)| *step == at);
        let Some((_, controller)) = burst else {
            return model.execute_synchronously(request, *options);
        };
        match controller.execute(request, options) {
            Ok(Err(failure)) if failure.error.status.is_resource_exhausted() => {
                model.execute_synchronously(request, *options)
            }
            Ok(result) => result,
            Err(Fallback::Closed(why)) => Err(HalError::unavailable(format!("{why}")).into()),
            Err(_) => model.execute_synchronously(request, *options),
        }
    }
}

impl Burst {
    pub(crate) fn open(compilation: &Compilation, options: &BurstOptions) -> Result<Self> {
        let mut warnings = Vec::new();
        let preference = options.preference.unwrap_or_else(|| compilation.preference());
        let open = |model, whole| configure(model, options, preference, whole);
        let way = match compilation.planned() {
            None => match open(compilation.prepared(), Some(compilation)) {
                Ok(controller) => Way::Direct(Box::new(controller)),
                Err(error) if error.is_device_lost() || error.is_deadline_missed() => {
                    return Err(compilation.failed(error));
                }
                Err(error) => {
                    warnings.push(format!("no burst, the ordinary path is taken: {error}"));
                    Way::Ordinary
                }
            },
            Some(planned) => {
                let mut bursts = StepBursts::default();
                for (at, step) in planned.executions() {
                    match open(&step.prepared, None) {
                        Ok(controller) => bursts.controllers.push((at, controller)),
                        // Nobody stands in for the dead where no fallback is allowed.
                        Err(error) if error.is_device_lost() && !planned.may_fall_back() => {
                            return Err(compilation.failed(error));
                        }
                        Err(error) => warnings.push(format!("no burst for step {at}: {error}")),
                    }
                }
                Way::Planned { planned: Arc::clone(planned), bursts }
            }
        };
        warnings.extend(nnburst_burst::realtime::apply(&options.profile(&options.cpus)));
        let depth = match &way {
            Way::Direct(controller) => controller.depth(),
            Way::Planned { .. } | Way::Ordinary => {
                usize::try_from(options.depth).unwrap_or(1).max(1)
            }
        };
        let mut underway = VecDeque::new();
        let no_memory = |_| HalError::exhausted(format!("no memory for {depth} frames in flight"));
        underway.try_reserve_exact(depth).map_err(no_memory)?;
        let controllers = match &way {
            Way::Direct(controller) => vec![controller.as_ref()],
            Way::Planned { bursts, .. } => {
                bursts.controllers.iter().map(|(_, controller)| controller).collect()
            }
            Way::Ordinary => Vec::new(),
        };
        let driver = controllers.into_iter().flat_map(BurstController::warnings);
        warnings.extend(driver.map(|warning| format!("driver: {warning}")));
        Ok(Self {
            way,
            compilation: compilation.clone(),
            measure: MeasureTiming::No,
            limits: CallOptions {
                timeout: options.timeout,
                loop_timeout: options.loop_timeout,
                preference: None,
            },
            depth,
            underway,
            id: next_id(),
            warnings,
        })
    }

    /// A frame for the shapes of the model; see [`Compilation::frame`].
    ///
    /// # Errors
    /// As for [`Compilation::frame`].
    pub fn frame(&self) -> Result<Frame> {
        self.compilation.frame()
    }

    /// The inputs and outputs of its model.
    pub(crate) fn arguments(&self) -> (&[Operand], &[Operand]) {
        (self.compilation.inputs(), self.compilation.outputs())
    }

    /// Asks the driver to measure; see [`Frame::timing`]. A driver of nnburst tells the time it
    /// took in nanoseconds whether asked or not; see [`Frame::time_in_driver`].
    #[must_use]
    pub fn measure(mut self, yes: bool) -> Self {
        self.measure = if yes { MeasureTiming::Yes } else { MeasureTiming::No };
        self
    }

    /// The time that calls may take which have none of their own.
    #[cfg(feature = "futures")]
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.limits.timeout
    }

    /// The options of a call that starts now.
    fn options(&self, call: &CallOptions) -> ExecutionOptions {
        let deadline = call.timeout.or(self.limits.timeout).map(TimePoint::after);
        ExecutionOptions {
            measure: self.measure,
            deadline: bound::earlier(deadline, bound::bound()),
            loop_timeout: call.loop_timeout.or(self.limits.loop_timeout),
        }
    }

    /// Executes a frame and waits. From the second time on nothing is allocated.
    ///
    /// # Errors
    /// What the driver answered; `DEVICE_UNAVAILABLE` where it is gone; `MISSED_DEADLINE_TRANSIENT`
    /// where the time of [`BurstOptions::timeout`] is over.
    pub fn compute(&mut self, frame: &mut Frame) -> Result<()> {
        self.compute_with(frame, &CallOptions::default())
    }

    /// Executes a frame within limits of its own, and waits.
    ///
    /// # Errors
    /// As for [`Burst::compute`].
    pub fn compute_with(&mut self, frame: &mut Frame, call: &CallOptions) -> Result<()> {
        let _span = trace_span(Layer::Runtime, Phase::Execution, "burst");
        vlog!(Execution, "burst on {}", self.compilation.first_device());
        frame.gather()?;
        let options = self.options(call);
        let Self { way, id, .. } = self;
        let controller = match way {
            Way::Direct(controller) => controller,
            Way::Planned { planned, bursts } => {
                let start = Instant::now();
                let outcome = planned.run(frame.request(), &options, bursts);
                let outcome = outcome.map_err(|failure| self.compilation.failed(failure))?;
                return frame.finish(outcome, start.elapsed());
            }
            Way::Ordinary => return self.ordinary(frame, &options),
        };
        let packet = match frame.packet(*id, controller, &options) {
            Ok(packet) => packet,
            Err(why) => return self.other_way(frame, why, &options),
        };
        packet.set_limits(options.deadline, options.loop_timeout);
        packet.set_low_power(call.is_low_power());
        match controller.execute_frame(packet) {
            // The driver has no room for the frame's memory beside all others of this client.
            Ok(answer) if answer.status.is_resource_exhausted() => self.ordinary(frame, &options),
            Ok(answer) => {
                let verdict = take_answer(answer)
                    .and_then(|()| self.compilation.check_shapes(&answer.output_shapes));
                frame.packet_answered()?;
                verdict
            }
            Err(BurstError::NotSent(why)) => self.other_way(frame, why, &options),
            Err(error) => Err(lost(&error)),
        }
    }

    /// Executes a request of the caller's making and waits, until the deadline of `options` at
    /// most. What they leave open is as in the burst's [`BurstOptions`].
    ///
    /// # Errors
    /// As for [`Burst::compute`].
    pub fn compute_request(
        &mut self,
        request: &Request,
        options: &ExecutionOptions,
    ) -> Result<ExecutionOutcome> {
        let _span = trace_span(Layer::Runtime, Phase::Execution, "burst");
        vlog!(Execution, "burst on {}", self.compilation.first_device());
        let own = self.options(&CallOptions::default());
        let options = &ExecutionOptions {
            measure: options.measure,
            deadline: match options.deadline {
                None => own.deadline,
                given => bound::earlier(given, bound::bound()),
            },
            loop_timeout: options.loop_timeout.or(own.loop_timeout),
        };
        let result = match &mut self.way {
            Way::Direct(controller) => match controller.execute(request, options) {
                Ok(Ok(outcome)) => Ok(outcome),
                Ok(Err(failure)) if failure.error.status.is_resource_exhausted() => {
                    self.compilation.prepared().execute_synchronously(request, *options)
                }
                Ok(Err(failure)) => match controller.closed() {
                    Some(why) => return Err(gone(why)),
                    None => Err(failure),
                },
                Err(Fallback::Closed(why)) => return Err(gone(why)),
                Err(_) => self.compilation.prepared().execute_synchronously(request, *options),
            },
            Way::Planned { planned, bursts } => planned.run(request, options, bursts),
            Way::Ordinary => self.compilation.prepared().execute_synchronously(request, *options),
        };
        self.compilation.answer(result)
    }

    /// Stands for the request that [`Burst::compute_request`] executed last, as long as it is that;
    /// `None` where the burst keeps none.
    pub fn last_request(&self) -> Option<LastRequest> {
        match &self.way {
            Way::Direct(controller) => controller.last_request(),
            Way::Planned { .. } | Way::Ordinary => None,
        }
    }

    /// Executes the last request again, without looking at it: for callers who know that it is the
    /// same, with the burst's own limits, in the same memories, which they keep. `None` where it is
    /// not the last one any more, or can't be sent now: nothing has happened then. The shapes of
    /// outputs are those of the model.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn compute_last(&mut self, last: LastRequest) -> Option<Result<()>> {
        let deadline = self.options(&CallOptions::default()).deadline;
        let Way::Direct(controller) = &mut self.way else { return None };
        let _span = trace_span(Layer::Runtime, Phase::Execution, "burst");
        vlog!(Execution, "burst on {}", self.compilation.first_device());
        Some(match controller.execute_last(last, deadline)? {
            Ok(answer) if answer.status.is_resource_exhausted() => return None,
            Ok(answer) => take_answer(answer)
                .and_then(|()| self.compilation.check_shapes(&answer.output_shapes)),
            Err(BurstError::NotSent(Fallback::Closed(why))) => Err(gone(why)),
            Err(BurstError::NotSent(_)) => return None,
            Err(error) => Err(lost(&error)),
        })
    }

    /// Latencies so far: whole, in the driver, and the rest. Those of a model over several devices,
    /// or on a driver without bursts, nobody keeps.
    pub fn stats(&self) -> Option<&BurstStats> {
        match &self.way {
            Way::Direct(controller) => Some(controller.stats()),
            Way::Planned { .. } | Way::Ordinary => None,
        }
    }

    /// Returns the parts of the real-time profile that the system refused.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The ordinary path, for what was not sent.
    fn other_way(
        &self,
        frame: &mut Frame,
        why: Fallback,
        options: &ExecutionOptions,
    ) -> Result<()> {
        if let Fallback::Closed(why) = why {
            return Err(gone(why));
        }
        self.ordinary(frame, options)
    }

    fn ordinary(&self, frame: &mut Frame, options: &ExecutionOptions) -> Result<()> {
        self.compilation.execution().with(*options).compute(frame)
    }
}

/// Opens a burst on a device's own model, with queues for the arguments of `compilation`, or of
/// Android's size.
fn configure(
    model: &Arc<dyn PreparedModel>,
    options: &BurstOptions,
    preference: ExecutionPreference,
    compilation: Option<&Compilation>,
) -> Result<BurstController> {
    /// The rank that is allowed for where a rank is unknown.
    const HIGHEST_RANK: usize = 8;
    let defaults = ControllerOptions::default();
    let queue_elements = compilation.map_or(defaults.queue_elements, |compilation| {
        let arguments = compilation.inputs().iter().chain(compilation.outputs());
        let ranks = arguments.map(|operand| match operand.dimensions.len() {
            0 => HIGHEST_RANK,
            rank => rank,
        });
        ControllerOptions::queue_elements_for(ranks, options.depth)
    });
    let peer = match peer_watch_fd(model)? {
        Some(fd) => Some(
            PeerWatch::connection(fd)
                .map_err(|error| HalError::failure(format!("watching the driver: {error}")))?,
        ),
        None => None,
    };
    let window = Some(options.wait.window(preference));
    let controller_options = ControllerOptions {
        queue_elements,
        polling_window: window,
        burst: HalBurstOptions {
            extended: true,
            preference,
            polling_window: window,
            real_time: options.profile(&options.driver_cpus),
            depth: if compilation.is_some() { options.depth.max(1) } else { 1 },
        },
    };
    Ok(BurstController::configure(model.as_ref(), &controller_options, peer)?)
}

fn take_answer(answer: &BurstAnswer) -> Result<()> {
    match answer.status {
        ErrorStatus::None => Ok(()),
        ErrorStatus::OutputInsufficientSize => Err(RuntimeError::OutputTooSmall {
            error: HalError::new(answer.status, "an output buffer is too small"),
            shapes: answer.output_shapes.clone(),
        }),
        status => Err(HalError::new(status, "the driver's answer in the burst").into()),
    }
}

fn lost(error: &BurstError) -> RuntimeError {
    match error {
        BurstError::Closed(why) => gone(*why),
        BurstError::DeadlineMissed => {
            HalError::new(ErrorStatus::MissedDeadlineTransient, error.to_string()).into()
        }
        other => HalError::failure(other.to_string()).into(),
    }
}

fn gone(why: Closed) -> RuntimeError {
    match why {
        Closed::DriverDied => RuntimeError::DeviceDied(HalError::unavailable(
            "the driver died in the middle of a burst",
        )),
        Closed::Forked => forked().into(),
        other => HalError::unavailable(format!("the burst is over: {other}")).into(),
    }
}

fn next_id() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only uniqueness matters, nothing is handed over.
    NEXT.fetch_add(1, Ordering::Relaxed)
}
