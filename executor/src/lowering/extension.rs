//! The seam for operations of vendor extensions, and for OEM operations, which are older.

use std::collections::HashMap;
use std::sync::Arc;

use nnburst_hal::{ExtensionCode, ExtensionOperandType, Model, OperandType};

use crate::lowering::{Lowered, OpBuilder};

/// Executes the operations of one extension.
pub trait ExtensionExecutor: Send + Sync {
    /// The operand types of the extension. Those that aren't told count as tensors of bytes.
    fn operand_types(&self) -> &[ExtensionOperandType] {
        &[]
    }

    /// Lowers an operation, as the base operations are lowered: look at the inputs, state the
    /// outputs' shapes, emit steps. `number` is the operation's number within the extension.
    ///
    /// # Errors
    /// The operation isn't known or breaks a rule.
    fn lower(&self, number: u16, op: &mut OpBuilder<'_>) -> Lowered;
}

/// The executors of extensions, by name; and OEM operations, which have none.
#[derive(Clone, Default)]
pub struct ExtensionRegistry {
    executors: HashMap<String, Arc<dyn ExtensionExecutor>>,
    oem: Option<Arc<dyn ExtensionExecutor>>,
}

impl ExtensionRegistry {
    /// Adds an extension; one of the same name is replaced.
    pub fn register(&mut self, name: impl Into<String>, executor: Arc<dyn ExtensionExecutor>) {
        self.executors.insert(name.into(), executor);
    }

    /// Sets who executes OEM_OPERATION: as operation 0 of an extension. TENSOR_OEM_BYTE is a tensor
    /// of bytes; the bytes of an OEM_SCALAR are as many as its constant or argument has, and only
    /// [`OpBuilder::constant`] gives them whole.
    pub fn register_oem(&mut self, executor: Arc<dyn ExtensionExecutor>) {
        self.oem = Some(executor);
    }

    /// Returns the executor of OEM operations, if there is one.
    pub fn oem(&self) -> Option<&Arc<dyn ExtensionExecutor>> {
        self.oem.as_ref()
    }

    /// Returns the executor of an extension.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn ExtensionExecutor>> {
        self.executors.get(name)
    }
}

/// The operand types of a model, those of extensions included.
#[derive(Debug, Default)]
pub(crate) struct Types(HashMap<ExtensionCode, ExtensionOperandType>);

impl Types {
    pub(crate) fn of(model: &Model, registry: &ExtensionRegistry) -> Self {
        let entries = model
            .extension_name_to_prefix
            .iter()
            .filter_map(|entry| Some((entry.prefix, registry.get(&entry.name)?)));
        let types = entries.flat_map(|(prefix, executor)| {
            let code =
                move |kind: &ExtensionOperandType| ExtensionCode { prefix, number: kind.number };
            executor.operand_types().iter().map(move |kind| (code(kind), *kind))
        });
        Self(types.collect())
    }

    fn find(&self, kind: OperandType) -> Option<&ExtensionOperandType> {
        match kind {
            OperandType::Extension(code) => self.0.get(&code),
            _ => None,
        }
    }

    /// Bytes of an element; `None` for types that nobody described.
    pub(crate) fn element_bytes(&self, kind: OperandType) -> Option<usize> {
        if kind == OperandType::Oem {
            return None;
        }
        let of_extension = || usize::try_from(self.find(kind)?.byte_size).ok();
        kind.element_bytes().or_else(of_extension)
    }

    /// Returns whether values of the type have no dimensions.
    pub(crate) fn is_scalar(&self, kind: OperandType) -> bool {
        kind.is_scalar() || self.find(kind).is_some_and(|kind| !kind.is_tensor)
    }
}

impl std::fmt::Debug for ExtensionRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.executors.keys().map(String::as_str);
        f.debug_set().entries(names.chain(self.oem.iter().map(|_| "OEM_OPERATION"))).finish()
    }
}
