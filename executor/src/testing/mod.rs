//! Models of chance, for property tests and fuzz targets; feature `testing`.

mod chance;
mod graph;
mod hostile;
mod operations;
mod shrink;

pub use chance::Chance;
pub use graph::{Element, RandomModel, random_model};
pub use hostile::fuzz_hostile_values;
pub use shrink::shrink;
