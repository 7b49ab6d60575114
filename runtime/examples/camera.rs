//! A camera loop: 30 frames a second, each classified before the next one comes.
//! `cargo run --release -p nnburst --example camera -- [FRAMES] [SERVICE]`.
//!
//! The camera writes each picture into the memory that the driver reads: nothing is copied on the
//! way. Two frames take turns, so that the camera fills one while the result of the other is looked
//! at. The driver is a process of its own, or with a service's name that service.
#![expect(clippy::print_stdout, reason = "an example talks")]

use std::time::{Duration, Instant};

use nnburst::{BurstOptions, CompileOptions, Device, Frame, builtin};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The time between two pictures.
const PERIOD: Duration = Duration::from_micros(33_333);
const WIDTH: usize = 128;
const HEIGHT: usize = 128;
const CHANNELS: usize = 3;

fn main() -> Result<()> {
    // The driver's process is this program again, called as `camera serve --driver NAME --fd N ..`.
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, _, driver, _, fd, ..] = &args[..]
        && serve == "serve"
    {
        return Ok(nnburst::serve_inherited(driver, fd.parse()?, &Default::default())?);
    }
    let frames = args.first().map_or(Ok(90), |count| count.parse());
    let frames = frames.map_err(|_| "usage: camera [FRAMES] [SERVICE]")?;
    let device = match args.get(1) {
        Some(service) => Device::connect(service)?,
        None => Device::spawn("nnburst-cpu")?,
    };
    println!("{}", run(&device, frames)?);
    Ok(())
}

/// Classifies so many frames; tells how it went.
pub(crate) fn run(device: &Device, frames: u32) -> Result<String> {
    let model = builtin::model("mobilenet_v1_0.25_128")?;
    let compiled =
        nnburst::compile_for(&model, std::slice::from_ref(device), &CompileOptions::default())?;
    // Waits as long as it takes adaptively: after 33 ms without a frame both sides sleep.
    let mut burst = compiled.burst(&BurstOptions::default())?;
    let mut buffers = [compiled.frame()?, compiled.frame()?];

    let (mut misses, mut worst, mut sum) = (0, Duration::ZERO, Duration::ZERO);
    let mut seen = Vec::new();
    let start = Instant::now();
    for number in 0..frames {
        let due = start + PERIOD * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let [frame, other] = &mut buffers;
        picture(frame, number)?;
        burst.compute(frame)?;
        seen.push(best(frame)?);
        // From when the picture was there, also if we came late to it.
        let took = due.elapsed();
        misses += u32::from(took > PERIOD);
        (worst, sum) = (worst.max(took), sum + took);
        std::mem::swap(frame, other);
    }
    seen.dedup();
    Ok(format!(
        "{frames} frames, {:?} each, {worst:?} at most, {misses} late; classes seen: {seen:?}",
        sum / frames.max(1)
    ))
}

/// The camera: a bright bar that wanders over a gradient, written where the driver will read it.
fn picture(frame: &mut Frame, number: u32) -> Result<()> {
    let pixels = frame.input(0)?;
    let bar = usize::try_from(number)? * 4 % WIDTH;
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let lit = x.abs_diff(bar) < 8;
            let value: f32 = if lit { 1.0 } else { f32::from(u8::try_from(x ^ y)?) / 127.5 - 1.0 };
            let at = (y * WIDTH + x) * CHANNELS * 4;
            for channel in 0..CHANNELS {
                let place = at + channel * 4..at + channel * 4 + 4;
                let pixel = pixels.slice(place).ok_or("the picture is larger than the input")?;
                pixel.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    Ok(())
}

/// The class with the highest score.
fn best(frame: &Frame) -> Result<usize> {
    let scores: Vec<f32> = frame.read(0)?;
    let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    Ok(best.ok_or("no scores")?.0)
}
