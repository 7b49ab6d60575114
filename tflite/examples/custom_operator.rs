//! A custom operator of one's own, from the file to the kernel: `Cube`, which gives
//! `gain * x * x * x`, by an operation of a vendor extension.
//!
//! ```text
//!   cargo run -p nnburst-tflite --example custom_operator
//! ```

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use nnburst_executor::{
    CompileOptions, Control, ExtensionExecutor, ExtensionRegistry, Input, Isa, Label, Lowered,
    OpBuilder, OpError, Output, Plan, Words,
};
use nnburst_hal::{View, ViewMut};
use nnburst_tflite::testing::TfliteFile;
use nnburst_tflite::{
    CustomCall, CustomOperator, CustomOperators, ImportOptions, ModelFile, TensorKind,
};

const EXTENSION: &str = "com.example.cube";
const CUBE: u16 = 0;

/// The importer's side: options of the file become an operand.
#[derive(Debug)]
struct CubeImporter;

impl CustomOperator for CubeImporter {
    fn extension(&self) -> Option<&str> {
        Some(EXTENSION)
    }

    fn import(&self, call: &mut CustomCall<'_, '_>) -> Result<(), String> {
        let gain = call.options().first_chunk().copied().map(f32::from_le_bytes);
        let gain = gain.ok_or("its options are no FLOAT32")?;
        let (x, gain, y) = (call.input(0)?, call.float(gain), call.output(0)?);
        call.extension_operation(CUBE, &[x, gain], &[y])
    }
}

/// The driver's side.
struct CubeExecutor;

impl ExtensionExecutor for CubeExecutor {
    fn lower(&self, number: u16, op: &mut OpBuilder<'_>) -> Lowered {
        if number != CUBE {
            return Err(OpError::rule(format!("there is no operation {number}")).into());
        }
        let (shape, gain) = (op.input(0)?.shape, op.f32(1)?);
        let label = Label {
            kernel: "cube",
            form: Isa::Scalar,
            shape: Words::new(|f| write!(f, "f32")),
            operations: 3 * u64::try_from(shape.elements()).unwrap_or(u64::MAX),
        };
        op.set_output(0, shape)?;
        op.emit(label, move |io| {
            io.output::<f32>(0).fill(io.input::<f32>(0).iter().map(|x| gain * x * x * x));
            Ok(())
        });
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Float32, &[3]);
    let y = file.tensor("y", TensorKind::Float32, &[3]);
    file.custom_operator("Cube", &[x], &[y], &0.5f32.to_le_bytes());
    file.outputs(&[y]);

    let mut operators = CustomOperators::default();
    operators.register("Cube", Arc::new(CubeImporter));
    let mut file = ModelFile::from_bytes(file.build());
    file.set_custom_operators(operators);
    let imported = file.import(ImportOptions::default())?;

    let mut extensions = ExtensionRegistry::default();
    extensions.register(EXTENSION, Arc::new(CubeExecutor));
    let options = CompileOptions { extensions, ..CompileOptions::default() };
    let plan = Plan::compile(&imported.model, &options)?;
    let given: Vec<u8> = [1.0, 2.0, -3.0f32].iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut taken = vec![0; given.len()];
    plan.session().run(
        &[Input::new(View::of(&given))],
        &[Output::new(ViewMut::of(&mut taken))],
        &Control::default(),
    )?;
    let cubes: Vec<f32> =
        taken.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    writeln!(std::io::stdout(), "{cubes:?}")?;
    if cubes != [0.5, 4.0, -13.5] {
        return Err("these are no cubes".into());
    }
    Ok(())
}
