//! Plans on the executor with the extension `dev.nnburst.tflite`.

use std::sync::Arc;

use nnburst_executor::{CompileError, CompileOptions, ExtensionRegistry, Plan, TfliteExecutor};
use nnburst_hal::tflite_extension;
use nnburst_tflite::Imported;

/// Compiles an imported file; what it computes takes 16 MiB at most.
pub(crate) fn compile(imported: &Imported) -> Result<Plan, CompileError> {
    Plan::compile(&imported.model, &options())
}

/// The options of [`compile`].
pub(crate) fn options() -> CompileOptions {
    let mut extensions = ExtensionRegistry::default();
    extensions.register(tflite_extension::NAME, Arc::new(TfliteExecutor));
    CompileOptions { arena_limit: 1 << 24, extensions, ..CompileOptions::default() }
}
