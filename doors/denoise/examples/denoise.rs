//! Takes the noise out of a recording as if it came from a microphone, 8 ms at a time:
//! `cargo run --release -p nnburst-denoise --example denoise -- DTLN_1 DTLN_2 NOISY.wav CLEAN.wav
//! [SERVICE]`.
//!
//! Every 8 ms a sound card would call with the next block and want one back before the block after
//! it: what takes longer is a miss. The recording is mono, 16 kHz, 16 bits. The driver runs in this
//! process; with a service named as a fifth argument, there.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example talks")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nnburst::{BurstOptions, Device};
use nnburst_denoise::{BLOCK, DenoiseError, Denoiser};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The time of a block, 128 samples at 16 kHz.
const PERIOD: Duration = Duration::from_millis(8);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [first, second, noisy, clean, service @ ..] = &args[..] else {
        eprintln!("usage: denoise DTLN_1 DTLN_2 NOISY.wav CLEAN.wav [SERVICE]");
        return ExitCode::FAILURE;
    };
    let device = match service.first() {
        Some(name) => Device::connect(name),
        None => Device::embedded("nnburst-cpu"),
    };
    let paths = [noisy.as_ref(), clean.as_ref()];
    match device.map_err(Into::into).and_then(|it| run(&it, [first, second], paths, u32::MAX)) {
        Ok(told) => println!("{told}"),
        Err(error) => {
            eprintln!("denoise: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Denoises the recording, of which no more than so many blocks, into another; tells how it went.
pub(crate) fn run(
    device: &Device,
    [first, second]: [impl AsRef<Path>; 2],
    [noisy, clean]: [&Path; 2],
    blocks: u32,
) -> Result<String> {
    let (spec, heard) = recording(noisy)?;
    let mut denoiser = Denoiser::open(device, first, second, &BurstOptions::default())?;
    let mut writer = hound::WavWriter::create(clean, spec).map_err(|error| told(clean, &error))?;

    let (mut count, mut misses, mut worst, mut sum) = (0, 0, Duration::ZERO, Duration::ZERO);
    let start = Instant::now();
    for (number, samples) in (0..blocks).zip(heard.chunks(BLOCK)) {
        let due = start + PERIOD * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let (mut block, mut out) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (to, &sample) in block.iter_mut().zip(samples) {
            *to = f32::from(sample) / 32768.0;
        }
        match denoiser.push(&block, &mut out) {
            // What is late is of no use: silence is heard in its place.
            Err(DenoiseError::Runtime(error)) if error.is_deadline_missed() => {}
            pushed => pushed?,
        }
        // From when the block was there, also if we came late to it.
        let took = due.elapsed();
        misses += u32::from(took > PERIOD);
        (count, worst, sum) = (count + 1, worst.max(took), sum + took);
        for &sample in &out[..samples.len()] {
            #[expect(clippy::cast_possible_truncation, reason = "clamped to the range")]
            writer.write_sample((sample * 32768.0).clamp(-32768.0, 32767.0) as i16)?;
        }
    }
    writer.finalize()?;
    let each = sum / count.max(1);
    Ok(format!("{count} blocks, {each:?} each, {worst:?} at most, {misses} missed"))
}

/// The samples of a recording, if it is one that the networks were made for.
fn recording(path: &Path) -> Result<(hound::WavSpec, Vec<i16>)> {
    let reader = hound::WavReader::open(path).map_err(|error| told(path, &error))?;
    let spec = reader.spec();
    let hound::WavSpec { channels, sample_rate, bits_per_sample, sample_format } = spec;
    if (channels, sample_rate, bits_per_sample) != (1, 16_000, 16)
        || sample_format != hound::SampleFormat::Int
    {
        return Err(format!(
            "{}: {channels} channels of {sample_rate} Hz and {bits_per_sample} bits ({sample_format:?}); \
             wanted is 1 of 16000 Hz and 16 bits (Int)",
            path.display()
        )
        .into());
    }
    let heard = reader.into_samples().collect::<std::result::Result<_, _>>();
    Ok((spec, heard.map_err(|error| told(path, &error))?))
}

fn told(path: &Path, error: &hound::Error) -> String {
    format!("{}: {error}", path.display())
}
