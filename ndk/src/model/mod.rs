//! `ANeuralNetworksModel`: operands and operations as they are added, then the finished graph.

mod build;
mod finish;

use std::ffi::c_int;
use std::sync::Arc;

use nnburst::hal;

use crate::c::{Array, ArrayMut, Bytes, OperandType, Out, SymmPerChannelQuantParams, Text};
use crate::device::{self, Device};
use crate::error::{Error, Result, call, quietly, start_logging};
use crate::handle::{Handle, object};
use crate::memory;

pub(crate) use build::{Builder, operand_of};

/// A model, in one of the phases of its life.
#[derive(Debug)]
pub(crate) struct Model(Phase);

object!(Model, "model", 1);

#[derive(Debug)]
enum Phase {
    Building(Box<Builder>),
    Finished(Arc<Finished>),
    /// `finish` found it wrong.
    Invalid,
}

/// A finished model.
#[derive(Debug)]
pub(crate) struct Finished {
    /// In execution order.
    pub(crate) model: hal::Model,
    /// For each operation in execution order, which it was in the order of `addOperation`.
    pub(crate) order: Vec<usize>,
}

impl Model {
    fn builder(&mut self) -> Result<&mut Builder> {
        match &mut self.0 {
            Phase::Building(builder) => Ok(builder),
            Phase::Finished(_) => Err(Error::state("the model is finished")),
            Phase::Invalid => Err(Error::state("the model is invalid")),
        }
    }

    /// The finished model.
    ///
    /// # Errors
    /// `BAD_STATE` if it isn't, or is invalid.
    pub(crate) fn finished(&self) -> Result<Arc<Finished>> {
        match &self.0 {
            Phase::Finished(finished) => Ok(Arc::clone(finished)),
            Phase::Building(_) => Err(Error::state("the model is not finished")),
            Phase::Invalid => Err(Error::state("the model is invalid")),
        }
    }

    fn finish(&mut self) -> Result<()> {
        let builder = self.builder()?;
        builder.place_large_values()?;
        let builder = std::mem::take(builder);
        // Invalid, unless what follows says otherwise.
        self.0 = Phase::Invalid;
        self.0 = Phase::Finished(Arc::new(finish::finish(builder.into_model())?));
        Ok(())
    }
}

/// As [`call`], on the builder of a model.
fn build(model: Handle<Model>, work: impl FnOnce(&mut Builder) -> Result<()>) -> c_int {
    call(|| model.with(|model| work(model.builder()?)))
}

pub(crate) extern "C" fn create(model: Out<'_, Handle<Model>>) -> c_int {
    call(|| {
        let model = model.ok_or_else(|| Error::null("model"))?;
        start_logging();
        hal::read_vlog_mask();
        model.write(Handle::new(Model(Phase::Building(Box::default())))?);
        Ok(())
    })
}

pub(crate) extern "C" fn free(model: Handle<Model>) {
    quietly(|| drop(model.free()));
}

pub(crate) extern "C" fn finish(model: Handle<Model>) -> c_int {
    call(|| model.with(Model::finish))
}

pub(crate) extern "C" fn add_operand(model: Handle<Model>, kind: Option<&OperandType>) -> c_int {
    build(model, |builder| builder.add_operand(kind.ok_or_else(|| Error::null("type"))?))
}

pub(crate) extern "C" fn set_operand_value(
    model: Handle<Model>,
    index: i32,
    buffer: Bytes,
    length: usize,
) -> c_int {
    call(|| {
        if buffer.is_null() && length != 0 {
            return Err(Error::null("buffer"));
        }
        model.with(|model| model.builder()?.set_value(index, buffer, length))
    })
}

pub(crate) extern "C" fn set_operand_symm_per_channel_quant_params(
    model: Handle<Model>,
    index: i32,
    params: Option<&SymmPerChannelQuantParams>,
) -> c_int {
    build(model, |builder| {
        builder.set_channel_quant(index, params.ok_or_else(|| Error::null("channelQuant"))?)
    })
}

