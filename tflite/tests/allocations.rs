//! What an import takes from the allocator: in proportion to the file, whatever the file says.

use nnburst_hal::testing::CountingAllocator;
use nnburst_tflite::testing::{TfliteFile, Value, import_anything};
use nnburst_tflite::{ImportError, TensorKind};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The most bytes that an import took at a time.
fn peak(bytes: &[u8]) -> (usize, Result<(), ImportError>) {
    CountingAllocator::peak_of(|| import_anything(bytes).map(drop))
}

/// A recurrent network with a state of `units`.
fn recurrent(units: i32) -> TfliteFile {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Float32, &[1, 2]);
    let weights = file.float_constant("weights", &[2, 2], &[0.1; 4]);
    let recurrent = file.float_constant("recurrent", &[2, 2], &[0.1; 4]);
    let bias = file.float_constant("bias", &[2], &[0.1; 2]);
    let state = file.tensor("state", TensorKind::Float32, &[1, 2]);
    file.variable(state);
    let y = file.tensor("y", TensorKind::Float32, &[1, 2]);
    let rnn = vec![(0, Value::I8(1))];
    file.operator_with("RNN", &[x, weights, recurrent, bias, state], &[y], 7, rnn);
    if units != 2 {
        let large = file.tensor("large", TensorKind::Float32, &[1, units]);
        file.variable(large);
        let sum = file.tensor("sum", TensorKind::Float32, &[1, units]);
        file.operator("ABS", &[large], &[sum]);
    }
    file.outputs(&[y]);
    file
}

#[test]
fn an_import_takes_memory_in_proportion_to_the_file() {
    let most = |bytes: &[u8]| 16 * bytes.len() + (1 << 20);
    let good = recurrent(2).build();
    let (taken, imported) = peak(&good);
    assert!(imported.is_ok() && taken <= most(&good), "{taken}: {imported:?}");
    for units in [1 << 20, 1 << 28, i32::MAX] {
        let bytes = recurrent(units).build();
        let (taken, imported) = peak(&bytes);
        assert!(taken <= most(&bytes), "{units} units took {taken}: {imported:?}");
        let error = imported.unwrap_err().to_string();
        let why = ["variable tensor", "no fixed shape"];
        assert!(why.iter().any(|why| error.contains(why)), "{units}: {error}");
    }
    // Every word of a file as the largest number of several sizes.
    for at in (0..good.len() - 4).step_by(2) {
        for word in [0x7fff_ffffu32, 0x1000_0000, 0x0010_0000, 0xffff_ffff] {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            let (taken, imported) = peak(&bytes);
            assert!(taken <= most(&bytes), "byte {at}, {word:x}: took {taken}: {imported:?}");
        }
    }
}
