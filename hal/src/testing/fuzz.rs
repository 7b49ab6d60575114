//! Bodies of fuzz targets: plain functions of bytes, for libFuzzer and for property tests alike.
//!
//! The bytes steer the making of a model or request, so that most bytes make a structure that gets
//! past the first rules. What is asked: no panic, no endless loop, and what must hold of a valid
//! value holds.

use crate::diagnostics::dot;
use crate::types::{
    ChannelQuant, DataLocation, ExtensionCode, ExtensionNameAndPrefix, ExtraParams, Model, Operand,
    OperandLifeTime, OperandType, Operation, OperationType, Request, RequestArgument, RequestPool,
    Subgraph, Version,
};
use crate::validate::{
    AllowUnspecifiedOutput, ValidationMode, validate_model, validate_model_in, validate_request,
};
use crate::versions::{compliant_with, convert_to, slice_for, trim_default_arguments};
use crate::{Memory, testing::relu_model};

/// Validates, converts, slices, trims and draws a model made of the bytes.
///
/// # Panics
/// Something that must hold does not: that is the finding.
pub fn fuzz_validate_model(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let model = if bytes.next().is_multiple_of(4) { near_valid(&mut bytes) } else { bytes.model() };
    for version in Version::ALL {
        let valid = validate_model(&model, version).is_ok();
        let strictly = validate_model_in(&model, version, ValidationMode::Driver).is_ok();
        assert!(valid || !strictly, "drivers are no more lenient than runtimes");
        let converted = convert_to(model.clone(), version);
        if valid {
            assert!(compliant_with(&model, version), "valid for {version:?}, hence compliant");
            assert!(validate_model(&converted.value, version).is_ok());
        }
        if let Some(part) = slice_for(&model, version) {
            assert_eq!(part.model.main.operations.len(), part.operation_indexes.len());
            assert!(validate_model(&part.model, version).is_ok());
        }
    }
    let mut trimmed = model.clone();
    trim_default_arguments(&mut trimmed);
    if validate_model(&model, Version::V1_3).is_ok() {
        assert!(validate_model(&trimmed, Version::V1_3).is_ok(), "trimming keeps a model valid");
    }
    assert!(dot(&model, "fuzz").ends_with("}\n"));
}

/// Validates a request made of the bytes against a valid model.
///
/// # Panics
/// Something that must hold does not: that is the finding.
pub fn fuzz_validate_request(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let rank = usize::from(bytes.next() % 3);
    let model = relu_model(&bytes.numbers(rank));
    let request = bytes.request();
    let check = |version, allow| validate_request(&request, &model, version, allow).is_ok();
    for version in Version::ALL {
        let lenient = check(version, AllowUnspecifiedOutput::Yes);
        let strict = check(version, AllowUnspecifiedOutput::No);
        assert!(lenient || !strict, "what is fully specified is specified enough");
    }
    if check(Version::V1_3, AllowUnspecifiedOutput::Yes) {
        for argument in request.inputs.iter().chain(&request.outputs) {
            let location = argument.location;
            let end = u64::from(location.offset) + u64::from(location.length);
            let pool =
                usize::try_from(location.pool_index).ok().and_then(|at| request.pools.get(at));
            match pool {
                Some(RequestPool::Memory(memory)) => assert!(end <= memory.size()),
                Some(RequestPool::Token(token)) => assert!(*token != 0 && end == 0),
                None => assert!(argument.has_no_value),
            }
        }
    }
}

/// A valid model with one random operand or operation in it.
fn near_valid(bytes: &mut Bytes<'_>) -> Model {
    let mut model = relu_model(&[2]);
    let index = usize::from(bytes.next() % 2);
    match bytes.next() % 3 {
        0 => model.main.operands[index] = bytes.operand(),
        1 => model.main.operations[0] = bytes.operation(),
        _ => model.referenced.push(bytes.graph()),
    }
    model
}

