//! Evaluators: figures of answers by the rules of their tasks.
//!
//! | evaluator | of | limit |
//! |---|---|---|
//! | [`difference`] | every output | the tiers of `accuracy` |
//! | [`best_class`] | classifiers | labels and agreement with the reference kernels |
//! | [`mel_cepstral`] | speech parameters | distortion 4, log F0 0.01 |
//! | [`phone_error_rate`] | phones of frames | 5 % |
//! | [`segmentation`] | classes of pixels | the manifest's share of pixels |
//! | [`detections`] | boxes | each detection of a half or more is found |

mod boxes;
mod classes;
mod difference;
mod phones;
mod pixels;
mod speech;

pub(crate) use boxes::{detections, missed};
pub(crate) use classes::{best_class, top_classes};
pub(crate) use difference::{Difference, ElementType, difference, shown, values};
pub(crate) use phones::{PhoneErrors, phone_error_rate};
pub(crate) use pixels::{agreement, iou, mask_classes};
pub(crate) use speech::{SpeechScale, mel_cepstral};
