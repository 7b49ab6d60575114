//! The models, goldens and labelled data of a run.
//!
//! ```text
//!   folder/manifest.json ──► ModelEntry { file, cases, accept, .. } ──► worker: Loaded
//! ```
//!
//! Folders of several manifests are one collection: cases of a model that another folder has are
//! added to it there.

mod manifest;
mod model;

pub(crate) use manifest::read_folders;
pub(crate) use manifest::{CaseEntry, Family, ModelEntry, Photo};
pub(crate) use model::{LoadFailure, Loaded, Random, bytes_of};
