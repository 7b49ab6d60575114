//! Results as analytics metadata, which GStreamer has from 1.24 on: what its own overlays and
//! object trackers read.

use gst::glib;
use gst_analytics::prelude::*;

use nnburst_pictures::{PictureSize, Results, label};

/// Attaches classes and objects to a buffer. Masks and keypoints have no such metadata in 1.26.
pub(super) fn attach(
    buffer: &mut gst::BufferRef,
    results: &Results,
    labels: &[String],
    size: PictureSize,
) -> Result<(), glib::BoolError> {
    match results {
        Results::Classes(classes) => {
            let scores: Vec<f32> = classes.iter().map(|class| single(class.score)).collect();
            let names: Vec<glib::Quark> =
                classes.iter().map(|class| quark(labels, class.index)).collect();
            let mut meta = gst_analytics::AnalyticsRelationMeta::add(buffer);
            meta.add_cls_mtd(&scores, &names)?;
        }
        Results::Boxes(found) => {
            let mut meta = gst_analytics::AnalyticsRelationMeta::add(buffer);
            for object in found {
                let (x, y, w, h) = object.pixels(size);
                let [x, y, w, h] = [x, y, w, h].map(|side| i32::try_from(side).unwrap_or(i32::MAX));
                meta.add_od_mtd(quark(labels, object.class), x, y, w, h, single(object.score))?;
            }
        }
        Results::Mask(_) | Results::Pose(_) | Results::Tensors => {}
    }
    Ok(())
}

fn quark(labels: &[String], class: usize) -> glib::Quark {
    glib::Quark::from_str(label(labels, class))
}

#[expect(clippy::cast_possible_truncation, reason = "a score, which models give in single")]
fn single(score: f64) -> f32 {
    score as f32
}
