//! Passes over the steps of a stage: fewer steps and less memory for the same bits.

pub(super) mod attention;
pub(super) mod compose;
pub(super) mod elements;
pub(super) mod fold;
pub(super) mod fuse;
pub(super) mod join;
pub(super) mod normalise;
mod runs;
pub(super) mod sequence;
