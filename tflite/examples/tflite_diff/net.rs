//! A file of one operator in the making, with random inputs.

use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::{Fields, TfliteFile, Value};

/// A small generator of random numbers.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = self.0 ^ (self.0 >> 29);
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: i32) -> i32 {
        i32::try_from(self.next() % u64::from(end.unsigned_abs())).unwrap_or(0)
    }

    /// From `low` to `high`.
    pub(crate) fn within(&mut self, low: i32, high: i32) -> i32 {
        low + self.below(high - low + 1)
    }

    /// One of several.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.next()).unwrap_or(0) % of.len()]
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// From `low` to `high`, in steps of a millionth of the range.
    pub(crate) fn real(&mut self, low: f32, high: f32) -> f32 {
        let step = f64::from(self.below(1_000_001)) / 1e6;
        #[expect(clippy::cast_possible_truncation, reason = "a random number more or less")]
        let real = (f64::from(low) + (f64::from(high) - f64::from(low)) * step) as f32;
        real
    }

    /// From `low` to `high`, every power as often as the next.
    pub(crate) fn scale(&mut self, low: f32, high: f32) -> f32 {
        self.real(low.ln(), high.ln()).exp()
    }
}

/// The values that inputs have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueRange(pub(crate) f32, pub(crate) f32);

/// The file, its random numbers and the inputs so far.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) file: TfliteFile,
    pub(crate) random: Random,
    pub(crate) inputs: Vec<Vec<u8>>,
    pub(crate) label: String,
    pub(crate) span: ValueRange,
    /// The schema's code of the last bias's type.
    pub(crate) bias_code: i32,
}

