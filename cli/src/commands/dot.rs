//! `nnburst dot`: a model as Graphviz.

use std::io::Write;

use crate::args::DotArgs;
use crate::failure::Failure;
use crate::source::ModelSource;

/// Prints the graph.
pub(crate) fn dot(args: &DotArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let source = ModelSource::choose(&args.model, &args.import)?;
    write!(out, "{}", nnburst::hal::dot(&source.model, &source.name))?;
    Ok(())
}