pub(crate) extern "C" fn set_operand_extension_data(
    model: Handle<Model>,
    index: i32,
    data: Bytes,
    length: usize,
) -> c_int {
    call(|| {
        if data.is_null() && length != 0 {
            return Err(Error::null("data"));
        }
        model.with(|model| model.builder()?.set_extension_data(index, data, length))
    })
}

pub(crate) extern "C" fn set_operand_value_from_memory(
    model: Handle<Model>,
    index: i32,
    memory: Handle<nnburst::Memory>,
    offset: usize,
    length: usize,
) -> c_int {
    call(|| {
        let memory = memory::get(memory)?;
        model.with(|model| model.builder()?.set_value_from_memory(index, &memory, offset, length))
    })
}

pub(crate) extern "C" fn set_operand_value_from_model(
    model: Handle<Model>,
    index: i32,
    value: Handle<Model>,
) -> c_int {
    call(|| {
        // The state of the model itself is looked at first, as in every other call.
        model.with(|model| model.builder().map(drop))?;
        let value = value.with(|value| value.finished())?;
        model.with(|model| model.builder()?.set_value_from_model(index, &value.model))
    })
}

pub(crate) extern "C" fn add_operation(
    model: Handle<Model>,
    kind: i32,
    input_count: u32,
    inputs: Array<u32>,
    output_count: u32,
    outputs: Array<u32>,
) -> c_int {
    build(model, |builder| {
        let inputs = inputs.elements(input_count, "inputs")?;
        builder.add_operation(kind, inputs, outputs.elements(output_count, "outputs")?)
    })
}

pub(crate) extern "C" fn identify_inputs_and_outputs(
    model: Handle<Model>,
    input_count: u32,
    inputs: Array<u32>,
    output_count: u32,
    outputs: Array<u32>,
) -> c_int {
    build(model, |builder| {
        let inputs = inputs.elements(input_count, "inputs")?;
        builder.identify(inputs, outputs.elements(output_count, "outputs")?)
    })
}

pub(crate) extern "C" fn relax_computation_float32_to_float16(
    model: Handle<Model>,
    allow: bool,
) -> c_int {
    build(model, |builder| {
        builder.relax(allow);
        Ok(())
    })
}

pub(crate) extern "C" fn get_supported_operations_for_devices(
    model: Handle<Model>,
    devices: Array<Handle<Device>>,
    device_count: u32,
    supported: ArrayMut<bool>,
) -> c_int {
    call(|| {
        if supported.is_null() {
            return Err(Error::null("supportedOps"));
        }
        if devices.is_null() {
            return Err(Error::null("devices"));
        }
        // The handle is looked at before the list, its state after that.
        model.with(|_| Ok(()))?;
        if device_count == 0 {
            return Err(Error::data("no device is given"));
        }
        let finished = model.with(|model| model.finished())?;
        let devices = device::list(devices.elements(device_count, "devices")?)?;
        supported.write(&finish::supported(&finished, &devices)?, "supportedOps")
    })
}

fn type_code(model: Handle<Model>, name: Text, number: u16, kind: Out<'_, i32>) -> c_int {
    call(|| {
        model.with(|_| Ok(()))?;
        let name = name.get("extensionName")?;
        let kind = kind.ok_or_else(|| Error::null("type"))?;
        let name = name.to_str().map_err(|_| Error::data("the name is not UTF-8"))?;
        let prefix = nnburst::extension_number(name)?;
        let code = hal::ExtensionCode { prefix, number }.code();
        kind.write(code.cast_signed());
        Ok(())
    })
}

pub(crate) extern "C" fn get_extension_operand_type(
    model: Handle<Model>,
    name: Text,
    number: u16,
    kind: Out<'_, i32>,
) -> c_int {
    type_code(model, name, number, kind)
}

pub(crate) extern "C" fn get_extension_operation_type(
    model: Handle<Model>,
    name: Text,
    number: u16,
    kind: Out<'_, i32>,
) -> c_int {
    type_code(model, name, number, kind)
}