/// Random decisions, byte by byte; zeros when it runs out.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Mostly small; at times at the edge.
    fn number(&mut self) -> u32 {
        match self.next() {
            255 => u32::MAX,
            254 => u32::MAX - u32::from(self.next()),
            253 => 1 << (self.next() % 32),
            byte => u32::from(byte % 8),
        }
    }

    fn numbers(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.number()).collect()
    }

    fn list(&mut self) -> Vec<u32> {
        let count = usize::from(self.next() % 5);
        self.numbers(count)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.next()) % from.len()]
    }

    fn float(&mut self) -> f32 {
        self.pick(&[0.0, 0.0, 0.0, 1.0, 0.5, -1.0, f32::NAN, f32::INFINITY])
    }

    fn location(&mut self) -> DataLocation {
        DataLocation { pool_index: self.number(), offset: self.number(), length: self.number() }
    }

    fn operand(&mut self) -> Operand {
        let kind = match self.next() {
            0 => OperandType::Extension(ExtensionCode { prefix: 1, number: 0 }),
            byte => OperandType::BASE[usize::from(byte) % OperandType::BASE.len()],
        };
        let plain = !self.next().is_multiple_of(4);
        Operand {
            kind,
            dimensions: if kind.is_scalar() && plain { Vec::new() } else { self.list() },
            number_of_consumers: self.number(),
            scale: self.float(),
            zero_point: self.number().cast_signed(),
            lifetime: self.pick(OperandLifeTime::ALL),
            location: if plain { DataLocation::default() } else { self.location() },
            extra_params: match self.next() % 8 {
                0 => ExtraParams::Extension(vec![1]),
                1 => ExtraParams::ChannelQuant(ChannelQuant {
                    scales: vec![self.float(); usize::from(self.next() % 4)],
                    channel_dim: self.number(),
                }),
                _ => ExtraParams::None,
            },
        }
    }

    fn operation(&mut self) -> Operation {
        let kind = self.pick(OperationType::BASE);
        Operation { kind, inputs: self.list(), outputs: self.list() }
    }

    fn graph(&mut self) -> Subgraph {
        let (operands, operations) = (self.next() % 8, self.next() % 4);
        Subgraph {
            operands: (0..operands).map(|_| self.operand()).collect(),
            operations: (0..operations).map(|_| self.operation()).collect(),
            input_indexes: self.list(),
            output_indexes: self.list(),
        }
    }

    fn model(&mut self) -> Model {
        let referenced = self.next() % 4;
        Model {
            main: self.graph(),
            referenced: (0..referenced).map(|_| self.graph()).collect(),
            operand_values: vec![0; usize::from(self.next() % 32)],
            pools: self.pools(),
            relax_computation_float32_to_float16: self.next().is_multiple_of(2),
            extension_name_to_prefix: (0..self.next() % 3)
                .map(|prefix| ExtensionNameAndPrefix {
                    name: format!("a.{prefix}"),
                    prefix: u16::from(prefix),
                })
                .collect(),
        }
    }

    fn pools(&mut self) -> Vec<Memory> {
        let count = self.next() % 3;
        (0..count).filter_map(|size| Memory::ashmem(u64::from(size) * 8).ok()).collect()
    }

    fn argument(&mut self) -> RequestArgument {
        RequestArgument {
            has_no_value: self.next().is_multiple_of(8),
            location: self.location(),
            dimensions: self.list(),
        }
    }

    fn request(&mut self) -> Request {
        let (inputs, outputs) = (self.next() % 8, self.next() % 8);
        let mut pools: Vec<_> = self.pools().into_iter().map(RequestPool::Memory).collect();
        if self.next().is_multiple_of(2) {
            pools.push(RequestPool::Token(self.number()));
        }
        // One of each is what the model has, so that is what the generator makes most often.
        let count = |byte: u8| if byte < 7 { 1 } else { 2 };
        Request {
            inputs: (0..count(inputs)).map(|_| self.argument()).collect(),
            outputs: (0..count(outputs)).map(|_| self.argument()).collect(),
            pools,
        }
    }
}
