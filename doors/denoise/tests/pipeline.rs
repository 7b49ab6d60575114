//! The noisy recording beside the workspace, block by block, against what the interpreter makes of
//! it.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;
use std::time::Duration;

use nnburst::{BurstOptions, Device};
use nnburst_conformance::shared_dir;
use nnburst_denoise::{BLOCK, DELAY, DenoiseError, Denoiser};
use serde_json::Value;

fn recording(path: &Path) -> Vec<f32> {
    let mut reader = hound::WavReader::open(path).unwrap();
    reader.samples::<i16>().map(|sample| f32::from(sample.unwrap()) / 32768.0).collect()
}

/// In decibels: how far what is left of the noise lies below the speech.
fn signal_to_noise(speech: &[f32], heard: &[f32]) -> f64 {
    let energy = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>();
    let speech = &speech[..heard.len()];
    let noise = energy(&mut speech.iter().zip(heard).map(|(a, b)| a - b));
    10.0 * (energy(&mut speech.iter().copied()) / noise).log10()
}

fn denoise(denoiser: &mut Denoiser, noisy: &[f32]) -> Vec<f32> {
    let mut clean = Vec::new();
    for block in noisy.as_chunks::<BLOCK>().0 {
        let mut out = [0.0; BLOCK];
        denoiser.push(block, &mut out).unwrap();
        clean.extend(out);
    }
    clean
}

fn denoise_by_polling(denoiser: &mut Denoiser, noisy: &[f32]) -> Vec<f32> {
    let mut clean = Vec::new();
    for block in noisy.as_chunks::<BLOCK>().0 {
        let mut out = [0.0; BLOCK];
        assert!(denoiser.poll(&mut out).is_none(), "nothing was submitted");
        denoiser.try_submit(block).unwrap();
        assert!(matches!(denoiser.try_submit(block), Err(DenoiseError::Busy)));
        assert!(matches!(denoiser.push(block, &mut out), Err(DenoiseError::Busy)));
        loop {
            match denoiser.poll(&mut out) {
                None => std::thread::yield_now(),
                Some(done) => break done.unwrap(),
            }
        }
        clean.extend(out);
    }
    clean
}

#[test]
fn the_recording_is_as_clean_as_the_interpreters() {
    let Some(models) = shared_dir("models") else {
        return;
    };
    let manifest = std::fs::read_to_string(models.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let pipeline = &manifest["models"]["dtln_pipeline"];
    let file = |value: &Value| models.join(value.as_str().unwrap());
    let (noisy, speech) =
        (recording(&file(&pipeline["input"])), recording(&file(&pipeline["clean"])));
    for variant in pipeline["variants"].as_array().unwrap() {
        let device = Device::embedded("nnapi-sample_all").unwrap();
        let [first, second] = [0, 1].map(|at| file(&variant["models"][at]));
        // Nobody listens: a block takes as long as it takes on a machine that is busy.
        let timeout = Some(Duration::from_secs(60));
        let options = BurstOptions { timeout, ..BurstOptions::default() };
        let mut denoiser = Denoiser::open(&device, first, second, &options).unwrap();
        let blocks = usize::try_from(variant["hops"].as_u64().unwrap()).unwrap();
        let clean = denoise(&mut denoiser, &noisy[..blocks * BLOCK]);
        let golden: Vec<f32> = std::fs::read(file(&variant["golden_f32"]))
            .unwrap()
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        let (got, want) = (
            signal_to_noise(&speech, &clean[DELAY * BLOCK..]),
            variant["snr_out_db"].as_f64().unwrap(),
        );
        let apart = clean.iter().zip(&golden).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("{}: {got:.2} dB, wanted {want}; at most {apart:e} apart", variant["name"]);
        assert!(got > want - 0.05, "{got:.2} dB, wanted {want}");
        // Compressed weights meet inputs that are quantised on the fly, of which the last bit of a
        // float decides the step: each block's state carries that on to the next.
        let near = if variant["name"] == "float" { 1e-5 } else { 0.02 };
        assert!(apart <= near, "{apart}");
        // And so it does without waiting.
        denoiser.reset().unwrap();
        assert_eq!(denoise_by_polling(&mut denoiser, &noisy[..40 * BLOCK]), clean[..40 * BLOCK]);
        // After a reset the same comes out again.
        denoiser.reset().unwrap();
        assert_eq!(denoise(&mut denoiser, &noisy[..40 * BLOCK]), clean[..40 * BLOCK]);
    }
}
