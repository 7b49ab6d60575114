//! Takes the noise out of a recording, 8 ms at a time:
//! `cargo run --release -p nnburst-denoise --example denoise -- DTLN_1 DTLN_2 NOISY.wav CLEAN.wav`.
//!
//! The recording is mono, 16 kHz, 16 bits. The driver runs in this process; with a service named as a
//! fifth argument, there.
#![expect(clippy::print_stdout, reason = "an example talks")]

use std::time::{Duration, Instant};

use nnburst::{BurstOptions, Device};
use nnburst_denoise::{BLOCK, Denoiser};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [first, second, noisy, clean, service @ ..] = &args[..] else {
        return Err("usage: denoise DTLN_1 DTLN_2 NOISY.wav CLEAN.wav [SERVICE]".into());
    };
    let device = match service.first() {
        Some(name) => Device::connect(name)?,
        None => Device::embedded("nnapi-sample_all")?,
    };
    let mut denoiser = Denoiser::open(&device, first, second, &BurstOptions::default())?;

    let mut reader = hound::WavReader::open(noisy)?;
    let spec = reader.spec();
    let heard: Vec<i16> = reader.samples().collect::<Result<_, _>>()?;
    let mut writer = hound::WavWriter::create(clean, spec)?;
    let (mut worst, mut sum) = (Duration::ZERO, Duration::ZERO);
    let (blocks, _) = heard.as_chunks::<BLOCK>();
    for block in blocks {
        let block = block.map(|sample| f32::from(sample) / 32768.0);
        let mut out = [0.0; BLOCK];
        let start = Instant::now();
        denoiser.push(&block, &mut out)?;
        let took = start.elapsed();
        (worst, sum) = (worst.max(took), sum + took);
        for sample in out {
            #[expect(clippy::cast_possible_truncation, reason = "clamped to the range")]
            writer.write_sample((sample * 32768.0).clamp(-32768.0, 32767.0) as i16)?;
        }
    }
    writer.finalize()?;
    let count = u32::try_from(blocks.len().max(1))?;
    println!("{count} blocks, {:?} each, {worst:?} at most", sum / count);
    Ok(())
}
