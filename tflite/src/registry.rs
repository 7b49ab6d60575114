//! Custom operators that a program adds to the importer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use nnburst_hal::{ExtensionCode, Operand, OperandType, OperationType, tflite_extension};

use crate::schema::FlexMap;

/// The prefix of `dev.nnburst.tflite` in models that use it.
pub(crate) const PREFIX: u16 = 1;

/// The way from a custom operator to operations of the model.
pub trait CustomOperator: fmt::Debug + Send + Sync {
    /// The name of the vendor extension that [`CustomCall::extension_operation`] adds operations
    /// of, if there is one. Devices that list it alone take the model.
    fn extension(&self) -> Option<&str> {
        None
    }

    /// Adds the operations that compute the operator's results from its inputs.
    ///
    /// # Errors
    /// The reason why this one can't be imported, which the import's error repeats.
    fn import(&self, call: &mut CustomCall<'_, '_>) -> Result<(), String>;
}

/// Custom operators by their names in files; see
/// [`ModelFile::set_custom_operators`](crate::ModelFile::set_custom_operators).
///
/// ```
/// use std::sync::Arc;
///
/// use nnburst_hal::OperationType;
/// use nnburst_tflite::{CustomCall, CustomOperator, CustomOperators};
///
/// /// `x * logistic(x)`.
/// #[derive(Debug)]
/// struct Swish;
///
/// impl CustomOperator for Swish {
///     fn import(&self, call: &mut CustomCall<'_, '_>) -> Result<(), String> {
///         let x = call.input(0)?;
///         let gate = call.like(x)?;
///         call.operation(OperationType::Logistic, &[x], &[gate])?;
///         let no_activation = call.int(0);
///         let y = call.output(0)?;
///         call.operation(OperationType::Mul, &[x, gate, no_activation], &[y])
///     }
/// }
///
/// let mut operators = CustomOperators::default();
/// operators.register("MySwish", Arc::new(Swish));
/// ```
#[derive(Clone, Debug, Default)]
pub struct CustomOperators {
    operators: BTreeMap<String, Arc<dyn CustomOperator>>,
}

impl CustomOperators {
    /// Imports custom operators of this name so, those too that the importer knows itself; gives
    /// who did so far.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        operator: Arc<dyn CustomOperator>,
    ) -> Option<Arc<dyn CustomOperator>> {
        self.operators.insert(name.into(), operator)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&dyn CustomOperator> {
        self.operators.get(name).map(|operator| &**operator)
    }

    /// The extensions of the operators in the order of their prefixes, which follow the one of
    /// `dev.nnburst.tflite`.
    fn extensions(&self) -> impl Iterator<Item = &str> {
        let names = self.operators.values().filter_map(|operator| operator.extension());
        let names: BTreeSet<&str> = names.filter(|&name| name != tflite_extension::NAME).collect();
        names.into_iter()
    }

    /// The prefix of an extension.
    fn prefix(&self, name: &str) -> Option<u16> {
        if name == tflite_extension::NAME {
            return Some(PREFIX);
        }
        let mut prefixes = (PREFIX + 1..).zip(self.extensions());
        prefixes.find(|&(_, known)| known == name).map(|(prefix, _)| prefix)
    }

    /// The extension of a prefix.
    pub(crate) fn extension(&self, prefix: u16) -> Option<&str> {
        if prefix == PREFIX {
            return Some(tflite_extension::NAME);
        }
        let mut prefixes = (PREFIX + 1..).zip(self.extensions());
        prefixes.find(|&(own, _)| own == prefix).map(|(_, name)| name)
    }
}

/// A value of the model in the making: an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomValue(u32);

/// What an importer sees of the file, and does to the model; values are operands.
pub(crate) trait CustomSite<'a> {
    fn options(&self) -> &'a [u8];
    fn input_count(&self) -> usize;
    fn has_input(&self, index: usize) -> bool;
    fn input(&mut self, index: usize) -> Result<u32, String>;
    fn constant(&self, index: usize) -> Option<&'a [u8]>;
    fn operand(&self, index: u32) -> Option<&Operand>;
    fn output(&mut self, index: usize) -> Result<u32, String>;
    fn temporary(&mut self, kind: OperandType, dimensions: &[u32]) -> u32;
    fn like(&mut self, model: u32) -> u32;
    fn int(&mut self, value: i32) -> u32;
    fn float(&mut self, value: f32) -> u32;
    fn boolean(&mut self, value: bool) -> u32;
    fn tensor(&mut self, operand: Operand, bytes: &[u8]) -> u32;
    fn operation(&mut self, kind: OperationType, inputs: &[u32], outputs: &[u32]);
}

/// A custom operator on its way into the model.
pub struct CustomCall<'c, 'a> {
    site: &'c mut dyn CustomSite<'a>,
    /// The prefix of the operator's extension.
    prefix: Option<u16>,
}

