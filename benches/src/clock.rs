//! The clock of the samples: the CPU's own counter where there is one, since reading it costs a
//! tenth of a round trip and a call of `Instant::now` costs a fifth.

use std::time::{Duration, Instant};

/// Converts ticks of [`ticks`] to nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ns_per_tick: f64,
    /// The smallest step the counter makes, in ticks: some machines count in steps of 10 ns.
    step: u64,
}

impl Clock {
    /// Compares the counter with the monotonic clock for 50 ms.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a calibration, good to a millionth")]
    pub fn calibrate() -> Self {
        let (start, first) = (Instant::now(), ticks());
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let (elapsed, last) = (start.elapsed(), ticks());
        let ns_per_tick = elapsed.as_nanos() as f64 / last.wrapping_sub(first).max(1) as f64;
        let reads: Vec<u64> = (0..1000).map(|_| ticks()).collect();
        let steps =
            reads.windows(2).map(|pair| pair.iter().rev().fold(0, |a, b| b.wrapping_sub(a)));
        let step = steps.map(u64::cast_signed).map(i64::unsigned_abs).filter(|&step| step != 0);
        Self { ns_per_tick, step: step.min().unwrap_or(1) }
    }

    /// `ticks` in nanoseconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "samples are far below 2^53 ticks")]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    /// The smallest time between two different readings, in nanoseconds.
    #[must_use]
    pub fn step_ns(&self) -> f64 {
        self.ns(self.step)
    }
}

/// Reads the counter.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 CPU has the instruction, and Linux lets user programs run it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::LazyLock;
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
