//! Rows of the burst part: what each measures, and its figures.

use hdrhistogram::Histogram;
use nnburst::Wait;

use crate::figures::{Bracket, Spread, histogram, mean, whole};

/// The route of a call to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// A burst, both ends waiting so.
    Burst(Wait),
    /// A synchronous call over the control socket.
    Sync,
    /// The driver in this process, no route at all.
    InProcess,
}

impl Route {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Burst(Wait::Spin),
        Self::Burst(Wait::Adaptive),
        Self::Burst(Wait::Block),
        Self::Sync,
        Self::InProcess,
    ];

    /// As in the figures: transport and strategy.
    #[must_use]
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Burst(Wait::Spin) => ("burst", "spin"),
            Self::Burst(Wait::Adaptive) => ("burst", "adaptive"),
            Self::Burst(Wait::Block) => ("burst", "block"),
            Self::Burst(_) => ("burst", "auto"),
            Self::Sync => ("sync", "block"),
            Self::InProcess => ("in-process", "none"),
        }
    }
}

/// One line of the result.
#[derive(Debug)]
pub struct CallRow {
    /// A built-in network.
    pub model: &'static str,
    /// The route.
    pub route: Route,
    /// Milliseconds from call to call; 0: back to back.
    pub period_ms: u64,
    /// `true` if an ordinary thread computes on the driver's CPU all the while.
    pub busy: bool,
    /// From when the call was due until its outputs were there, in nanoseconds.
    pub latency: Histogram<u64>,
    /// The same, less what the driver says it took: nanoseconds through a burst, else whole
    /// microseconds.
    pub overhead: Histogram<u64>,
    /// Overhead of each window (median) as a multiple of the probe around it.
    ratios: Vec<f64>,
    /// Tails of the row beyond those of the probe, window by window; see [`CallWindow::tail`].
    tails: Vec<f64>,
    /// Mean latency beside idle bursts as a multiple of that without, window by window.
    slowdowns: Vec<f64>,
    /// The probe, in nanoseconds.
    probes: Vec<f64>,
    /// Windows by placement: near, far.
    pub placements: [u32; 2],
    /// Windows of which there are latencies alone, since the probes around them disagreed.
    pub dropped: u32,
    /// The probe's round trips around the windows, in nanoseconds.
    pub probed: Histogram<u64>,
    /// `true` if both ends are pinned to one CPU.
    pub one_cpu: bool,
    /// Other bursts that are open on the same driver and have nothing to do.
    pub idle_bursts: u32,
    /// The share of a core that one of these takes.
    pub idle_share: Option<f64>,
    /// Calls that were due before the last one had ended.
    pub late: u64,
    /// Parts of the real-time profile that were refused.
    pub warnings: Vec<String>,
}

impl CallRow {
    pub(super) fn new(model: &'static str, route: Route, period_ms: u64, busy: bool) -> Self {
        Self {
            model,
            route,
            period_ms,
            busy,
            latency: histogram(),
            overhead: histogram(),
            ratios: Vec::new(),
            tails: Vec::new(),
            slowdowns: Vec::new(),
            probes: Vec::new(),
            placements: [0; 2],
            dropped: 0,
            probed: histogram(),
            one_cpu: false,
            idle_bursts: 0,
            idle_share: None,
            late: 0,
            warnings: Vec::new(),
        }
    }

    /// Model, route, pace and neighbour.
    #[must_use]
    pub fn title(&self) -> String {
        let (transport, wait) = self.route.names();
        let pace = match self.period_ms {
            0 => "back to back".into(),
            period => format!("every {period} ms"),
        };
        let neighbour = match (self.busy, self.idle_bursts) {
            _ if self.one_cpu => "one CPU".into(),
            (true, _) => "busy".into(),
            (false, 0) => "idle".into(),
            (false, bursts) => format!("{bursts} idle bursts"),
        };
        format!("{} {transport} {wait}, {pace}, {neighbour}", self.model)
    }

