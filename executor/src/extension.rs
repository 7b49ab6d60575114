//! The seam for operations of vendor extensions.

use std::collections::HashMap;
use std::sync::Arc;

use crate::plan::{Lowered, OpBuilder};

/// Executes the operations of one extension.
pub trait ExtensionExecutor: Send + Sync {
    /// Lowers an operation, as the base operations are lowered: look at the inputs, state the
    /// outputs' shapes, emit steps. `number` is the operation's number within the extension.
    ///
    /// # Errors
    /// The operation isn't known or breaks a rule.
    fn lower(&self, number: u16, op: &mut OpBuilder<'_>) -> Lowered;
}

/// Who executes which extension, by name.
#[derive(Clone, Default)]
pub struct ExtensionRegistry {
    executors: HashMap<String, Arc<dyn ExtensionExecutor>>,
}

impl ExtensionRegistry {
    /// Adds an extension; one of the same name is replaced.
    pub fn register(&mut self, name: impl Into<String>, executor: Arc<dyn ExtensionExecutor>) {
        self.executors.insert(name.into(), executor);
    }

    /// Who executes an extension.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn ExtensionExecutor>> {
        self.executors.get(name)
    }
}

impl std::fmt::Debug for ExtensionRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.executors.keys()).finish()
    }
}
