//! The example does what it says.

use nnburst_conformance::shared_dir;

#[expect(dead_code, reason = "its `main` is for the command line")]
#[path = "../examples/denoise.rs"]
mod denoise;

#[test]
fn the_recording_is_cleaned_block_by_block_as_if_live() {
    let Some(models) = shared_dir("models") else {
        return;
    };
    let device = nnburst::Device::embedded("nnapi-sample_all").unwrap();
    let networks =
        ["dtln_float_1", "dtln_float_2"].map(|name| models.join(name).join("model.tflite"));
    let noisy = models.join("dtln_pipeline/speech_noisy.wav");
    let clean = std::env::temp_dir().join(format!("nnburst-denoise-{}.wav", std::process::id()));
    let told = denoise::run(&device, networks, [&noisy, &clean], 50).unwrap();
    println!("{told}");
    assert!(told.starts_with("50 blocks; ") && told.ends_with(" missed"), "{told}");
    let reader = hound::WavReader::open(&clean).unwrap();
    assert_eq!(reader.duration(), 50 * 128);
    std::fs::remove_file(&clean).unwrap();
}

#[test]
fn recordings_of_another_kind_are_refused_with_what_they_are() {
    let device = nnburst::Device::embedded("nnapi-sample_all").unwrap();
    let wav = std::env::temp_dir().join(format!("nnburst-other-{}.wav", std::process::id()));
    let run = || {
        let nowhere = std::path::Path::new("/nowhere");
        denoise::run(&device, [nowhere, nowhere], [&wav, nowhere], 1).unwrap_err().to_string()
    };
    let good = hound::WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let cases = [
        ("2 channels", hound::WavSpec { channels: 2, ..good }),
        ("48000 Hz", hound::WavSpec { sample_rate: 48_000, ..good }),
        ("8 bits", hound::WavSpec { bits_per_sample: 8, ..good }),
        (
            "32 bits (Float)",
            hound::WavSpec {
                bits_per_sample: 32,
                sample_format: hound::SampleFormat::Float,
                ..good
            },
        ),
    ];
    for (what, spec) in cases {
        hound::WavWriter::create(&wav, spec).unwrap().finalize().unwrap();
        let error = run();
        assert!(error.contains(what) && error.contains("wanted is"), "{error}");
    }
    hound::WavWriter::create(&wav, good).unwrap().finalize().unwrap();
    assert!(run().starts_with("/nowhere: "), "the model's file: {}", run());
    std::fs::write(&wav, "no recording").unwrap();
    assert!(run().contains(&wav.display().to_string()), "{}", run());
    std::fs::remove_file(&wav).unwrap();
    assert!(run().contains(&wav.display().to_string()), "{}", run());
}
