//! A camera loop: 30 pictures a second, each classified before the next one comes.
//! `cargo run --release -p nnburst --example camera -- [PICTURES] [SERVICE]`.
//!
//! The camera owns a ring of buffers, as cameras do: it writes each picture into the next one that
//! is free, hands its number over, and gets it back when nobody looks at it any more. A frame lies
//! over each buffer, so the driver reads the picture where the camera wrote it, and maps each
//! buffer once. The loop never waits for the driver beyond the moment at which the next picture is
//! due: what is late by then comes later, and is counted. The driver is a process of its own, or
//! with a service's name that service.
#![expect(clippy::print_stdout, reason = "an example talks")]

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use nnburst::hal::{Access, Memory};
use nnburst::{BurstOptions, CompileOptions, Device, Frame, Plane, RuntimeError, builtin};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;

/// The time between two pictures.
const PERIOD: Duration = Duration::from_micros(33_333);
const WIDTH: usize = 128;
const HEIGHT: usize = 128;
const CHANNELS: usize = 3;
const BYTES: usize = WIDTH * HEIGHT * CHANNELS * size_of::<f32>();
/// Buffers of the camera.
const RING: usize = 4;

fn main() -> Result<()> {
    // The driver's process is this program again, called as `camera serve --driver NAME --fd N ..`.
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, _, driver, _, fd, ..] = &args[..]
        && serve == "serve"
    {
        return Ok(nnburst::serve_inherited(driver, fd.parse()?, &Default::default())?);
    }
    let pictures = args.first().map_or(Ok(90), |count| count.parse());
    let pictures = pictures.map_err(|_| "usage: camera [PICTURES] [SERVICE]")?;
    let device = match args.get(1) {
        Some(service) => Device::connect(service)?,
        None => Device::spawn("nnburst-cpu")?,
    };
    println!("{}", run(&device, pictures)?);
    Ok(())
}

/// A picture that the camera took: the buffer that it is in, and when it was there.
struct Picture {
    buffer: usize,
    taken: Instant,
}

/// Classifies so many pictures; tells how it went.
pub(crate) fn run(device: &Device, pictures: u32) -> Result<String> {
    let model = builtin::model("mobilenet_v1_0.25_128")?;
    let compiled =
        nnburst::compile_for(&model, std::slice::from_ref(device), &CompileOptions::default())?;
    // Waits adaptively: after 33 ms without a frame both sides sleep.
    let options = BurstOptions { depth: 2, ..BurstOptions::default() };
    let mut burst = compiled.burst(&options)?;

    let ring = (0..RING).map(|_| Memory::ashmem(BYTES as u64)).collect::<Result<Vec<_>, _>>()?;
    let plane = |memory: &Memory| Plane { memory: memory.clone(), offset: 0, rows: None };
    let over = |memory: &Memory| compiled.frame_over(&[Some(plane(memory))], &[]).map(Some);
    let mut frames = ring.iter().map(over).collect::<Result<Vec<_>, _>>()?;

    let (taken, arriving) = channel();
    let (give_back, free) = channel();
    for buffer in 0..RING {
        give_back.send(buffer)?;
    }
    let camera = std::thread::spawn(move || camera(&ring, &free, &taken, pictures));

    let mut underway: VecDeque<Picture> = VecDeque::with_capacity(RING);
    let (mut done, mut late, mut skipped) = (0, 0, 0);
    let (mut worst, mut sum, mut seen) = (Duration::ZERO, Duration::ZERO, Vec::new());
    let mut is_over = false;
    while !is_over || !underway.is_empty() {
        let next = match arriving.recv() {
            Ok(picture) => {
                let next = picture.taken + PERIOD;
                let frame = frames.get_mut(picture.buffer).and_then(Option::take);
                match frame.map(|frame| burst.try_submit(frame)) {
                    Some(Ok(())) => underway.push_back(picture),
                    // The driver is two pictures behind: this one is not looked at.
                    Some(Err(refused)) if matches!(refused.error, RuntimeError::Busy { .. }) => {
                        frames[picture.buffer] = Some(refused.frame);
                        give_back.send(picture.buffer)?;
                        skipped += 1;
                    }
                    Some(Err(refused)) => return Err(refused.error.into()),
                    None => return Err("the camera handed a buffer over twice".into()),
                }
                next
            }
            Err(_) => {
                is_over = true;
                Instant::now() + Duration::from_secs(10)
            }
        };
        // What is not done when the next picture is due is looked at after that.
        while let Some(finished) = burst.wait_until(next) {
            finished.result?;
            let picture = underway.pop_front().ok_or("a frame that nobody submitted")?;
            seen.push(best(&finished.frame)?);
            let took = picture.taken.elapsed();
            (done, late) = (done + 1, late + u32::from(took > PERIOD));
            (worst, sum) = (worst.max(took), sum + took);
            frames[picture.buffer] = Some(finished.frame);
            // The camera may have gone already.
            let _ = give_back.send(picture.buffer);
        }
    }
    let lost = camera.join().map_err(|_| "the camera broke")??;
    seen.dedup();
    Ok(format!(
        "{done} pictures, {:?} each, {worst:?} at most, {late} late, {skipped} skipped, {lost} lost \
         by the camera; classes seen: {seen:?}",
        sum / done.max(1)
    ))
}

/// Takes a picture every period, into a buffer that is free. Returns how many found none.
fn camera(
    ring: &[Memory],
    free: &Receiver<usize>,
    taken: &Sender<Picture>,
    pictures: u32,
) -> Result<u32> {
    let mut lost = 0;
    let start = Instant::now();
    for number in 0..pictures {
        let due = start + PERIOD * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        match free.try_recv() {
            Ok(buffer) => {
                expose(ring.get(buffer).ok_or("a buffer that is not the camera's")?, number)?;
                taken.send(Picture { buffer, taken: Instant::now() })?;
            }
            Err(_) => lost += 1,
        }
    }
    Ok(lost)
}

/// What the camera sees: a bright bar that wanders over a gradient.
fn expose(buffer: &Memory, number: u32) -> Result<()> {
    let mapping = buffer.mapped()?;
    let _access = mapping.begin_access(Access::ReadWrite)?;
    let pixels = mapping.view_mut(0..BYTES).ok_or("the picture is larger than the buffer")?;
    let bar = usize::try_from(number)? * 4 % WIDTH;
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let lit = x.abs_diff(bar) < 8;
            let value: f32 = if lit { 1.0 } else { f32::from(u8::try_from(x ^ y)?) / 127.5 - 1.0 };
            let at = (y * WIDTH + x) * CHANNELS * 4;
            for channel in 0..CHANNELS {
                let place = at + channel * 4..at + channel * 4 + 4;
                let pixel = pixels.slice(place).ok_or("the pixel is outside the picture")?;
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
