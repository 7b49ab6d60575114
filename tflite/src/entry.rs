//! The graph of a file that is imported: the first one, or that of a signature.

use crate::error::ImportError;
use crate::finish::Parts;
use crate::schema::{Signature, SignatureTensor};

/// A graph, and what its inputs and outputs are called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// The graph, an index.
    pub(crate) graph: usize,
    /// Names that a signature gives; tensors without one have their own.
    inputs: Vec<SignatureTensor>,
    outputs: Vec<SignatureTensor>,
}

impl Entry {
    /// The graph of the signature with this key.
    pub(crate) fn of_signature(signatures: &[Signature], key: &str) -> Result<Self, ImportError> {
        let Some(signature) = signatures.iter().find(|signature| signature.key == key) else {
            let known: Vec<_> = signatures.iter().map(|signature| &*signature.key).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let why = format!("no signature is called {key:?}; there are {known}");
            return Err(ImportError::Interface(why));
        };
        let Signature { graph, inputs, outputs, .. } = signature.clone();
        Ok(Self { graph, inputs, outputs })
    }

    /// The name that the signature gives an input.
    pub(crate) fn input_name(&self, tensor: usize) -> Option<&str> {
        name_of(&self.inputs, tensor)
    }

    /// Gives inputs and outputs their names in the signature.
    pub(crate) fn name(&self, parts: &mut Parts) {
        let inputs = parts.inputs.iter_mut().chain(&mut parts.empty_inputs);
        let inputs = inputs.map(|info| (info, &self.inputs));
        for (info, names) in inputs.chain(parts.outputs.iter_mut().map(|it| (it, &self.outputs))) {
            if let Some(name) = name_of(names, info.tensor) {
                name.clone_into(&mut info.name);
            }
        }
    }
}

fn name_of(names: &[SignatureTensor], tensor: usize) -> Option<&str> {
    names.iter().find(|it| it.tensor == tensor).map(|it| &*it.name)
}