    pub(super) fn add(&mut self, window: &CallWindow) {
        self.late += window.late;
        for (histogram, samples) in
            [(&mut self.latency, &window.latencies), (&mut self.overhead, &window.overheads)]
        {
            samples.iter().for_each(|&ns| histogram.saturating_record(whole(ns)));
        }
        let Some(place) = window.bracket.placement() else {
            self.dropped += 1;
            return;
        };
        if let Some(count) = self.placements.get_mut(place as usize) {
            *count += 1;
        }
        window.probed.iter().for_each(|&ns| self.probed.saturating_record(whole(ns)));
        self.probes.push(window.bracket.matching());
        self.ratios.extend(window.median().map(|median| median / window.bracket.matching()));
        self.tails.extend(window.tail());
    }

    /// Adds a window beside idle bursts and the one without them that went before, both at one
    /// place.
    pub(super) fn compare(&mut self, alone: &CallWindow, beside: &CallWindow) {
        if alone.bracket.placement().is_some()
            && alone.bracket.placement() == beside.bracket.placement()
        {
            self.slowdowns.push(mean(&beside.latencies) / mean(&alone.latencies));
        }
    }

    /// The overhead's tail as a multiple of the probe's, window by window. `None`
    /// where there are too few calls to speak of one in a thousand.
    #[must_use]
    pub fn tail(&self) -> Option<Spread> {
        Spread::of(self.tails.iter().copied())
    }

    /// The same of all windows thrown together.
    #[must_use]
    pub fn tail_of_all(&self) -> Option<f64> {
        let reach = |histogram: &Histogram<u64>| {
            let at = |quantile| u32::try_from(histogram.value_at_quantile(quantile)).ok();
            Some(f64::from(at(0.999)?) / f64::from(at(0.5)?.max(1)))
        };
        self.tail().and_then(|_| Some(reach(&self.overhead)? / reach(&self.probed)?))
    }

    /// Times of calls beside idle bursts as multiples of those without.
    #[must_use]
    pub fn slowdown(&self) -> Option<Spread> {
        Spread::of(self.slowdowns.iter().copied())
    }

    /// The probe's time that is as rare, by the clock, as a call's p99.9, in
    /// nanoseconds: an interruption that comes so often a second meets few of many short round
    /// trips and more of the longer calls. `None` where that has not been seen three times.
    #[must_use]
    pub fn probe_as_seldom(&self) -> Option<u64> {
        let median = |histogram: &Histogram<u64>| {
            u32::try_from(histogram.value_at_quantile(0.5)).ok().map(f64::from)
        };
        let seldom = 0.001 * median(&self.probed)? / median(&self.latency)?.max(1.0);
        let seen = f64::from(u32::try_from(self.probed.len()).ok()?) * seldom;
        (seen >= 3.0).then(|| self.probed.value_at_quantile(1.0 - seldom))
    }

    /// The median overhead as a multiple of the probe, window by window.
    #[must_use]
    pub fn ratio(&self) -> Option<Spread> {
        Spread::of(self.ratios.iter().copied())
    }

    /// The probe around the windows, in nanoseconds.
    #[must_use]
    pub fn probe(&self) -> Option<Spread> {
        Spread::of(self.probes.iter().copied())
    }
}

/// A run of calls, and the probe's round trips right before and after; nanoseconds all.
#[derive(Debug)]
pub(super) struct CallWindow {
    pub(super) latencies: Vec<f64>,
    pub(super) overheads: Vec<f64>,
    pub(super) late: u64,
    pub(super) probed: Vec<f64>,
    pub(super) bracket: Bracket,
}

impl CallWindow {
    fn median(&self) -> Option<f64> {
        quantile(&self.overheads, 0.5)
    }

    /// p99.9 over p50 of the overhead, as a multiple of the same of the probe. `None` where there
    /// are too few calls to speak of one in a thousand.
    fn tail(&self) -> Option<f64> {
        let reach = |samples: &[f64]| Some(quantile(samples, 0.999)? / quantile(samples, 0.5)?);
        let enough = self.overheads.len().min(self.probed.len()) >= 2000;
        enough.then(|| Some(reach(&self.overheads)? / reach(&self.probed)?)).flatten()
    }
}

/// The smallest sample that so large a share does not exceed.
fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = u32::try_from(sorted.len().checked_sub(1)?).ok()?;
    sorted.get(usize::try_from(whole(f64::from(last) * share)).ok()?).copied()
}
