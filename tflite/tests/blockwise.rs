//! Dense layers and tables whose values have a scale for each block of elements.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/run.rs"]
mod once;
#[path = "common/plan.rs"]
mod plan;

use nnburst_executor::Plan;
use nnburst_executor::testing::through_a_cache;
use nnburst_hal::{Operation, OperationType};
use nnburst_tflite::testing::{TfliteFile, Value};
use nnburst_tflite::{ImportOptions, Imported, TensorKind};

const UNITS: usize = 3;
const DEPTH: usize = 8;
const BLOCK: usize = 4;

/// Half-precision scales, of blocks of `block` elements: 1, 1/2, 2, 1/4, 1, 1/2.
const SCALES: [(u16, f32); UNITS * DEPTH / BLOCK] =
    [(0x3C00, 1.0), (0x3800, 0.5), (0x4000, 2.0), (0x3400, 0.25), (0x3C00, 1.0), (0x3800, 0.5)];

fn weight(at: usize) -> i8 {
    i8::try_from(at * 5 % 16).unwrap() - 8
}

/// A dense layer of so many rows with 4-bit or 8-bit weights, which have `blocks` scales for each
/// unit.
struct Layer {
    rows: i32,
    kind: TensorKind,
    blocks: i32,
}

const LAYER: Layer = Layer { rows: 2, kind: TensorKind::Int4, blocks: 2 };

/// Adds weights, which are said to have blocks of this size and their scales in this tensor.
fn weights_of(file: &mut TfliteFile, kind: TensorKind, [blocks, block, scales]: [i32; 3]) -> i32 {
    let bytes: Vec<u8> = match kind {
        TensorKind::Int4 => (0..UNITS * DEPTH / 2)
            .map(|pair| [weight(2 * pair), weight(2 * pair + 1)].map(|it| it.cast_unsigned() & 15))
            .map(|[low, high]| low | high << 4)
            .collect(),
        _ => (0..UNITS * DEPTH).map(|at| weight(at).cast_unsigned()).collect(),
    };
    let weights = file.constant("weights", kind, &[3, 8], &bytes);
    let count = UNITS * usize::try_from(blocks).unwrap();
    let bytes: Vec<u8> = SCALES[..count].iter().flat_map(|(bits, _)| bits.to_le_bytes()).collect();
    file.constant("scales", TensorKind::Float16, &[3, blocks], &bytes);
    let details = vec![(0, Value::I32(scales)), (1, Value::I32(-1)), (2, Value::I32(block))];
    let quantization = vec![(4, Value::U8(2)), (5, Value::Table(details))];
    file.tensor_fields(weights, vec![(4, Value::Table(quantization))]);
    weights
}

/// The file of a layer that says of its blocks that they are of this size, and which tensor has
/// their scales.
fn file(Layer { rows, kind, blocks }: Layer, block: i32, scales: i32) -> TfliteFile {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Float32, &[rows, 8]);
    let weights = weights_of(&mut file, kind, [blocks, block, scales]);
    let y = file.tensor("y", TensorKind::Float32, &[rows, 3]);
    file.operator_with("FULLY_CONNECTED", &[x, weights, -1], &[y], 8, Vec::new());
    file.outputs(&[y]);
    file
}

