//! Lists that a loop writes item by item, as TensorFlow's recurrent layers do.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/plan.rs"]
mod plan;

use nnburst_executor::{Control, Input, Output};
use nnburst_hal::{OperationType, View, ViewMut};
use nnburst_tflite::testing::{TfliteFile, Value};
use nnburst_tflite::{ImportOptions, Imported, ModelFile, TensorKind};

const F32: TensorKind = TensorKind::Float32;
const I32: TensorKind = TensorKind::Int32;

/// How many items the list has.
const ITEMS: i32 = 12;

/// The item behind `i`, from which the rest of the list is taken.
#[derive(Clone, Copy, PartialEq)]
enum Behind {
    Next,
    /// One more is left out, so that nothing is written in place.
    AfterNext,
}

/// A loop whose iteration `i` makes item `i` of a list the item `[i, -i]` of another.
fn file(behind: Behind) -> TfliteFile {
    let mut file = TfliteFile::new();
    let given = file.input("given", F32, &[ITEMS, 2]);
    let first = file.int_constant("first", &[], &[0]);
    let zeros = file.float_constant("zeros", &[ITEMS, 2], &[0.0; 2 * ITEMS as usize]);
    let last = file.tensor("last", I32, &[]);
    let [list, same] = ["list", "same"].map(|name| file.tensor(name, F32, &[ITEMS, 2]));
    let graphs = vec![(0, Value::I32(1)), (1, Value::I32(2))];
    file.operator_with("WHILE", &[first, zeros, given], &[last, list, same], 93, graphs);
    file.outputs(&[list]);

    let arguments = |file: &mut TfliteFile| {
        let list = |file: &mut TfliteFile, name| file.input(name, F32, &[ITEMS, 2]);
        [file.input("i", I32, &[]), list(file, "list"), list(file, "given")]
    };
    file.next_graph();
    let [i, ..] = arguments(&mut file);
    let limit = file.int_constant("limit", &[], &[if behind == Behind::Next { ITEMS } else { 1 }]);
    let goes_on = file.tensor("goes on", TensorKind::Bool, &[]);
    file.operator("LESS", &[i, limit], &[goes_on]);
    file.outputs(&[goes_on]);

    file.next_graph();
    let [i, list, given] = arguments(&mut file);
    let one = file.int_constant("one", &[], &[1]);
    let next = file.tensor("next", I32, &[]);
    file.operator_with("ADD", &[i, one], &[next], 11, Vec::new());
    let from = match behind {
        Behind::Next => next,
        Behind::AfterNext => {
            let after = file.tensor("after", I32, &[]);
            file.operator_with("ADD", &[next, one], &[after], 11, Vec::new());
            after
        }
    };
    let row = file.tensor("row", F32, &[2]);
    file.operator_with("GATHER", &[given, i], &[row], 23, Vec::new());
    let item = file.tensor("item", F32, &[1, 2]);
    let whole = file.int_constant("whole", &[2], &[1, 2]);
    file.operator("RESHAPE", &[row, whole], &[item]);
    let length = file.int_constant("length", &[1], &[1]);
    let place = |file: &mut TfliteFile, number, rest| {
        let [single, both] = [1, 2].map(|count| file.tensor("place", I32, &[count]));
        let rest = file.int_constant("rest", &[1], &[rest]);
        file.operator("RESHAPE", &[number, length], &[single]);
        file.operator_with("CONCATENATION", &[single, rest], &[both], 10, Vec::new());
        both
    };
    let (sizes, begins) = (place(&mut file, i, -1), place(&mut file, from, 0));
    let [zeros, rest] = [0, -1].map(|value| file.int_constant("bounds", &[2], &[value; 2]));
    // As converters write what has another size in each iteration.
    let [before, behind] = ["before", "behind"].map(|name| {
        let tensor = file.tensor(name, F32, &[1, 2]);
        file.tensor_fields(tensor, vec![(7, Value::ints(&[-1, 2]))]);
        tensor
    });
    file.operator("SLICE", &[list, zeros, sizes], &[before]);
    file.operator("SLICE", &[list, begins, rest], &[behind]);
    let written = file.tensor("written", F32, &[ITEMS, 2]);
    file.operator_with("CONCATENATION", &[before, item, behind], &[written], 10, Vec::new());
    file.outputs(&[next, written, given]);
    file
}

/// Imports the file for so many items to choose from.
fn import(behind: Behind, given: u32) -> Imported {
    let options = ImportOptions { extension: true, ..ImportOptions::default() };
    let mut file = ModelFile::from_bytes(file(behind).build());
    file.resize("given", &[given, 2]).unwrap();
    file.import(options).unwrap()
}

fn run(imported: &Imported, given: &[u8]) -> Vec<u8> {
    let plan = plan::compile(imported).unwrap();
    let mut list = vec![0; 8 * ITEMS as usize];
    let output = Output::new(ViewMut::of(&mut list));
    let input = Input::new(View::of(given));
    plan.session().run(&[input], &[output], &Control::default()).unwrap();
    list
}

fn slices(imported: &Imported) -> usize {
    let operations = &imported.model.referenced[1].operations;
    operations.iter().filter(|it| it.kind == OperationType::Slice).count()
}

#[test]
fn items_are_written_in_place() {
    for count in [ITEMS, ITEMS + 5] {
        let rows = (0..count).flat_map(|i| [i as f32, -i as f32]);
        let given: Vec<u8> = rows.flat_map(f32::to_le_bytes).collect();
        let imported = import(Behind::Next, count.cast_unsigned());
        assert_eq!(slices(&imported), 0);
        assert_eq!(run(&imported, &given), given[..8 * ITEMS as usize]);
    }
}

#[test]
fn what_is_no_item_of_a_list_is_joined() {
    assert_eq!(slices(&import(Behind::AfterNext, ITEMS.cast_unsigned())), 2);
}
