//! The calls that are measured: some, or for some time, by one stream or by several at a time.

use std::time::{Duration, Instant};

use super::Figures;
use crate::args::{BenchArgs, Extent};
use crate::failure::Failure;
use crate::pace::{Missed, Pacer};
use crate::process::processor_time;
use crate::progress::Progress;
use crate::session::{ModelSession, Sample};

/// Calls of a stream without a result yet that warm up at least.
const WARM_UP: std::ops::RangeInclusive<u32> = 3..=1000;

/// The figures of all streams.
#[derive(Debug)]
pub(super) struct SeriesFigures {
    pub(super) figures: Figures,
    pub(super) missed: Missed,
    /// From the first stream's begin to the last one's end.
    pub(super) took: Duration,
    /// The processor time that both processes had meanwhile.
    pub(super) processor: ProcessorTimes,
    pub(super) streams: Vec<Stream>,
}

/// The processor time of all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessorTimes {
    pub(super) own: Option<Duration>,
    /// Of the driver's process, where that is known to be there for this one alone.
    pub(super) driver: Option<Duration>,
}

impl ProcessorTimes {
    fn now(driver: Option<u32>) -> Self {
        Self { own: processor_time(std::process::id()), driver: driver.and_then(processor_time) }
    }

    fn since(self, earlier: Self) -> Self {
        let both = |now: Option<Duration>, then: Option<Duration>| now?.checked_sub(then?);
        Self { own: both(self.own, earlier.own), driver: both(self.driver, earlier.driver) }
    }
}

/// The figures of one stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) figures: Figures,
    pub(super) missed: Missed,
}

/// The calls of one stream.
#[derive(Clone, Copy, Debug)]
struct Plan {
    extent: Extent,
    period: Option<Duration>,
    deadline: Option<Duration>,
}

/// Has each session warm up, and then all of them measure at the same time. `driver` is the
/// driver's process.
pub(super) fn measure(
    args: &BenchArgs,
    sessions: &mut [ModelSession],
    driver: Option<u32>,
    what: &str,
) -> Result<SeriesFigures, Failure> {
    let extent = args.duration.map_or(Extent::Calls(args.runs), Extent::Time);
    let plan = Plan { extent, period: args.pace.period, deadline: args.engine.deadline };
    let warm_up = Plan { extent: args.warmup.unwrap_or_else(|| usual_warm_up(extent)), ..plan };
    let quiet = Progress::hidden();
    all(sessions, |session, _| warm_up.run(session, &quiet, Duration::ZERO))?;
    let progress = match extent {
        Extent::Calls(calls) => Progress::new(u64::from(calls), what),
        Extent::Time(_) => Progress::counting(what),
    };
    let count = u32::try_from(sessions.len()).unwrap_or(u32::MAX).max(1);
    let (started, before) = (Instant::now(), ProcessorTimes::now(driver));
    let streams = all(sessions, |session, number| {
        // As cameras that know nothing of each other, rather than all at the same moment.
        let offset = plan.period.unwrap_or_default() / count * number;
        let progress = if number == 0 { &progress } else { &quiet };
        plan.run(session, progress, offset)
    })?;
    let took = started.elapsed();
    let processor = ProcessorTimes::now(driver).since(before);
    progress.finish();
    let mut figures = Figures::new()?;
    let mut missed = Missed { deadlines: 0, periods: 0, of: 0 };
    for stream in &streams {
        figures.add(&stream.figures);
        missed.deadlines += stream.missed.deadlines;
        missed.periods += stream.missed.periods;
        missed.of += stream.missed.of;
    }
    Ok(SeriesFigures { figures, missed, took, processor, streams })
}

/// A tenth of what is measured, within limits.
fn usual_warm_up(extent: Extent) -> Extent {
    match extent {
        Extent::Calls(calls) => Extent::Calls((calls / 10).clamp(*WARM_UP.start(), *WARM_UP.end())),
        Extent::Time(time) => Extent::Time(time / 10),
    }
}

/// Does the same with each session on a thread of its own; one alone stays on this thread.
fn all<T: Send>(
    sessions: &mut [ModelSession],
    act: impl Fn(&mut ModelSession, u32) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    if let [only] = sessions {
        return Ok(vec![act(only, 0)?]);
    }
    std::thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = (0..)
            .zip(sessions)
            .map(|(number, session)| scope.spawn(move || act(session, number)))
            .collect();
        let panicked = || Failure::check("a stream panicked");
        threads.into_iter().map(|thread| thread.join().map_err(|_| panicked())?).collect()
    })
}

impl Plan {
    fn run(
        self,
        session: &mut ModelSession,
        progress: &Progress,
        offset: Duration,
    ) -> Result<Stream, Failure> {
        let mut pacer = Pacer::new(self.period);
        let mut figures = Figures::new()?;
        let mut missed = Missed { deadlines: 0, periods: 0, of: 0 };
        std::thread::sleep(offset);
        let started = Instant::now();
        while !self.is_over(missed.of, started) {
            pacer.wait();
            let begun = Instant::now();
            let (sample, is_late) = in_time(session.step(), self.deadline)?;
            match sample {
                Some(sample) => figures.record(sample),
                None => figures.record_given_up(begun.elapsed()),
            }
            missed.of += 1;
            missed.deadlines += u64::from(is_late);
            progress.step();
        }
        missed.periods = pacer.finish();
        Ok(Stream { figures, missed })
    }

    fn is_over(self, calls: u64, started: Instant) -> bool {
        match self.extent {
            Extent::Calls(most) => calls >= u64::from(most),
            Extent::Time(time) => calls > 0 && started.elapsed() >= time,
        }
    }
}

/// Returns the time of a step, unless it was late; nothing where the driver gave it up for that.
fn in_time(
    step: Result<Sample, Failure>,
    deadline: Option<Duration>,
) -> Result<(Option<Sample>, bool), Failure> {
    match step {
        Ok(sample) => {
            let is_late = deadline.is_some_and(|deadline| sample.latency > deadline);
            Ok((Some(sample), is_late))
        }
        Err(failure) if deadline.is_some() && failure.is_deadline() => Ok((None, true)),
        Err(failure) => Err(failure),
    }
}
