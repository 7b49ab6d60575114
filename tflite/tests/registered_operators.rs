//! Custom operators that a program imports itself.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/run.rs"]
mod once;

use std::sync::Arc;

use nnburst_executor::{CompileOptions, Plan};
use nnburst_hal::{Operand, OperandType, OperationType};
use nnburst_tflite::testing::TfliteFile;
use nnburst_tflite::{
    CustomCall, CustomOperator, CustomOperators, ImportError, ImportOptions, Imported, ModelFile,
    Route, TensorKind,
};

const F32: TensorKind = TensorKind::Float32;

/// `x * logistic(x) + constant`, by NNAPI's operations.
#[derive(Debug)]
struct Swish;

impl CustomOperator for Swish {
    fn import(&self, call: &mut CustomCall<'_, '_>) -> Result<(), String> {
        if call.input_count() != 2 || call.has_input(2) || call.number("x").is_some() {
            return Err("it has two inputs, and no map of options".into());
        }
        let constant = call.constant(1).ok_or("its second input is no constant")?.to_vec();
        let x = call.input(0)?;
        let dims = call.operand(x)?.dimensions.clone();
        let gate = call.like(x)?;
        call.operation(OperationType::Logistic, &[x], &[gate])?;
        let no_activation = call.int(0);
        let product = call.temporary(OperandType::TensorFloat32, &dims);
        call.operation(OperationType::Mul, &[x, gate, no_activation], &[product])?;
        let y = call.output(0)?;
        let more = call.tensor(Operand::float32([1]), &constant)?;
        call.operation(OperationType::Add, &[product, more, no_activation], &[y])
    }
}

/// What goes wrong on the way.
#[derive(Debug)]
enum Broken {
    NoResult,
    WrongSignature,
    NoExtension,
    ShortConstant,
    NoInput,
}

impl CustomOperator for Broken {
    fn import(&self, call: &mut CustomCall<'_, '_>) -> Result<(), String> {
        let x = call.input(0)?;
        match self {
            Self::NoResult => Ok(()),
            Self::WrongSignature => {
                let y = call.output(0)?;
                call.operation(OperationType::Add, &[x], &[y])
            }
            Self::NoExtension => {
                let y = call.output(0)?;
                call.extension_operation(3, &[x], &[y])
            }
            Self::ShortConstant => call.tensor(Operand::float32([4]), &[0; 3]).map(drop),
            Self::NoInput => call.input(7).map(drop),
        }
    }
}

/// An operation of an extension.
#[derive(Debug)]
struct OfExtension(&'static str);

impl CustomOperator for OfExtension {
    fn extension(&self) -> Option<&str> {
        Some(self.0)
    }

    fn import(&self, call: &mut CustomCall<'_, '_>) -> Result<(), String> {
        let (x, y) = (call.input(0)?, call.output(0)?);
        call.extension_operation(9, &[x], &[y])
    }
}

fn file(names: &[&str]) -> Vec<u8> {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[3]);
    let more = file.float_constant("more", &[1], &[0.25]);
    let mut now = x;
    for name in names {
        let next = file.tensor("y", F32, &[3]);
        file.custom_operator(name, &[now, more], &[next], b"no map");
        now = next;
    }
    file.outputs(&[now]);
    file.build()
}

fn import(
    names: &[&str],
    operators: Vec<(&str, Arc<dyn CustomOperator>)>,
) -> Result<Imported, ImportError> {
    let mut registry = CustomOperators::default();
    for (name, operator) in operators {
        assert!(registry.register(name, operator).is_none());
    }
    let mut file = ModelFile::from_bytes(file(names));
    file.set_custom_operators(registry);
    file.import(ImportOptions { extension: true, ..ImportOptions::default() })
}

#[test]
fn an_operator_becomes_what_the_program_makes_of_it() {
    let imported = import(&["Swish", "Swish"], vec![("Swish", Arc::new(Swish))]).unwrap();
    assert_eq!(imported.routes, [Route::Program, Route::Program]);
    assert_eq!(imported.sources, [0, 0, 0, 1, 1, 1]);
    let plan = Plan::compile(&imported.model, &CompileOptions::default()).unwrap();
    let xs = [-1.0, 0.0, 2.5f32];
    let bytes: Vec<u8> = xs.iter().flat_map(|x| x.to_le_bytes()).collect();
    let (outputs, _) = once::run(&mut plan.session(), &imported, &[&bytes], &[]);
    let swish = |x: f32| x / (1.0 + (-x).exp()) + 0.25;
    for (found, x) in outputs[0].as_chunks().0.iter().zip(xs) {
        let (found, want) = (f32::from_le_bytes(*found), swish(swish(x)));
        assert!((found - want).abs() < 1e-5, "{found} for {want}");
    }
}

#[test]
fn a_program_s_operator_comes_before_the_importer_s_own() {
    let name = "Convolution2DTransposeBias";
    let imported = import(&[name], vec![(name, Arc::new(Swish))]).unwrap();
    assert_eq!(imported.routes, [Route::Program]);
}

#[test]
fn extensions_have_a_prefix_each() {
    let operators: Vec<(&str, Arc<dyn CustomOperator>)> = vec![
        ("A", Arc::new(OfExtension("com.example.b"))),
        ("B", Arc::new(OfExtension("com.example.a"))),
        ("C", Arc::new(OfExtension("dev.nnburst.tflite"))),
        ("D", Arc::new(OfExtension("com.example.unused"))),
    ];
    let imported = import(&["A", "B", "C", "A"], operators).unwrap();
    let names = &imported.model.extension_name_to_prefix;
    let mut found: Vec<&str> = names.iter().map(|it| it.name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["com.example.a", "com.example.b", "dev.nnburst.tflite"]);
    let of = |at: usize| {
        let OperationType::Extension(code) = imported.model.main.operations[at].kind else {
            unreachable!("an operation of NNAPI")
        };
        let name = names.iter().find(|it| it.prefix == code.prefix).unwrap();
        (name.name.as_str(), code.number)
    };
    let want = ["com.example.b", "com.example.a", "dev.nnburst.tflite", "com.example.b"];
    assert_eq!([0, 1, 2, 3].map(of), want.map(|name| (name, 9)));
}

#[test]
fn what_a_program_gets_wrong_is_reported() {
    for (operator, why) in [
        (Broken::NoResult, "no value to one of its results"),
        (Broken::WrongSignature, "ADD"),
        (Broken::NoExtension, "the operator has no extension"),
        (Broken::ShortConstant, "3 bytes for an operand of Some(16)"),
        (Broken::NoInput, "input 7 is missing"),
    ] {
        let what = format!("{operator:?}");
        let error = import(&["Odd"], vec![("Odd", Arc::new(operator))]).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("CUSTOM Odd"), "{what}: {error}");
    }
}