impl fmt::Debug for CustomCall<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomCall").field("inputs", &self.input_count()).finish_non_exhaustive()
    }
}

impl<'c, 'a> CustomCall<'c, 'a> {
    pub(crate) fn new(
        site: &'c mut dyn CustomSite<'a>,
        operator: &dyn CustomOperator,
        registry: &CustomOperators,
    ) -> Self {
        let prefix = operator.extension().and_then(|name| registry.prefix(name));
        Self { site, prefix }
    }

    /// The options as they are in the file; a FlexBuffer most of the time.
    pub fn options(&self) -> &'a [u8] {
        self.site.options()
    }

    /// The number of a name among the options, which are a FlexBuffer; booleans are 0 and 1.
    pub fn number(&self, name: &str) -> Option<f64> {
        FlexMap::root(self.options())?.number(name)
    }

    /// The list of numbers of a name among the options, which are a FlexBuffer.
    pub fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        FlexMap::root(self.options())?.numbers(name)
    }

    /// The text of a name among the options, which are a FlexBuffer.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        FlexMap::root(self.options())?.text(name)
    }

    /// Returns the number of the operator's inputs, those left out included.
    pub fn input_count(&self) -> usize {
        self.site.input_count()
    }

    /// Returns whether an input is there.
    pub fn has_input(&self, index: usize) -> bool {
        self.site.has_input(index)
    }

    /// The value of an input.
    ///
    /// # Errors
    /// It is left out, or the model has no type for it.
    pub fn input(&mut self, index: usize) -> Result<CustomValue, String> {
        self.site.input(index).map(CustomValue)
    }

    /// The bytes of an input that is a constant of the file.
    pub fn constant(&self, index: usize) -> Option<&'a [u8]> {
        self.site.constant(index)
    }

    /// The operand of a value: its type, extents (0 where one is unknown) and quantisation.
    ///
    /// # Errors
    /// It is a value of another model.
    pub fn operand(&self, value: CustomValue) -> Result<&Operand, String> {
        self.site.operand(value.0).ok_or_else(|| "a value of another model".to_owned())
    }

    /// The value of a result, for an operation to give.
    ///
    /// # Errors
    /// The operator has no such result, or the model has no type for it.
    pub fn output(&mut self, index: usize) -> Result<CustomValue, String> {
        self.site.output(index).map(CustomValue)
    }

    /// A value between operations.
    pub fn temporary(&mut self, kind: OperandType, dimensions: &[u32]) -> CustomValue {
        CustomValue(self.site.temporary(kind, dimensions))
    }

    /// A value between operations with the type, the extents and the quantisation of another.
    ///
    /// # Errors
    /// It is a value of another model.
    pub fn like(&mut self, value: CustomValue) -> Result<CustomValue, String> {
        self.operand(value)?;
        Ok(CustomValue(self.site.like(value.0)))
    }

    /// A scalar INT32.
    pub fn int(&mut self, value: i32) -> CustomValue {
        CustomValue(self.site.int(value))
    }

    /// A scalar FLOAT32.
    pub fn float(&mut self, value: f32) -> CustomValue {
        CustomValue(self.site.float(value))
    }

    /// A scalar BOOL.
    pub fn boolean(&mut self, value: bool) -> CustomValue {
        CustomValue(self.site.boolean(value))
    }

    /// A constant tensor.
    ///
    /// # Errors
    /// The bytes are not as many as the operand's type and extents say.
    pub fn tensor(&mut self, operand: Operand, bytes: &[u8]) -> Result<CustomValue, String> {
        let wanted = operand.data_size();
        if wanted != Some(bytes.len()) {
            return Err(format!("{} bytes for an operand of {wanted:?}", bytes.len()));
        }
        Ok(CustomValue(self.site.tensor(operand, bytes)))
    }

    /// Adds an operation of NNAPI.
    ///
    /// # Errors
    /// A value is of another model.
    pub fn operation(
        &mut self,
        kind: OperationType,
        inputs: &[CustomValue],
        outputs: &[CustomValue],
    ) -> Result<(), String> {
        inputs.iter().chain(outputs).try_for_each(|&value| self.operand(value).map(drop))?;
        let index = |values: &[CustomValue]| values.iter().map(|value| value.0).collect::<Vec<_>>();
        self.site.operation(kind, &index(inputs), &index(outputs));
        Ok(())
    }

    /// Adds an operation of the operator's extension ([`CustomOperator::extension`]).
    ///
    /// # Errors
    /// The operator has no extension, or a value is of another model.
    pub fn extension_operation(
        &mut self,
        number: u16,
        inputs: &[CustomValue],
        outputs: &[CustomValue],
    ) -> Result<(), String> {
        let prefix = self.prefix.ok_or("the operator has no extension")?;
        let code = ExtensionCode { prefix, number };
        self.operation(OperationType::Extension(code), inputs, outputs)
    }
}
