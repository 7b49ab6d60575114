//! Pictures and models: from pixels to the values that a model takes ([`PixelTables`]), and from
//! its output tensors to classes, boxes, masks and keypoints ([`Decoder`]).
//!
//! | outputs | task | done by |
//! |---|---|---|
//! | one of `[1, N]`, other extents 1 | classification | `classes` |
//! | boxes, classes, scores and count (TFLite_Detection_PostProcess) | detection | `boxes` |
//! | boxes `[1, A, 4]` and scores `[1, A, C]` of an SSD, still encoded | detection | `anchors` |
//! | one of `[1, H, W, C]`, or of integers `[1, H, W]` | segmentation | `mask` |
//! | one of `[1, 1, 17, 3]` | pose | `pose` |
//!
//! Whatever a model gives is data from outside: counts and class numbers are checked before they
//! are used.
#![forbid(unsafe_code)]

mod anchors;
mod boxes;
mod classes;
mod decoder;
mod mask;
mod model;
mod pixels;
mod pose;
mod tensor;

pub use boxes::{Detection, pixel};
pub use classes::Class;
pub use decoder::{Decoder, PictureSize, Results, label};
pub use mask::Mask;
pub use model::{ModelError, PictureInput, PictureModel};
pub use pixels::{Normalisation, PixelTables};
pub use pose::{Keypoint, NAMES};
pub use tensor::Limits;
