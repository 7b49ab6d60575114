//! The fuzz bodies, driven by random bytes.

use proptest::prelude::*;

use crate::testing::{fuzz_validate_model, fuzz_validate_request};

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 2000 }, ..ProptestConfig::default() })]

    #[test]
    fn no_model_breaks_the_validator(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        fuzz_validate_model(&bytes);
    }

    #[test]
    fn no_request_breaks_the_validator(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz_validate_request(&bytes);
    }
}
