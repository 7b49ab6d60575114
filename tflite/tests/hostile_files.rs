//! Files that lie: every one gives an error that names the field, or a model that keeps the rules.

#![expect(clippy::panic, reason = "a test outside #[test] functions")]

use nnburst_tflite::testing::{TfliteFile, Value, import_anything, write};
use nnburst_tflite::{FormatError, ImportError, Problem, TensorKind};
use proptest::prelude::*;

/// A small network with most kinds of fields: quantisation, options, constants, a state.
fn sample() -> TfliteFile {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Float32, &[1, 4, 4, 2]);
    let filter = file.constant("filter", TensorKind::Int8, &[3, 2, 2, 2], &[7; 24]);
    file.quantize(filter, &[0.5, 0.25, 0.125], &[0, 0, 0], 0);
    let convolved = file.tensor("convolved", TensorKind::Float32, &[1, 3, 3, 3]);
    let conv = vec![(0, Value::I8(1)), (1, Value::I32(1)), (2, Value::I32(1))];
    file.operator_with("CONV_2D", &[x, filter, -1], &[convolved], 1, conv);
    let shape = file.int_constant("shape", &[2], &[1, -1]);
    let flat = file.tensor("flat", TensorKind::Float32, &[1, 27]);
    file.operator("RESHAPE", &[convolved, shape], &[flat]);
    let weights = file.float_constant("weights", &[2, 27], &[0.1; 54]);
    let recurrent = file.float_constant("recurrent", &[2, 2], &[0.1; 4]);
    let bias = file.float_constant("bias", &[2], &[0.1; 2]);
    let state = file.tensor("state", TensorKind::Float32, &[1, 2]);
    file.variable(state);
    let y = file.tensor("y", TensorKind::Float32, &[1, 2]);
    let rnn = vec![(0, Value::I8(1))];
    file.operator_with("RNN", &[flat, weights, recurrent, bias, state], &[y], 7, rnn);
    file.outputs(&[y]);
    file
}

