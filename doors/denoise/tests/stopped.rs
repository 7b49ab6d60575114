//! A block takes as long as it sounds at most, also where the driver's process is stopped.
//!
//! The driver is this program again (`serve --driver NAME --fd 0`), hence a `main` of its own.
#![expect(clippy::unwrap_used, reason = "a test that can't go on stops")]

use nnburst::{BurstOptions, Device};
use nnburst_conformance::shared_dir;
use nnburst_denoise::{BLOCK, DenoiseError, Denoiser};
use nnburst_hal::testing::{continue_process, stop_process};

fn main() {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        nnburst::serve_inherited("nnapi-sample_all", 0, &Default::default()).unwrap();
        return;
    }
    let Some(models) = shared_dir("models") else {
        return;
    };
    let device = Device::spawn("nnapi-sample_all").unwrap();
    let driver = device.driver_process().unwrap();
    let [first, second] =
        ["dtln_float_1", "dtln_float_2"].map(|name| models.join(name).join("model.tflite"));
    let mut denoiser = Denoiser::open(&device, first, second, &BurstOptions::default()).unwrap();
    let (heard, mut clean) = ([0.25; BLOCK], [0.0; BLOCK]);
    // On a machine that is busy some blocks are late, and never all of them.
    let mut push_one_in_time = || {
        while let Err(error) = denoiser.push(&heard, &mut clean) {
            assert!(is_late(&error), "{error}");
        }
    };
    push_one_in_time();
    stop_process(driver).unwrap();
    for _ in 0..4 {
        let pushed = denoiser.push(&heard, &mut clean);
        assert!(pushed.as_ref().is_err_and(is_late), "{pushed:?}");
    }
    continue_process(driver).unwrap();
    let mut push_one_in_time = || {
        while let Err(error) = denoiser.push(&heard, &mut clean) {
            assert!(is_late(&error), "{error}");
        }
    };
    (0..10).for_each(|_| push_one_in_time());
    assert!(clean.iter().all(|sample| sample.is_finite()));
}

fn is_late(error: &DenoiseError) -> bool {
    matches!(error, DenoiseError::Runtime(error) if error.is_deadline_missed())
}