impl Net {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed ^ 0x5bd1_e995);
        random.next();
        let (inputs, label) = (Vec::new(), String::new());
        Self {
            file: TfliteFile::new(),
            random,
            inputs,
            label,
            span: ValueRange(-4.0, 4.0),
            bias_code: 0,
        }
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        self.file.build()
    }

    /// One of these types, which the case is labelled with.
    pub(crate) fn kind(&mut self, of: &[TensorKind]) -> TensorKind {
        let kind = self.random.pick(of);
        kind.name().clone_into(&mut self.label);
        kind
    }

    pub(crate) fn shape(&mut self, ranks: (i32, i32)) -> Vec<i32> {
        let rank = self.random.within(ranks.0, ranks.1);
        (0..rank).map(|_| self.random.within(1, 6)).collect()
    }

    /// Random bytes of a tensor.
    pub(crate) fn bytes(&mut self, kind: TensorKind, shape: &[i32]) -> Vec<u8> {
        let count: i32 = shape.iter().product();
        let mut bytes = Vec::new();
        for _ in 0..count {
            let ValueRange(low, high) = self.span;
            #[expect(clippy::cast_possible_truncation, reason = "within some hundred")]
            let (least, most) = (low as i32 * 8, high as i32 * 8);
            match kind {
                TensorKind::Float32 => {
                    bytes.extend(self.random.real(low, high).to_le_bytes());
                }
                TensorKind::Int8 | TensorKind::Uint8 => {
                    bytes.push(u8::try_from(self.random.below(256)).unwrap_or(0));
                }
                TensorKind::Int16 => {
                    let value = self.random.within(-32768, 32767);
                    bytes.extend(i16::try_from(value).unwrap_or(0).to_le_bytes());
                }
                TensorKind::Float16 => {
                    // Of a 128th to 8, of either sign.
                    let size = self.random.within(0x2000, 0x47ff);
                    let sign = if self.random.flag() { 0x8000 } else { 0 };
                    bytes.extend(u16::try_from(size | sign).unwrap_or(0).to_le_bytes());
                }
                TensorKind::Bool => bytes.push(u8::from(self.random.flag())),
                TensorKind::Int64 => {
                    bytes.extend(i64::from(self.random.within(least, most)).to_le_bytes());
                }
                _ => bytes.extend(self.random.within(least, most).to_le_bytes()),
            }
        }
        bytes
    }

    /// Gives a tensor of a quantised type a random scale, and a zero point where it may have one.
    pub(crate) fn quantise(&mut self, tensor: i32, kind: TensorKind) {
        let scale = match kind {
            TensorKind::Int16 => self.random.real(1e-5, 1e-3),
            _ => self.random.real(0.005, 0.1),
        };
        self.quantise_by(tensor, kind, scale);
    }

    /// As [`Net::quantise`], with this scale.
    pub(crate) fn quantise_by(&mut self, tensor: i32, kind: TensorKind, scale: f32) {
        let zero_point = match kind {
            TensorKind::Int8 => self.random.within(-128, 127),
            TensorKind::Uint8 => self.random.below(256),
            TensorKind::Int16 => 0,
            _ => return,
        };
        self.file.quantize(tensor, &[scale], &[i64::from(zero_point)], 0);
    }

    /// An input of random values, quantised at random.
    pub(crate) fn input(&mut self, kind: TensorKind, shape: &[i32]) -> i32 {
        let tensor = self.file.input("in", kind, shape);
        self.quantise(tensor, kind);
        let bytes = self.bytes(kind, shape);
        self.inputs.push(bytes);
        tensor
    }

    /// An input without quantisation, or with the one of another tensor set later.
    pub(crate) fn plain_input(&mut self, kind: TensorKind, shape: &[i32]) -> i32 {
        let tensor = self.file.input("in", kind, shape);
        let bytes = self.bytes(kind, shape);
        self.inputs.push(bytes);
        tensor
    }

    /// The shape that the file has for a result: now and then one that it does not have, as the
    /// interpreter reads none of them.
    fn stated(&mut self, shape: &[i32]) -> Vec<i32> {
        if self.random.below(10) == 0 { vec![1; shape.len()] } else { shape.to_vec() }
    }

    pub(crate) fn result(&mut self, kind: TensorKind, shape: &[i32]) -> i32 {
        let stated = self.stated(shape);
        let tensor = self.file.tensor("out", kind, &stated);
        self.quantise(tensor, kind);
        tensor
    }

    /// A result with one quantisation for it and the inputs that move into it; now and then with
    /// one each, as what is stored moves whatever it stands for.
    pub(crate) fn moved(&mut self, inputs: &[i32], kind: TensorKind, shape: &[i32]) -> i32 {
        let stated = self.stated(shape);
        let tensor = self.file.tensor("out", kind, &stated);
        let (scale, zero) = (self.random.real(0.001, 0.1), self.random.below(100));
        let zero = if kind == TensorKind::Int16 { 0 } else { i64::from(zero) };
        let has_own = self.random.below(10) == 0;
        if matches!(kind, TensorKind::Int8 | TensorKind::Uint8 | TensorKind::Int16) {
            for &one in inputs.iter().chain([&tensor]) {
                match has_own {
                    true => self.quantise(one, kind),
                    false => self.file.quantize(one, &[scale], &[zero], 0),
                }
            }
        }
        tensor
    }

    /// Adds the operator, whose results are the file's.
    pub(crate) fn operator(
        &mut self,
        name: &str,
        inputs: &[i32],
        outputs: &[i32],
        union: u8,
        fields: Fields,
    ) {
        self.file.operator_with(name, inputs, outputs, union, fields);
        self.file.outputs(outputs);
    }

    pub(crate) fn ints(&mut self, values: &[i32]) -> i32 {
        let count = i32::try_from(values.len()).unwrap_or(0);
        self.file.int_constant("ints", &[count], values)
    }
}

/// A field of one byte.
pub(crate) fn byte(slot: usize, value: i32) -> (usize, Value) {
    (slot, Value::I8(i8::try_from(value).unwrap_or(0)))
}

/// A field of 32 bits.
pub(crate) fn int(slot: usize, value: i32) -> (usize, Value) {
    (slot, Value::I32(value))
}

/// A field that is true or false.
pub(crate) fn flag(slot: usize, value: bool) -> (usize, Value) {
    (slot, Value::I8(i8::from(value)))
}