fn failure(bytes: &[u8]) -> FormatError {
    match import_anything(bytes) {
        Err(ImportError::Format(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_sample_is_a_model() {
    let imported = import_anything(&sample().build()).unwrap();
    assert_eq!(imported.states.len(), 1);
    assert_eq!(imported.states[0].info.name, "state");
    assert_eq!(imported.states[0].initial, [0; 8]);
    assert_eq!((imported.states[0].input, imported.states[0].output), (1, 1));
}

#[test]
fn every_truncation_ends_in_an_error_or_a_model() {
    let bytes = sample().build();
    let taken = (0..bytes.len()).filter(|&len| import_anything(&bytes[..len]).is_ok()).count();
    // Nothing but what pads the end may be missing.
    assert!(taken < 16, "{taken} truncations went unnoticed");
}

#[test]
fn what_is_wrong_is_named() {
    struct Case {
        what: &'static str,
        change: fn(&mut TfliteFile),
        field: &'static str,
    }
    let cases = [
        Case {
            what: "a tensor of a buffer that isn't there",
            change: |file| file.tensor_fields(0, vec![(2, Value::U32(99))]),
            field: "Tensor.buffer",
        },
        Case {
            what: "a negative extent",
            change: |file| file.tensor_fields(0, vec![(0, Value::ints(&[1, -7]))]),
            field: "Tensor.shape",
        },
        Case {
            what: "an operator on a tensor that isn't there",
            change: |file| file.operator("ABS", &[4711], &[0]),
            field: "Operator.inputs",
        },
        Case {
            what: "a result that is omitted",
            change: |file| file.operator("ABS", &[0], &[-1]),
            field: "Operator.outputs",
        },
        Case {
            what: "an operator code that isn't there",
            change: |file| {
                file.operator("ABS", &[0], &[0]);
                file.operator_fields(vec![(0, Value::U32(77))]);
            },
            field: "Operator.opcode_index",
        },
        Case {
            what: "options of another operator",
            change: |file| {
                let y = file.tensor("z", TensorKind::Float32, &[1, 4, 4, 2]);
                file.operator_with("ADD", &[0, 0], &[y], 6, vec![]);
            },
            field: "AddOptions",
        },
        Case {
            what: "an output that isn't there",
            change: |file| file.outputs(&[1000]),
            field: "SubGraph.outputs",
        },
    ];
    for Case { what, change, field } in cases {
        let mut file = sample();
        change(&mut file);
        // A field given twice is written twice, and the later one counts.
        assert_eq!(failure(&file.build()).field, field, "{what}");
    }
}

#[test]
fn broken_bytes_are_named() {
    let good = sample().build();
    let with = |at: usize, word: u32| {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        bytes
    };
    let root = u32::from_le_bytes(good[..4].try_into().unwrap()) as usize;
    assert_eq!(failure(b"").field, "file identifier");
    assert_eq!(
        failure(&with(4, 7)),
        FormatError { field: "file identifier", problem: Problem::Mismatch }
    );
    assert_eq!(
        failure(&with(0, u32::MAX)),
        FormatError { field: "root", problem: Problem::BadOffset { at: 0, offset: u32::MAX } }
    );
    // The offset from the table back to its vtable.
    assert_eq!(failure(&with(root, 0x7FFF_0000)).field, "root");
    assert_eq!(failure(&with(root, 0)).field, "root");
}

/// Thousands of entries that all lead to one table with a long vector: copied out, far more than
/// the file.
#[test]
fn amplification_is_refused() {
    let operator = vec![(1, Value::ints(&[0; 10_000])), (2, Value::ints(&[0]))];
    let graph = vec![(0, Value::Tables(vec![vec![]])), (3, Value::Repeated(5000, operator))];
    let model = vec![
        (0, Value::U32(3)),
        (1, Value::Tables(vec![vec![]])),
        (2, Value::Tables(vec![graph])),
        (4, Value::Tables(vec![vec![]])),
    ];
    let bytes = write(&model, *b"TFL3");
    let error = failure(&bytes);
    assert!(matches!(error.problem, Problem::Amplified { .. }), "{error}");
    assert!(error.field.starts_with("Operator"), "{error}");
}

/// Shapes and counts of 2^31 in places that size something.
#[test]
fn huge_figures_allocate_nothing() {
    const HUGE: i32 = i32::MAX;
    type Change = fn(&mut TfliteFile) -> (&'static str, Vec<i32>);
    let cases: [Change; 6] = [
        |file| {
            let dims = file.int_constant("dims", &[1], &[HUGE]);
            let value = file.float_constant("value", &[], &[1.0]);
            ("FILL", vec![dims, value])
        },
        |file| {
            let x = file.input("huge", TensorKind::Float32, &[HUGE]);
            let pads = file.int_constant("pads", &[1, 2], &[1, 1]);
            ("MIRROR_PAD", vec![x, pads])
        },
        |file| {
            let x = file.input("huge", TensorKind::Float32, &[HUGE]);
            let axes = file.int_constant("axes", &[1], &[0]);
            ("REVERSE_V2", vec![x, axes])
        },
        |file| {
            let x = file.input("huge", TensorKind::Float32, &[HUGE]);
            ("ZEROS_LIKE", vec![x])
        },
        |file| {
            let x = file.input("huge", TensorKind::Float32, &[1, HUGE]);
            let weights = file.input("weights", TensorKind::Float32, &[HUGE, HUGE]);
            ("FULLY_CONNECTED", vec![x, weights, -1])
        },
        |file| {
            let x = file.input("huge", TensorKind::Float32, &[HUGE, HUGE, HUGE]);
            let indexes = file.input("indexes", TensorKind::Int32, &[1, 2]);
            ("GATHER_ND", vec![x, indexes])
        },
    ];
    for change in cases {
        let mut file = TfliteFile::new();
        let (name, inputs) = change(&mut file);
        let y = file.tensor("y", TensorKind::Float32, &[HUGE]);
        file.operator(name, &inputs, &[y]);
        file.outputs(&[y]);
        let error = import_anything(&file.build()).unwrap_err();
        assert!(matches!(error, ImportError::Unsupported { .. }), "{name}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_any_kind_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = import_anything(&bytes);
        let mut named = b"\x08\0\0\0TFL3".to_vec();
        named.extend(bytes);
        let _ = import_anything(&named);
    }

    #[test]
    fn changed_files_are_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), interesting_word()), 1..6),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut bytes = sample().build();
        for (at, word) in changes {
            let at = at.index(bytes.len() - 4);
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = import_anything(&bytes);
    }
}

/// Words that bounds checks stumble over, and any other.
fn interesting_word() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u32::MAX),
        Just(0x7FFF_FFFF),
        Just(0x8000_0000),
        0..64u32,
        any::<u32>(),
    ]
}
