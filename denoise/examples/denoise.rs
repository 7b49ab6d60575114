//! Takes the noise out of a recording as if it came from a microphone, 8 ms at a time:
//! `cargo run --release -p nnburst-denoise --example denoise -- DTLN_1 DTLN_2 NOISY.wav CLEAN.wav [SERVICE]`.
//!
//! Every 8 ms a sound card would call with the next block and want one back before the block after it: what takes
//! longer is a miss. The recording is mono, 16 kHz, 16 bits. The driver runs in this process; with a service named as a
//! fifth argument, there.
#![expect(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use nnburst::{BurstOptions, Device};
use nnburst_denoise::{BLOCK, Denoiser};

/// The time of a block, 128 samples at 16 kHz.
const PERIOD: Duration = Duration::from_millis(8);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [first, second, noisy, clean, service @ ..] = &args[..] else {
        return Err("usage: denoise DTLN_1 DTLN_2 NOISY.wav CLEAN.wav [SERVICE]".into());
    };
    let device = match service.first() {
        Some(name) => Device::connect(name)?,
        None => Device::embedded("nnapi-sample_all")?,
    };
    println!("{}", run(&device, [first, second], [noisy.as_ref(), clean.as_ref()], u32::MAX)?);
    Ok(())
}

/// Denoises the recording, of which no more than so many blocks, into another; tells how it went.
pub(crate) fn run(
    device: &Device,
    [first, second]: [impl AsRef<Path>; 2],
    [noisy, clean]: [&Path; 2],
    blocks: u32,
) -> Result<String, Box<dyn Error>> {
    let mut denoiser = Denoiser::open(device, first, second, &BurstOptions::default())?;
    let mut reader = hound::WavReader::open(noisy)?;
    let spec = reader.spec();
    let heard: Vec<i16> = reader.samples().collect::<Result<_, _>>()?;
    let mut writer = hound::WavWriter::create(clean, spec)?;

    let (mut count, mut misses, mut worst, mut sum) = (0, 0, Duration::ZERO, Duration::ZERO);
    let start = Instant::now();
    for (number, block) in (0..blocks).zip(heard.as_chunks::<BLOCK>().0) {
        let due = start + PERIOD * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let block = block.map(|sample| f32::from(sample) / 32768.0);
        let mut out = [0.0; BLOCK];
        denoiser.push(&block, &mut out)?;
        // From when the block was there, also if we came late to it.
        let took = due.elapsed();
        misses += u32::from(took > PERIOD);
        (count, worst, sum) = (count + 1, worst.max(took), sum + took);
        for sample in out {
            #[expect(clippy::cast_possible_truncation, reason = "clamped to the range")]
            writer.write_sample((sample * 32768.0).clamp(-32768.0, 32767.0) as i16)?;
        }
    }
    writer.finalize()?;
    let each = sum / count.max(1);
    Ok(format!("{count} blocks, {each:?} each, {worst:?} at most, {misses} missed"))
}
