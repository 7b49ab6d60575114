//! Random sequences of our calls and of the peer's misdeeds, judged by a model; the bodies are
//! those of the fuzz targets.

use nnburst_fmq::testing::{any_descriptor, lying_consumer, lying_producer};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_consumer_survives_any_producer(script in vec(any::<u8>(), 0..400)) {
        lying_producer(&script);
    }

    #[test]
    fn a_producer_survives_any_consumer(script in vec(any::<u8>(), 0..400)) {
        lying_consumer(&script);
    }

    #[test]
    fn any_bytes_as_a_descriptor_give_an_error_or_a_queue(bytes in vec(any::<u8>(), 0..80)) {
        any_descriptor(&bytes);
    }
}
