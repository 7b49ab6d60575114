//! The parameters that go with a frame from camera to sink: source, number, time of capture.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dora_node_api::{Metadata, MetadataParameters, Parameter, get_integer_param, get_string_param};

/// The frame's number within its source, from 0. Chunks of dora's streams have the same key.
pub(crate) const SEQ: &str = "seq";
/// The time of capture in nanoseconds since 1970, by the clock of the machine that has the camera.
pub(crate) const CAPTURE: &str = "capture_ns";
/// The name of the source, where an input carries those of several.
pub(crate) const SOURCE: &str = "source";
/// The time since capture in microseconds, when a message was sent.
pub(crate) const AGE: &str = "age_us";

/// The name of the node that inferred it.
pub(crate) const NODE: &str = "node";
/// The driver's share of the time in microseconds.
pub(crate) const DRIVER: &str = "driver_us";

/// The longest name of a source that is kept.
const LONGEST_NAME: usize = 128;

/// Source, number and time of capture of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) source: String,
    pub(crate) seq: i64,
    pub(crate) captured: SystemTime,
}

impl Stamp {
    /// The stamp of a message that came by an input. Where it says nothing else, the source is the
    /// input, the number is `count`, and the frame was captured when the message was sent.
    pub(crate) fn of(input: &str, metadata: &Metadata, count: i64) -> Self {
        let given = &metadata.parameters;
        let source = get_string_param(given, SOURCE).unwrap_or(input);
        let sent = || metadata.timestamp().get_time().to_system_time();
        let captured = get_integer_param(given, CAPTURE)
            .and_then(|ns| u64::try_from(ns).ok())
            .and_then(|ns| UNIX_EPOCH.checked_add(Duration::from_nanos(ns)));
        Self {
            source: source.chars().take(LONGEST_NAME).collect(),
            seq: get_integer_param(given, SEQ).unwrap_or(count),
            captured: captured.unwrap_or_else(sent),
        }
    }

    /// The time since capture; zero where the machine's clock is behind the camera's.
    pub(crate) fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.captured).unwrap_or_default()
    }

    /// Sets the stamp's parameters, and the age at this moment.
    pub(crate) fn write(&self, parameters: &mut MetadataParameters) {
        let captured = self.captured.duration_since(UNIX_EPOCH).unwrap_or_default();
        set(parameters, SOURCE, Parameter::String(self.source.clone()));
        set(parameters, SEQ, Parameter::Integer(self.seq));
        set(parameters, CAPTURE, integer(captured.as_nanos()));
        set(parameters, AGE, integer(self.age(SystemTime::now()).as_micros()));
    }
}

/// Sets a parameter.
pub(crate) fn set(parameters: &mut MetadataParameters, name: &str, value: Parameter) {
    parameters.insert(name.to_owned(), value);
}

/// A number as a parameter.
pub(crate) fn integer(value: impl TryInto<i64>) -> Parameter {
    Parameter::Integer(value.try_into().unwrap_or(i64::MAX))
}

/// The parameters of a message that are its sender's, not dora's.
pub(crate) fn handed_on(parameters: &MetadataParameters) -> MetadataParameters {
    let is_dora = |name: &str| name.starts_with('_') || name == dora_node_api::FLUSH;
    let own = parameters.iter().filter(|(name, _)| !is_dora(name));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use dora_node_api::uhlc::HLC;

    use super::*;

    #[test]
    fn stamps_are_read_as_they_are_written() {
        let stamp = Stamp {
            source: "left".into(),
            seq: 7,
            captured: UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789),
        };
        let mut parameters = MetadataParameters::new();
        stamp.write(&mut parameters);
        let metadata = Metadata::from_parameters(HLC::default().new_timestamp(), parameters);
        assert_eq!(Stamp::of("frame", &metadata, 3), stamp);
    }

    #[test]
    fn what_a_message_does_not_say_follows_from_its_input() {
        let mut metadata = Metadata::new(HLC::default().new_timestamp());
        let stamp = Stamp::of("frame", &metadata, 3);
        assert_eq!((stamp.source.as_str(), stamp.seq), ("frame", 3));
        let sent = metadata.timestamp().get_time().to_system_time();
        assert_eq!(stamp.captured, sent);
        assert_eq!(stamp.age(sent - Duration::from_secs(1)), Duration::ZERO, "clocks differ");
        // Wrong types and times are as good as none.
        set(&mut metadata.parameters, SEQ, Parameter::Bool(true));
        set(&mut metadata.parameters, CAPTURE, Parameter::Integer(-5));
        set(&mut metadata.parameters, SOURCE, Parameter::String("x".repeat(1000)));
        let stamp = Stamp::of("frame", &metadata, 3);
        assert_eq!((stamp.source.len(), stamp.seq, stamp.captured), (128, 3, sent));
    }
}
