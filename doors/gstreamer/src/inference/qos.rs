//! Quality of service: the frames that would come too late at the sink.

use std::sync::Mutex;
use std::sync::PoisonError;

/// Reports of sinks about late frames. The inference of a late frame is skipped, never the frame.
#[derive(Debug, Default)]
pub(super) struct Qos(Mutex<Option<gst::ClockTime>>);

impl Qos {
    /// Takes a sink's report: the frame of running time `timestamp` was late by `diff` ns, or
    /// early where that is negative.
    pub(super) fn observe(&self, timestamp: Option<gst::ClockTime>, diff: i64) {
        // The rule of GStreamer's own elements: the lateness will have doubled by the next frame.
        let nanoseconds =
            |time: u64| gst::ClockTime::from_nseconds(time.min(i64::MAX.unsigned_abs()));
        let earliest = timestamp.map(|timestamp| match u64::try_from(diff) {
            Ok(late) => timestamp.saturating_add(nanoseconds(late.saturating_mul(2))),
            Err(_) => timestamp.saturating_sub(nanoseconds(diff.unsigned_abs())),
        });
        self.set(earliest);
    }

    /// Returns whether a frame of this running time will be late.
    pub(super) fn is_late(&self, running_time: Option<gst::ClockTime>) -> bool {
        let earliest = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matches!((running_time, earliest), (Some(time), Some(earliest)) if time <= earliest)
    }

    /// Forgets reports: after a flush running times start anew.
    pub(super) fn reset(&self) {
        self.set(None);
    }

    fn set(&self, earliest: Option<gst::ClockTime>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = earliest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_up_to_twice_the_lateness_are_late() {
        let qos = Qos::default();
        let at = |ms| Some(gst::ClockTime::from_mseconds(ms));
        assert!(!qos.is_late(at(0)), "nothing reported");
        qos.observe(at(100), 20_000_000);
        assert!(qos.is_late(at(120)) && qos.is_late(at(140)) && !qos.is_late(at(141)));
        assert!(!qos.is_late(None), "no time stamp");
        qos.observe(at(200), -50_000_000);
        assert!(qos.is_late(at(150)) && !qos.is_late(at(151)));
        qos.reset();
        assert!(!qos.is_late(at(0)));
        qos.observe(at(10), i64::MIN);
        qos.observe(at(10), i64::MAX);
        assert!(qos.is_late(at(1000)));
    }
}
