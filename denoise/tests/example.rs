//! The example does what it says.

use nnburst_conformance::shared_dir;

#[expect(dead_code, reason = "its `main` is for the command line")]
#[path = "../examples/denoise.rs"]
mod denoise;

#[test]
fn the_recording_is_cleaned_block_by_block_as_if_live() {
    let Some(models) = shared_dir("models") else {
        println!("skipped: no folder of models");
        return;
    };
    let device = nnburst::Device::embedded("nnapi-sample_all").unwrap();
    let networks =
        ["dtln_float_1", "dtln_float_2"].map(|name| models.join(name).join("model.tflite"));
    let noisy = models.join("dtln_pipeline/speech_noisy.wav");
    let clean = std::env::temp_dir().join(format!("nnburst-denoise-{}.wav", std::process::id()));
    let told = denoise::run(&device, networks, [&noisy, &clean], 50).unwrap();
    println!("{told}");
    assert!(told.starts_with("50 blocks, ") && told.ends_with(" missed"), "{told}");
    let reader = hound::WavReader::open(&clean).unwrap();
    assert_eq!(reader.duration(), 50 * 128);
    std::fs::remove_file(&clean).unwrap();
}
