//! Results as GStreamer has them: a structure for the bus, and metadata on buffers.

use std::time::Duration;

use gst::glib;
use gst::glib::prelude::*;

use nnburst_pictures::{Class, Detection, Keypoint, Mask, PictureSize, Results, label, pixel};

/// The results of an inference, with the frame that they are of.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) results: Results,
    /// The time stamp of the frame.
    pub(crate) pts: Option<gst::ClockTime>,
    /// The number of the frame since the element started.
    pub(crate) frame: u64,
    /// The time from the frame's arrival to its results.
    pub(crate) latency: Duration,
    /// The driver's share of it, where it reports one.
    pub(crate) in_driver: Option<Duration>,
}

/// The structure `nnburst-inference` of a report. `outputs` describes the tensors.
pub(crate) fn structure(report: &Report, labels: &[String], outputs: &[String]) -> gst::Structure {
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let builder = gst::Structure::builder("nnburst-inference")
        .field("pts", report.pts)
        .field("frame", report.frame)
        .field("latency-us", us(report.latency))
        .field_if_some("driver-us", report.in_driver.map(us))
        .field("task", report.results.task())
        .field("outputs", gst::Array::new(outputs));
    match &report.results {
        Results::Classes(classes) => builder
            .field("labels", gst::Array::new(classes.iter().map(|it| label(labels, it.index))))
            .field("classes", gst::Array::new(classes.iter().map(|it| number(it.index))))
            .field("scores", gst::Array::new(classes.iter().map(|it| it.score))),
        Results::Boxes(found) => builder
            .field("labels", gst::Array::new(found.iter().map(|it| label(labels, it.class))))
            .field("classes", gst::Array::new(found.iter().map(|it| number(it.class))))
            .field("scores", gst::Array::new(found.iter().map(|it| it.score)))
            .field("boxes", gst::Array::new(found.iter().map(corners))),
        Results::Mask(mask) => {
            let shares = mask.shares();
            builder
                .field("labels", gst::Array::new(shares.iter().map(|it| label(labels, it.0))))
                .field("classes", gst::Array::new(shares.iter().map(|it| number(it.0))))
                .field("shares", gst::Array::new(shares.iter().map(|it| it.1)))
                .field("mask", mask_sample(mask, report.pts))
        }
        Results::Pose(points) => builder
            .field("labels", gst::Array::new(points.iter().map(Keypoint::name)))
            .field("scores", gst::Array::new(points.iter().map(|it| it.score)))
            .field("points", gst::Array::new(points.iter().map(|it| pair(it.x, it.y)))),
        Results::Tensors => builder,
    }
    .build()
}

/// Attaches results to a buffer as regions of interest, each with its values as parameters.
/// `is_stale` says that they are of an earlier frame.
pub(crate) fn attach(
    buffer: &mut gst::BufferRef,
    results: &Results,
    labels: &[String],
    size: PictureSize,
    is_stale: bool,
) {
    let add = |buffer: &mut gst::BufferRef, kind: &str, rect, params: Vec<gst::Structure>| {
        let mut region = gst_video::VideoRegionOfInterestMeta::add(buffer, kind, rect);
        for mut param in params {
            param.set("stale", is_stale);
            region.add_param(param);
        }
    };
    // Only of the frame itself: analytics metadata has no word for results of another.
    #[cfg(feature = "v1_26")]
    if !is_stale && let Err(error) = super::analytics::attach(buffer, results, labels, size) {
        gst::warning!(crate::CAT, "analytics metadata: {error}");
    }
    match results {
        Results::Classes(classes) => {
            // The region of a class is the whole picture.
            let Some(best) = classes.first() else { return };
            let params = classes.iter().map(|class| classification(class, labels)).collect();
            add(buffer, &label(labels, best.index), (0, 0, size.width, size.height), params);
        }
        Results::Boxes(found) => {
            for object in found {
                let params = vec![detection(object)];
                let rect = object.pixels(size);
                add(buffer, &label(labels, object.class), rect, params);
            }
        }
        Results::Pose(points) => {
            let Some(rect) = around(points, size) else { return };
            add(buffer, "pose", rect, points.iter().map(keypoint).collect());
        }
        // A mask has no region; it is on the bus and on its pad.
        Results::Mask(_) | Results::Tensors => {}
    }
}

fn classification(class: &Class, labels: &[String]) -> gst::Structure {
    gst::Structure::builder("classification")
        .field("label", label(labels, class.index))
        .field("label_id", number(class.index))
        .field("confidence", class.score)
        .build()
}

/// With the names that overlays of other projects read.
fn detection(object: &Detection) -> gst::Structure {
    gst::Structure::builder("detection")
        .field("label_id", number(object.class))
        .field("confidence", object.score)
        .field("x_min", f64::from(object.left))
        .field("y_min", f64::from(object.top))
        .field("x_max", f64::from(object.right))
        .field("y_max", f64::from(object.bottom))
        .build()
}

fn keypoint(point: &Keypoint) -> gst::Structure {
    gst::Structure::builder("keypoint")
        .field("label", point.name())
        .field("confidence", point.score)
        .field("x", f64::from(point.x))
        .field("y", f64::from(point.y))
        .build()
}

/// The smallest rectangle with all points in it.
fn around(points: &[Keypoint], size: PictureSize) -> Option<(u32, u32, u32, u32)> {
    let xs = || points.iter().map(|point| pixel(point.x, size.width));
    let ys = || points.iter().map(|point| pixel(point.y, size.height));
    let (left, top) = (xs().min()?, ys().min()?);
    Some((left, top, xs().max()?.saturating_sub(left), ys().max()?.saturating_sub(top)))
}

/// Left, upper, right and lower edge, as fractions of the picture's sides.
fn corners(object: &Detection) -> glib::SendValue {
    let edges = [object.left, object.top, object.right, object.bottom];
    gst::Array::new(edges.map(f64::from)).to_send_value()
}

fn pair(x: f32, y: f32) -> glib::SendValue {
    gst::Array::new([f64::from(x), f64::from(y)]).to_send_value()
}

/// The caps of pictures of masks: grey, where the value of a pixel is the number of its class.
pub(crate) fn mask_caps(mask: &Mask, framerate: gst::Fraction) -> Option<gst::Caps> {
    let mut caps = mask_info(mask)?.to_caps().ok()?;
    caps.make_mut().set("framerate", framerate);
    Some(caps)
}

/// The picture of a mask.
pub(crate) fn mask_buffer(mask: &Mask) -> Option<gst::Buffer> {
    let info = mask_info(mask)?;
    let stride = usize::try_from(*info.stride().first()?).ok()?;
    let mut buffer = gst::Buffer::with_size(info.size()).ok()?;
    {
        let mut map = buffer.get_mut()?.map_writable().ok()?;
        let rows = mask.classes.chunks_exact(usize::try_from(mask.width).ok()?);
        for (to, from) in map.chunks_mut(stride).zip(rows) {
            to.get_mut(..from.len())?.copy_from_slice(from);
        }
    }
    Some(buffer)
}

fn mask_info(mask: &Mask) -> Option<gst_video::VideoInfo> {
    let format = gst_video::VideoFormat::Gray8;
    gst_video::VideoInfo::builder(format, mask.width, mask.height).build().ok()
}

fn mask_sample(mask: &Mask, pts: Option<gst::ClockTime>) -> Option<gst::Sample> {
    let mut buffer = mask_buffer(mask)?;
    buffer.get_mut()?.set_pts(pts);
    let caps = mask_caps(mask, gst::Fraction::new(0, 1))?;
    Some(gst::Sample::builder().buffer(&buffer).caps(&caps).build())
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
