//! Takes the noise out of a recording as if it came from a microphone, 8 ms at a time:
//! `cargo run --release -p nnburst-denoise --example denoise -- DTLN_1 DTLN_2 NOISY.wav CLEAN.wav
//! [SERVICE]`.
//!
//! A sound card would call every 2 ms with 32 samples and want 32 back: [`Callback::call`] does no
//! more than to copy them, to hand a block over when it is full, and to look whether the one before
//! is clean. What isn't by the time that it is to be heard is a miss, and silence. The recording is
//! mono, 16 kHz, 16 bits. The driver runs in this process; with a service named as a fifth
//! argument, there.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example talks")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nnburst::{BurstOptions, Device};
use nnburst_denoise::{BLOCK, DenoiseError, Denoiser};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The samples of a call, and the time that they sound.
const PERIOD: usize = 32;
const PERIOD_TIME: Duration = Duration::from_millis(2);

/// The state of an audio thread. Nothing in it waits, allocates or locks.
struct Callback {
    denoiser: Denoiser,
    /// The block that is being heard, the one that is being played, and the place in both.
    filling: [f32; BLOCK],
    playing: [f32; BLOCK],
    at: usize,
    /// The next block to be played, once it is clean.
    next: Option<[f32; BLOCK]>,
    misses: u32,
}

impl Callback {
    fn new(denoiser: Denoiser) -> Self {
        let silence = [0.0; BLOCK];
        // Before the first block there is silence.
        let next = Some(silence);
        Self { denoiser, filling: silence, playing: silence, at: 0, next, misses: 0 }
    }

    /// Takes what was heard and gives what is to be played. Sound comes out two blocks and
    /// [`nnburst_denoise::DELAY`] after it went in.
    fn call(
        &mut self,
        heard: &[f32; PERIOD],
        out: &mut [f32; PERIOD],
    ) -> std::result::Result<(), DenoiseError> {
        let place = self.at..self.at + PERIOD;
        self.filling[place.clone()].copy_from_slice(heard);
        out.copy_from_slice(&self.playing[place]);
        self.at = (self.at + PERIOD) % BLOCK;
        let mut clean = [0.0; BLOCK];
        match self.denoiser.poll(&mut clean) {
            None => {}
            Some(Ok(())) => self.next = Some(clean),
            // What is late is of no use.
            Some(Err(DenoiseError::Runtime(error))) if error.is_deadline_missed() => {}
            Some(Err(error)) => return Err(error),
        }
        if self.at == 0 {
            self.misses += u32::from(self.next.is_none());
            self.playing = self.next.take().unwrap_or([0.0; BLOCK]);
            match self.denoiser.try_submit(&self.filling) {
                // The driver is so far behind that this block has to go.
                Err(DenoiseError::Busy) => {}
                submitted => submitted?,
            }
        }
        Ok(())
    }
}

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
    let denoiser = Denoiser::open(device, first, second, &BurstOptions::default())?;
    let mut callback = Callback::new(denoiser);
    let mut writer = hound::WavWriter::create(clean, spec).map_err(|error| told(clean, &error))?;

    let heard: Vec<_> = heard.chunks(BLOCK).take(usize::try_from(blocks)?).flatten().collect();
    let mut times = Vec::with_capacity(heard.len() / PERIOD + 1);
    let start = Instant::now();
    for (number, samples) in (0..).zip(heard.chunks(PERIOD)) {
        let due = start + PERIOD_TIME * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let (mut period, mut out) = ([0.0; PERIOD], [0.0; PERIOD]);
        for (to, &&sample) in period.iter_mut().zip(samples) {
            *to = f32::from(sample) / 32768.0;
        }
        let begin = Instant::now();
        callback.call(&period, &mut out)?;
        times.push(begin.elapsed());
        for &sample in &out[..samples.len()] {
            #[expect(clippy::cast_possible_truncation, reason = "clamped to the range")]
            writer.write_sample((sample * 32768.0).clamp(-32768.0, 32767.0) as i16)?;
        }
    }
    writer.finalize()?;
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let worst = times.last().copied().unwrap_or_default();
    let (count, misses) = (heard.len().div_ceil(BLOCK), callback.misses);
    Ok(format!("{count} blocks; a call takes {median:?}, {worst:?} at most; {misses} missed"))
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
