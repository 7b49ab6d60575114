//! Random models, for property tests and fuzz targets, and plans by way of a cache; feature
//! `testing`.

mod cache;
mod extension;
mod graph;
mod hostile;
mod operations;
mod shrink;
mod test_rng;

pub use cache::through_a_cache;
pub use extension::{ExtensionForm, extension_forms, fuzz_extension};
pub use graph::{Element, RandomModel, random_model};
pub use hostile::fuzz_hostile_values;
pub use shrink::shrink;
pub use test_rng::TestRng;
