//! Budgets: which items a run has, how much of each, and how long it may take.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::data::ModelEntry;
use crate::num::{real, real_u64};
use crate::protocol::CallMode;
use crate::report::CallSettings;

use super::catalogue::CrashTest;

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunBudget {
    /// A minute.
    Quick,
    /// About eight minutes.
    Standard,
    /// Most of an hour.
    Full,
}

/// Models of the quick budget, by the beginnings of their names.
const QUICK: [&str; 8] = [
    "mobilenet_v1_0.25_128",
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v2_1.0_224_quant",
    "mlperf_tiny_kws_int8",
    "tts_float",
    "asr_lstm_float_synthetic",
    "add1_float",
    "deeplabv3_257_float",
];

impl RunBudget {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "default",
            Self::Full => "full",
        }
    }

    /// The index in tables of three.
    pub(super) fn index(self) -> usize {
        match self {
            Self::Quick => 0,
            Self::Standard => 1,
            Self::Full => 2,
        }
    }

    /// The longest run.
    pub(super) fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Quick => 70,
            Self::Standard => 10 * 60,
            Self::Full => 60 * 60,
        })
    }

    pub(super) fn takes_model(self, id: &str) -> bool {
        self != Self::Quick || QUICK.contains(&id)
    }

    /// Returns whether the budget has a test; the endurance test is asked for by its time alone.
    pub fn takes_test(self, test: &CrashTest) -> bool {
        test.id != "c22" && (self != Self::Quick || test.is_quick)
    }

    /// Milliseconds of latency measurement of a mode.
    pub(super) fn latency_ms(self) -> u64 {
        match self {
            Self::Quick => 1000,
            Self::Standard => 2000,
            Self::Full => 3000,
        }
    }

    /// Milliseconds of throughput measurement of a number of clients.
    fn throughput_ms(self) -> u64 {
        crate::protocol::throughput_ms(self.latency_ms())
    }

    /// Milliseconds of each kind of compilation.
    pub(super) fn compile_ms(self) -> u64 {
        match self {
            Self::Quick => 200,
            Self::Standard => 500,
            Self::Full => 1000,
        }
    }

    /// Labelled photos for a model.
    pub(super) fn photos(self, id: &str) -> usize {
        match self {
            // Two of the models.
            Self::Quick if id.starts_with("mobilenet_v1_0.25_128") => 30,
            Self::Quick => 0,
            _ => 200,
        }
    }

    /// Seconds that a model takes in these modes.
    pub(super) fn model_estimate(
        self,
        entry: &ModelEntry,
        modes: &[CallMode],
        calls: &CallSettings,
    ) -> f64 {
        /// Multiply-accumulates a second, on one core.
        const RATE: f64 = 2e9;
        let call = real_u64(entry.macs.unwrap_or_else(|| entry.bytes.saturating_mul(20))) / RATE;
        let steps: usize = entry.cases.iter().map(|case| case.steps.max(1)).sum();
        let photos: usize = entry.photos.iter().map(|set| set.photos.len()).sum();
        let photos = photos.min(self.photos(&entry.id));
        let latency = real_u64(self.latency_ms()) / 1000.0 + 0.3;
        let compile = 3.0 * real_u64(self.compile_ms()) / 1000.0;
        let modes = modes.len();
        let answers = real(steps * (modes + 1) + photos) * call + real(photos) * 0.01;
        // The reference device takes turns as well.
        let callers = modes + 1 + usize::from(calls.period_us.is_some());
        let clients = real(calls.clients.len()) * real_u64(self.throughput_ms()) / 1000.0;
        0.3 + compile + latency * real(callers) + clients + answers
    }
}
