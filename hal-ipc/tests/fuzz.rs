//! The fuzz body, driven by random bytes.

use nnburst_hal_ipc::testing::fuzz_wire;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_break_a_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_wire(&bytes);
    }

    /// Small numbers are variants, lengths and places, so that these get further.
    #[test]
    fn no_small_numbers_break_a_reader(bytes in proptest::collection::vec(0u8..20, 0..200)) {
        fuzz_wire(&bytes);
    }
}
