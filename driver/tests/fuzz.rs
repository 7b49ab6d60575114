//! The fuzz bodies, driven by random bytes.

use nnburst_driver::testing::{fuzz_cache_files, fuzz_prepare};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_model_brings_the_driver_down(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzz_prepare(&bytes);
    }

    #[test]
    fn no_cache_file_brings_the_driver_down(
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        fuzz_cache_files(&bytes);
    }
}

#[test]
fn some_models_and_cache_files_are_taken() {
    let taken = (0..200u8).filter(|&seed| fuzz_prepare(&[seed; 200])).count();
    assert!(taken > 0, "nothing was prepared, so nothing was tried");
    assert!(fuzz_cache_files(&[0]), "unchanged files are loaded");
    assert!(fuzz_cache_files(&[1]), "with sums put right as well");
    assert!(!fuzz_cache_files(&[0, 255, 0, 3, 9]), "changed ones are not");
}
