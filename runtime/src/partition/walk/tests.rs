//! Plans by figures that are noise, and by what crossings cost.

use std::sync::Arc;

use nnburst_hal::{
    CacheHandles, Capabilities, Device as HalDevice, DeviceType, ExecutionPreference, Operand,
    OperandPerformance, OperandType, OperationType, PerformanceInfo, PrepareOptions,
    PreparedModelCallback, non_extension_operand_performance,
};

use super::*;
use crate::device::Device;
use crate::model_builder::ModelBuilder;
use crate::partition::choose::Bid;

/// A driver that takes what it is said to, at figures of its own.
struct Priced {
    capabilities: Capabilities,
    takes: fn(OperationType) -> bool,
}

impl Priced {
    fn new(figures: impl Fn(OperandType) -> f32, takes: fn(OperationType) -> bool) -> Self {
        let info = |exec_time| PerformanceInfo { exec_time, power_usage: exec_time };
        let all = non_extension_operand_performance(info(1.0));
        let entry =
            |one: OperandPerformance| OperandPerformance { info: info(figures(one.kind)), ..one };
        let relaxed = info(figures(OperandType::TensorFloat32));
        let capabilities = Capabilities {
            relaxed_float32_to_float16_scalar: relaxed,
            relaxed_float32_to_float16_tensor: relaxed,
            operand_performance: all.into_iter().map(entry).collect(),
            if_performance: info(figures(OperandType::TensorBool8)),
            while_performance: info(figures(OperandType::TensorBool8)),
        };
        Self { capabilities, takes }
    }
}

impl HalDevice for Priced {
    fn capabilities(&self) -> nnburst_hal::Result<Capabilities> {
        Ok(self.capabilities.clone())
    }
    fn version_string(&self) -> nnburst_hal::Result<String> {
        Ok("priced".into())
    }
    fn device_type(&self) -> nnburst_hal::Result<DeviceType> {
        Ok(DeviceType::Accelerator)
    }
    fn supported_operations(&self, model: &Model) -> nnburst_hal::Result<Vec<bool>> {
        Ok(model.main.operations.iter().map(|one| (self.takes)(one.kind)).collect())
    }
    fn prepare_model(
        &self,
        _: Model,
        _: PrepareOptions,
        _: CacheHandles,
        _: Arc<dyn PreparedModelCallback>,
    ) -> nnburst_hal::Result<()> {
        Err(HalError::failure("it only bids"))
    }
}

fn everything(_: OperationType) -> bool {
    true
}

fn here(name: &str, driver: Priced) -> Device {
    Device::from_hal(name, Arc::new(driver))
}

/// As a service would be.
fn served(name: &str, driver: Priced) -> Device {
    Device::elsewhere(name, Arc::new(driver))
}

fn walk(model: &Model, devices: &[Device], prefer_served: bool) -> Walk {
    let preference = ExecutionPreference::FastSingleAnswer;
    let chooser = Chooser::new(model, devices, preference, false, prefer_served);
    Walk::of(model, &chooser).unwrap()
}

/// Floats to bytes and back, layer after layer.
fn mixed(extent: u32, layers: usize) -> Model {
    let mut graph = ModelBuilder::new();
    let mut value = graph.input(Operand::float32([extent]));
    for _ in 0..layers {
        let more = graph.add(value, value).done();
        let bytes = graph.quantize(more).quantized(0.1, 0).done();
        let most = graph.maximum(bytes, bytes).done();
        value = graph.dequantize(most).done();
    }
    graph.output(value);
    graph.build().unwrap()
}

/// Numbers around 1, a tenth to either side.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let unit = f32::from(u16::try_from(self.0 >> 48).unwrap()) / 65536.0;
        1.0 + 0.2 * (unit - 0.5)
    }

    fn figures(&mut self) -> impl Fn(OperandType) -> f32 + use<> {
        let noise: Vec<_> = OperandType::BASE.iter().map(|&kind| (kind, self.next())).collect();
        move |kind| noise.iter().find(|one| one.0 == kind).map_or(1.0, |one| one.1)
    }
}

#[test]
fn equal_devices_never_split_a_model_whatever_the_noise() {
    for seed in 1..=400 {
        let mut noise = Noise(u64::wrapping_mul(seed, 0x9E37_79B9_7F4A_7C15));
        let mut priced = || Priced::new(noise.figures(), everything);
        let sets = [
            vec![served("one", priced()), Device::reference()],
            vec![here("one", priced()), Device::reference()],
            vec![served("one", priced()), served("two", priced()), Device::reference()],
            vec![here("one", priced()), here("two", priced()), here("three", priced())],
        ];
        for (extent, layers) in [(2, 3), (1 << 20, 12)] {
            let model = mixed(extent, layers);
            for (which, devices) in sets.iter().enumerate() {
                for prefer_served in [false, true] {
                    let walk = walk(&model, devices, prefer_served);
                    assert!(walk.single_device().is_some(), "seed {seed}, {which}, {extent}");
                }
            }
        }
    }
}

/// A device that is somewhat quicker for some of the work gets it if that is worth the ways, and
/// only then.
#[test]
fn ways_between_processes_are_part_of_the_cost() {
    let quick = |at: fn(&str, Priced) -> Device| {
        at("quick", Priced::new(|_| 0.5, |kind| kind == OperationType::Conv2d))
    };
    let convolution = |extent: u32| {
        let mut graph = ModelBuilder::new();
        let picture = graph.input(Operand::float32([1, extent, extent, 16]));
        let filter = graph.constant_of(Operand::float32([16, 3, 3, 16]), &[0.1f32; 2304]);
        let bias = graph.constant_of(Operand::float32([16]), &[0.0f32; 16]);
        let sum = graph.add(picture, picture).done();
        let features = graph.conv_2d(sum, filter, bias).same().done();
        let again = graph.add(features, features).done();
        graph.output(again);
        graph.build().unwrap()
    };
    for (what, at, extent, is_split) in [
        ("small, here", here as fn(&str, Priced) -> Device, 4, true),
        ("small, elsewhere", served, 4, false),
        ("large, here", here, 64, true),
        ("large, elsewhere", served, 64, true),
    ] {
        let model = convolution(extent);
        let walk = walk(&model, &[quick(at), Device::reference()], false);
        assert_eq!(walk.single_device().is_none(), is_split, "{what}");
    }
}

#[test]
fn a_served_driver_that_takes_all_is_preferred_to_this_process() {
    let model = mixed(2, 1);
    let slow = || Priced::new(|_| 1.5, everything);
    let devices = [served("slow", slow()), Device::reference()];
    let chosen = walk(&model, &devices, true);
    assert_eq!(chosen.single_device(), Some(0));
    assert_eq!(chosen.scopes[0].chosen[0].bids, [Bid::Cost(1.5), Bid::InProcess(1.0)]);
    assert_eq!(walk(&model, &devices, false).single_device(), Some(1), "by figures alone");

    // What takes a part only is as good as its figures.
    let part = Priced::new(|_| 1.5, |kind| kind == OperationType::Add);
    let devices = [served("part", part), Device::reference()];
    assert_eq!(walk(&model, &devices, true).single_device(), Some(1));
    // A driver in this process is no isolation.
    let devices = [here("slow", slow()), Device::reference()];
    assert_eq!(walk(&model, &devices, true).single_device(), Some(1));
    // Among several elsewhere the figures decide.
    let fast = Priced::new(|_| 1.2, everything);
    let devices = [served("slow", slow()), served("fast", fast), Device::reference()];
    assert_eq!(walk(&model, &devices, true).single_device(), Some(1));
}
