//! The time that `nnbinference` adds to a frame over the model's own: in memory that it offered,
//! and in memory of others, which it copies.
//! `cargo run --release --example added_latency -- MODEL [FRAMES]`.
//!
//! The model's own time is the driver's, of the same model in a burst of its own. The three take
//! turns, so that whatever else the machine does meets all of them; each has two frames in a turn, of
//! which the second counts, as the first one finds the caches full of another's weights. Pixels are
//! written before each frame, as a camera or a converter would.
#![expect(clippy::print_stdout, reason = "an example talks")]

use std::path::Path;
use std::time::Duration;

use gst::prelude::*;
use gst_check::Harness;
use nnburst::{BurstOptions, Device, PrepareOptions};
use nnburst_tflite::{ImportOptions, Imported};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (Some(model), frames) = (args.first(), args.get(1)) else {
        return Err("usage: added_latency MODEL [FRAMES]".into());
    };
    let frames: usize = frames.map_or(Ok(2000), |frames| frames.parse())?;
    gst::init()?;
    gstnnburst::plugin_register_static()?;
    let options = ImportOptions { extension: true, ..ImportOptions::default() };
    let imported = Imported::open_with(Path::new(model), options)?;
    let &[1, height, width, channels] = imported.inputs[0].dims.as_slice() else {
        return Err("the model takes no picture".into());
    };
    let device = Device::embedded("nnburst-cpu")?;
    let compilation = device.compile(&imported.model, PrepareOptions::default())?;
    let mut burst = compilation.burst(&BurstOptions::default())?;
    let mut frame = burst.frame()?;

    let format = if channels == 1 { "GRAY8" } else { "RGB" };
    let caps = format!("video/x-raw,format={format},width={width},height={height},framerate=30/1");
    let caps: gst::Caps = caps.parse()?;
    let info = gst_video::VideoInfo::from_caps(&caps)?;
    let mut element = Element::new(model, &caps)?;
    let pool = element.offered(&caps)?;
    pool.set_active(true)?;

    let mut times = [const { Vec::<Duration>::new() }; 3];
    let pixels = vec![100; info.size()];
    for turn in 0..frames + WARM_UP {
        let mut last = [Duration::ZERO; 3];
        for _ in 0..2 {
            frame.input(0)?.copy_from_slice(&pixels);
            burst.compute(&mut frame)?;
            last[0] = frame.time_in_driver().ok_or("the driver reports no time")?;
        }
        for _ in 0..2 {
            last[1] = element.push(filled(pool.acquire_buffer(None)?, &pixels)?)?;
        }
        for _ in 0..2 {
            last[2] = element.push(filled(gst::Buffer::with_size(info.size())?, &pixels)?)?;
        }
        if turn >= WARM_UP {
            for (times, time) in times.iter_mut().zip(last) {
                times.push(time);
            }
        }
    }
    pool.set_active(false)?;
    times.iter_mut().for_each(|times| times.sort_unstable());
    let at = |times: &[Duration], share: usize| times[(times.len() - 1) * share / 100];
    println!("{frames} frames of {width} x {height}, in us: median (10th to 90th percentile)");
    let own = at(&times[0], 50);
    for (what, times) in ["model", "element, its memory", "element, copied"].iter().zip(&times) {
        let [low, middle, high] = [10, 50, 90].map(|share| at(times, share));
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        print!("{what:>20}: {:8.1} ({:.1} to {:.1})", us(middle), us(low), us(high));
        println!("  added {:6.1}", us(middle) - us(own));
    }
    Ok(())
}

/// Turns that fault pages in and don't count.
const WARM_UP: usize = 50;

/// A buffer with a picture in it.
fn filled(mut buffer: gst::Buffer, pixels: &[u8]) -> Result<gst::Buffer> {
    let map = buffer.get_mut().ok_or("the buffer is somebody else's as well")?;
    map.map_writable()?.copy_from_slice(pixels);
    Ok(buffer)
}

/// The element between pads of the harness.
struct Element {
    element: gst::Element,
    bus: gst::Bus,
    harness: Harness,
}

impl Element {
    fn new(model: &str, caps: &gst::Caps) -> Result<Self> {
        let element = gst::ElementFactory::make("nnbinference").property("model-file", model);
        let element = element.build()?;
        let bus = gst::Bus::new();
        element.set_bus(Some(&bus));
        let mut harness = Harness::with_element(&element, Some("sink"), Some("src"));
        harness.set_src_caps(caps.clone());
        harness.set_drop_buffers(true);
        Ok(Self { element, bus, harness })
    }

    /// The pool that the element offers upstream.
    fn offered(&self, caps: &gst::Caps) -> Result<gst::BufferPool> {
        let mut query = gst::query::Allocation::new(Some(caps), true);
        let sink = self.element.static_pad("sink").ok_or("no sink")?;
        if !sink.query(&mut query) {
            return Err("the element offers no memory".into());
        }
        let pool = query.allocation_pools().next();
        let (pool, ..) = pool.ok_or("the element offers no pool")?;
        Ok(pool.ok_or("the element offers no pool")?)
    }

    /// The time that a frame takes through the element, results on the bus included.
    fn push(&mut self, buffer: gst::Buffer) -> Result<Duration> {
        let start = std::time::Instant::now();
        self.harness.push(buffer)?;
        let time = start.elapsed();
        while self.bus.pop().is_some() {}
        Ok(time)
    }
}