#[test]
fn each_block_has_its_scale() {
    // Rows of 255 quarters from the least to the greatest, which lose nothing where they are
    // quantised on the fly.
    let row = |first: i8| [0, 255, 3, 77, 130, 12, 254, 99].map(|at| i16::from(first) + at);
    let x = [row(-128), row(-100)].concat();
    let x: Vec<f32> = x.into_iter().map(|quarters| f32::from(quarters) / 4.0).collect();
    for kind in [TensorKind::Int4, TensorKind::Int8] {
        for extension in [false, true] {
            let options = ImportOptions { extension, ..ImportOptions::default() };
            let file = file(Layer { kind, ..LAYER }, 4, 2).build();
            let imported = Imported::from_bytes_with(&file, options).unwrap();
            let is_own = |it: &Operation| matches!(it.kind, OperationType::Extension(_));
            assert_eq!(imported.model.main.operations.iter().any(is_own), extension);
            let plan = plan::compile(&imported).unwrap();
            let bytes: Vec<u8> = x.iter().flat_map(|value| value.to_le_bytes()).collect();
            let (outputs, _) = once::run(&mut plan.session(), &imported, &[&bytes], &[]);
            let got = outputs[0].as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
            for (at, got) in got.enumerate() {
                let (row, unit) = (at / UNITS, at % UNITS);
                let products = (0..DEPTH).map(|i| {
                    let of = unit * DEPTH + i;
                    x[row * DEPTH + i] * f32::from(weight(of)) * SCALES[of / BLOCK].1
                });
                let want: f32 = products.sum();
                assert!((got - want).abs() < 1e-3, "{kind:?} {at}: {got}, not {want}");
            }
        }
    }
}

#[test]
fn rows_that_are_looked_up_have_scales_of_blocks() {
    for kind in [TensorKind::Int4, TensorKind::Int8] {
        for extension in [false, true] {
            let mut file = TfliteFile::new();
            let lookups = file.input("lookups", TensorKind::Int32, &[2]);
            let table = weights_of(&mut file, kind, [2, 4, 2]);
            let y = file.tensor("y", TensorKind::Float32, &[2, 8]);
            file.operator("EMBEDDING_LOOKUP", &[lookups, table], &[y]);
            file.outputs(&[y]);
            let options = ImportOptions { extension, ..ImportOptions::default() };
            let imported = Imported::from_bytes_with(&file.build(), options).unwrap();
            let is_own = |it: &Operation| matches!(it.kind, OperationType::Extension(_));
            assert_eq!(imported.model.main.operations.iter().any(is_own), extension);
            let plan = plan::compile(&imported).unwrap();
            let rows = [2i32, 0].map(i32::to_le_bytes).concat();
            let (outputs, _) = once::run(&mut plan.session(), &imported, &[&rows], &[]);
            let got = outputs[0].as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
            let places = [2, 0].into_iter().flat_map(|row| row * DEPTH..(row + 1) * DEPTH);
            let want = places.map(|at| f32::from(weight(at)) * SCALES[at / BLOCK].1);
            assert!(got.eq(want), "{kind:?}, by the extension: {extension}");
        }
    }
}

/// What a cache keeps of the constants must be enough for all that is made of them: for a row of
/// its own by 4-bit weights, and for several.
#[test]
fn a_layer_from_a_cache_computes_what_it_did() {
    for (rows, blocks) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
        let options = ImportOptions { extension: true, ..ImportOptions::default() };
        let file = file(Layer { rows, blocks, ..LAYER }, 8 / blocks, 2).build();
        let imported = Imported::from_bytes_with(&file, options).unwrap();
        let plan = plan::compile(&imported).unwrap();
        let (restored, _) = through_a_cache(&plan, &imported.model, &plan::options()).unwrap();
        let x = (0..8 * rows).map(|at| f32::from(i16::try_from(at * 7 % 11).unwrap()) - 4.25);
        let bytes: Vec<u8> = x.flat_map(f32::to_le_bytes).collect();
        let run = |plan: &Plan| once::run(&mut plan.session(), &imported, &[&bytes], &[]).0;
        let want = run(&plan);
        assert!(want[0].iter().any(|&byte| byte != 0), "a result worth comparing");
        assert_eq!(run(&restored), want, "{rows} rows, {blocks} blocks");
    }
}

#[test]
fn broken_blocks_are_refused() {
    for (block, scales) in
        [(0, 2), (-4, 2), (3, 2), (8, 2), (i32::MAX, 2), (4, -1), (4, 99), (4, 0)]
    {
        let file = file(LAYER, block, scales).build();
        let why = Imported::from_bytes(&file).unwrap_err().to_string();
        assert!(why.contains("has scales of blocks"), "{why}");
    }
}
