//! Graphs that operators refer to, and variables with a name.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/run.rs"]
mod once;
#[path = "common/plan.rs"]
mod plan;

use nnburst_tflite::testing::{TfliteFile, Value};
use nnburst_tflite::{ImportOptions, Imported, TensorKind};

const F32: TensorKind = TensorKind::Float32;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn import(file: &TfliteFile, extension: bool) -> Imported {
    let options = ImportOptions { extension, ..ImportOptions::default() };
    Imported::from_bytes_with(&file.build(), options).unwrap()
}

/// The sum of a tensor with itself, or its negative.
fn branches() -> TfliteFile {
    let mut file = TfliteFile::new();
    let condition = file.input("condition", TensorKind::Bool, &[]);
    let x = file.input("x", F32, &[2]);
    let y = file.tensor("y", F32, &[2]);
    let graphs = vec![(0, Value::I32(1)), (1, Value::I32(2))];
    file.operator_with("IF", &[condition, x], &[y], 92, graphs);
    file.outputs(&[y]);
    for name in ["ADD", "NEG"] {
        file.next_graph();
        let x = file.input("x", F32, &[2]);
        let y = file.tensor("y", F32, &[2]);
        let inputs = if name == "ADD" { vec![x, x] } else { vec![x] };
        file.operator(name, &inputs, &[y]);
        file.outputs(&[y]);
    }
    file
}

#[test]
fn a_condition_chooses_a_graph() {
    for extension in [false, true] {
        let imported = import(&branches(), extension);
        assert_eq!(imported.model.referenced.len(), 2);
        let plan = plan::compile(&imported).unwrap();
        for (condition, want) in [(1, [3.0, -4.0]), (0, [-1.5, 2.0])] {
            let x = bytes(&[1.5, -2.0]);
            let (outputs, _) = once::run(&mut plan.session(), &imported, &[&[condition], &x], &[]);
            assert_eq!(floats(&outputs[0]), want, "extension {extension}");
        }
    }
}

/// Doubles a tensor as often as a counter of this type goes below 5.
fn doubling(kind: TensorKind) -> TfliteFile {
    let five = |file: &mut TfliteFile, value: i64| match kind {
        TensorKind::Int64 => file.constant("limit", kind, &[], &value.to_le_bytes()),
        _ => file.int_constant("limit", &[], &[i32::try_from(value).unwrap()]),
    };
    let mut file = TfliteFile::new();
    let variables =
        |file: &mut TfliteFile| [file.input("i", kind, &[]), file.input("x", F32, &[2])];
    let [i, x] = variables(&mut file);
    let (count, y) = (file.tensor("count", kind, &[]), file.tensor("y", F32, &[2]));
    let graphs = vec![(0, Value::I32(1)), (1, Value::I32(2))];
    file.operator_with("WHILE", &[i, x], &[count, y], 93, graphs);
    file.outputs(&[count, y]);

    file.next_graph();
    let [i, _] = variables(&mut file);
    let (limit, goes_on) = (five(&mut file, 5), file.tensor("goes on", TensorKind::Bool, &[]));
    file.operator("LESS", &[i, limit], &[goes_on]);
    file.outputs(&[goes_on]);

    file.next_graph();
    let [i, x] = variables(&mut file);
    let (one, next) = (five(&mut file, 1), file.tensor("next", kind, &[]));
    let y = file.tensor("y", F32, &[2]);
    file.operator("ADD", &[i, one], &[next]);
    file.operator("ADD", &[x, x], &[y]);
    file.outputs(&[next, y]);
    file
}

#[test]
fn loops_go_on_while_their_condition_holds() {
    for (kind, extension) in
        [(TensorKind::Int32, false), (TensorKind::Int32, true), (TensorKind::Int64, true)]
    {
        let imported = import(&doubling(kind), extension);
        let plan = plan::compile(&imported).unwrap();
        for (first, want) in [(2i32, 8.0), (7, 1.0)] {
            let inputs = [first.to_le_bytes().to_vec(), bytes(&[1.0, -1.0])];
            let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let (outputs, _) = once::run(&mut plan.session(), &imported, &inputs, &[]);
            assert_eq!(outputs[0], first.max(5).to_le_bytes(), "{kind:?}");
            assert_eq!(floats(&outputs[1]), [want, -want], "{kind:?}, extension {extension}");
        }
    }
}

/// A condition that operators compute, and scalars of which the file doesn't say that they have
/// no dimensions.
#[test]
fn a_computed_scalar_is_a_condition() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 1]);
    let least = file.float_constant("least", &[], &[0.5]);
    let greater = file.tensor("greater", TensorKind::Bool, &[1, 1]);
    file.operator("GREATER", &[x, least], &[greater]);
    let shape = file.tensor("shape", TensorKind::Int32, &[0]);
    let condition = file.tensor("condition", TensorKind::Bool, &[]);
    file.operator("RESHAPE", &[greater, shape], &[condition]);
    let y = file.tensor("y", F32, &[1, 1]);
    let graphs = vec![(0, Value::I32(1)), (1, Value::I32(2))];
    file.operator_with("IF", &[condition, x], &[y], 92, graphs);
    file.outputs(&[y]);
    for name in ["ADD", "NEG"] {
        file.next_graph();
        let x = file.input("x", F32, &[1, 1]);
        let y = file.tensor("y", F32, &[1, 1]);
        let inputs = if name == "ADD" { vec![x, x] } else { vec![x] };
        file.operator(name, &inputs, &[y]);
        file.outputs(&[y]);
    }
    let imported = import(&file, true);
    let plan = plan::compile(&imported).unwrap();
    for (x, want) in [(2.0, 4.0), (0.25, -0.25)] {
        let (outputs, _) = once::run(&mut plan.session(), &imported, &[&bytes(&[x])], &[]);
        assert_eq!(floats(&outputs[0]), [want]);
    }
}

/// A graph that takes itself for its branch.
#[test]
fn graphs_that_lead_in_circles_are_refused() {
    let mut file = TfliteFile::new();
    let condition = file.input("condition", TensorKind::Bool, &[]);
    let y = file.tensor("y", TensorKind::Bool, &[]);
    let graphs = vec![(0, Value::I32(0)), (1, Value::I32(0))];
    file.operator_with("IF", &[condition, condition], &[y], 92, graphs);
    file.outputs(&[y]);
    for extension in [false, true] {
        let options = ImportOptions { extension, ..ImportOptions::default() };
        let why = Imported::from_bytes_with(&file.build(), options).unwrap_err().to_string();
        assert!(why.contains("too deep"), "{why}");
    }
}

/// Branches of branches, a hundred to each graph and none with anything to do: without a limit they
/// take 10^16 steps.
#[test]
fn graphs_that_multiply_are_refused() {
    let mut file = TfliteFile::new();
    for graph in 1..=7 {
        let (condition, x) =
            (file.input("condition", TensorKind::Bool, &[]), file.input("x", F32, &[2]));
        let mut last = x;
        for _ in 0..100 {
            let y = file.tensor("y", F32, &[2]);
            let graphs = vec![(0, Value::I32(graph)), (1, Value::I32(graph))];
            file.operator_with("IF", &[condition, condition, last], &[y], 92, graphs);
            last = y;
        }
        file.outputs(&[last]);
        file.next_graph();
    }
    file.input("condition", TensorKind::Bool, &[]);
    let x = file.input("x", F32, &[2]);
    (0..1000).for_each(|_| {
        file.tensor("unused", F32, &[2]);
    });
    file.outputs(&[x]);
    for extension in [false, true] {
        let options = ImportOptions { extension, ..ImportOptions::default() };
        let why = Imported::from_bytes_with(&file.build(), options).unwrap_err().to_string();
        assert!(why.contains("too many operations"), "{why}");
    }
}

/// Adds an input to a variable that starts with a constant.
#[test]
fn variables_keep_their_value_from_one_execution_to_the_next() {
    let handle = |file: &mut TfliteFile| {
        let handle = file.tensor("handle", TensorKind::Resource, &[]);
        let fields = vec![(0, Value::text("")), (1, Value::text("total"))];
        file.operator_with("VAR_HANDLE", &[], &[handle], 111, fields);
        handle
    };
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[2]);
    file.operator_with("CALL_ONCE", &[], &[], 103, vec![(0, Value::I32(1))]);
    let total = handle(&mut file);
    let (before, after) = (file.tensor("before", F32, &[2]), file.tensor("after", F32, &[2]));
    file.operator("READ_VARIABLE", &[total], &[before]);
    file.operator("ADD", &[before, x], &[after]);
    file.operator("ASSIGN_VARIABLE", &[total, after], &[]);
    file.outputs(&[after]);
    file.next_graph();
    let total = handle(&mut file);
    let first = file.float_constant("first", &[2], &[10.0, 20.0]);
    file.operator("ASSIGN_VARIABLE", &[total, first], &[]);

    let contents = nnburst_tflite::ModelFile::from_bytes(file.build()).contents().unwrap();
    assert!(contents.has_own_variables, "the other graph initialises them");
    let imported = import(&file, false);
    let [state] = &imported.states[..] else { panic!("{} states", imported.states.len()) };
    assert_eq!((state.info.name.as_str(), floats(&state.initial)), ("/total", vec![10.0, 20.0]));
    let plan = plan::compile(&imported).unwrap();
    let mut states = vec![state.initial.clone()];
    for want in [[11.0, 22.0], [12.0, 24.0]] {
        let x = bytes(&[1.0, 2.0]);
        let (outputs, next) = once::run(&mut plan.session(), &imported, &[&x], &states);
        assert_eq!(floats(&outputs[0]), want);
        states = next;
    }
}

fn handle(file: &mut TfliteFile) -> i32 {
    let handle = file.tensor("handle", TensorKind::Resource, &[]);
    let fields = vec![(0, Value::text("")), (1, Value::text("total"))];
    file.operator_with("VAR_HANDLE", &[], &[handle], 111, fields);
    handle
}

/// A graph that gives the variable a value to start with: as often as there is room for it.
fn filled(file: &mut TfliteFile, extents: &[i32], times: usize) {
    file.next_graph();
    let total = handle(file);
    let extents = file.int_constant("extents", &[1], extents);
    let half = file.float_constant("half", &[], &[0.5]);
    for _ in 0..times {
        let first = file.tensor("first", F32, &[2]);
        file.operator("FILL", &[extents, half], &[first]);
        file.operator("ASSIGN_VARIABLE", &[total, first], &[]);
    }
}

/// What a variable and `x` sum up to, in a branch or in a loop whose counter the branch's condition
/// is; the handle comes from around the graph or from within it.
fn summing_within(is_loop: bool, is_given: bool, extents: &[i32], times: usize) -> TfliteFile {
    let mut file = TfliteFile::new();
    let counter = if is_loop { TensorKind::Int32 } else { TensorKind::Bool };
    let first = file.input("first", counter, &[1]);
    let x = file.input("x", F32, &[2]);
    file.operator_with("CALL_ONCE", &[], &[], 103, vec![(0, Value::I32(1))]);
    let mut given = vec![first, x];
    let y = file.tensor("y", F32, &[2]);
    let mut results = vec![y];
    if is_given {
        given.push(handle(&mut file));
    }
    let graphs = vec![(0, Value::I32(2)), (1, Value::I32(3))];
    if is_loop {
        results.insert(0, file.tensor("count", counter, &[1]));
        if is_given {
            results.push(file.tensor("handle", TensorKind::Resource, &[]));
        }
        file.operator_with("WHILE", &given, &results, 93, graphs);
    } else {
        file.operator_with("IF", &given, &results, 92, graphs);
    }
    file.outputs(&[y]);
    filled(&mut file, extents, times);
    let begin = |file: &mut TfliteFile| {
        file.next_graph();
        let count = is_loop.then(|| file.input("i", counter, &[1]));
        let x = file.input("x", F32, &[2]);
        let total = is_given.then(|| file.input("handle", TensorKind::Resource, &[]));
        (count, x, total)
    };
    let sum = |file: &mut TfliteFile, x: i32, total: Option<i32>| {
        let total = total.unwrap_or_else(|| handle(file));
        let (before, after) = (file.tensor("before", F32, &[2]), file.tensor("after", F32, &[2]));
        file.operator("READ_VARIABLE", &[total], &[before]);
        file.operator("ADD", &[before, x], &[after]);
        file.operator("ASSIGN_VARIABLE", &[total, after], &[]);
        (after, total)
    };
    if is_loop {
        let (count, ..) = begin(&mut file);
        let limit = file.int_constant("limit", &[1], &[2]);
        let goes_on = file.tensor("goes on", TensorKind::Bool, &[1]);
        file.operator("LESS", &[count.unwrap(), limit], &[goes_on]);
        file.outputs(&[goes_on]);
        let (count, x, total) = begin(&mut file);
        let one = file.int_constant("one", &[1], &[1]);
        let next = file.tensor("next", counter, &[1]);
        file.operator("ADD", &[count.unwrap(), one], &[next]);
        let (_, total) = sum(&mut file, x, total);
        let all = [next, x, total];
        file.outputs(if is_given { &all } else { &all[..2] });
    } else {
        let (_, x, total) = begin(&mut file);
        let (after, _) = sum(&mut file, x, total);
        file.outputs(&[after]);
        let (_, x, _) = begin(&mut file);
        file.outputs(&[x]);
    }
    file
}

/// The value of the only state, after executions with each of these first inputs.
fn state_after(file: &TfliteFile, firsts: &[&[u8]]) -> Vec<f32> {
    let imported = import(file, true);
    assert_eq!(imported.states.len(), 1);
    let state = &imported.states[0];
    assert_eq!((state.info.name.as_str(), floats(&state.initial)), ("/total", vec![0.5, 0.5]));
    let plan = plan::compile(&imported).unwrap();
    let mut states = vec![state.initial.clone()];
    for first in firsts {
        let x = bytes(&[1.0, 2.0]);
        (_, states) = once::run(&mut plan.session(), &imported, &[first, &x], &states);
    }
    floats(&states[0])
}

#[test]
fn branches_and_loops_change_variables() {
    for is_given in [false, true] {
        let branch = summing_within(false, is_given, &[2], 1);
        assert_eq!(state_after(&branch, &[&[1], &[0], &[1]]), [2.5, 4.5], "given {is_given}");
        let repeated = summing_within(true, is_given, &[2], 1);
        let counts = [0i32, 1, 5].map(i32::to_le_bytes);
        let counts: Vec<&[u8]> = counts.iter().map(<[u8; 4]>::as_slice).collect();
        assert_eq!(state_after(&repeated, &counts), [3.5, 6.5], "given {is_given}");
    }
}

/// A composite whose decomposition adds `x` to the variable, in the main graph or in a branch; the
/// handle is given to it or its own.
fn summing_composite(is_within: bool, is_given: bool) -> TfliteFile {
    let mut file = TfliteFile::new();
    let condition = file.input("condition", TensorKind::Bool, &[1]);
    let x = file.input("x", F32, &[2]);
    file.operator_with("CALL_ONCE", &[], &[], 103, vec![(0, Value::I32(1))]);
    let y = file.tensor("y", F32, &[2]);
    let call = |file: &mut TfliteFile, x: i32, y: i32, graph: i32| {
        let mut given = vec![x];
        given.extend(is_given.then(|| handle(file)));
        let fields = vec![(0, Value::text("sum")), (1, Value::I32(graph))];
        file.operator_with_second("STABLEHLO_COMPOSITE", &given, &[y], 21, fields);
    };
    match is_within {
        true => {
            let graphs = vec![(0, Value::I32(2)), (1, Value::I32(3))];
            file.operator_with("IF", &[condition, x], &[y], 92, graphs);
        }
        false => call(&mut file, x, y, 2),
    }
    file.outputs(&[y]);
    filled(&mut file, &[2], 1);
    if is_within {
        for calls in [true, false] {
            file.next_graph();
            let x = file.input("x", F32, &[2]);
            let y = file.tensor("y", F32, &[2]);
            match calls {
                true => call(&mut file, x, y, 4),
                false => file.operator("NEG", &[x], &[y]),
            }
            file.outputs(&[y]);
        }
    }
    file.next_graph();
    let x = file.input("x", F32, &[2]);
    let total = match is_given {
        true => file.input("handle", TensorKind::Resource, &[]),
        false => handle(&mut file),
    };
    let (before, after) = (file.tensor("before", F32, &[2]), file.tensor("after", F32, &[2]));
    file.operator("READ_VARIABLE", &[total], &[before]);
    file.operator("ADD", &[before, x], &[after]);
    file.operator("ASSIGN_VARIABLE", &[total, after], &[]);
    file.outputs(&[after]);
    file
}

#[test]
fn composites_change_variables() {
    for is_given in [false, true] {
        let composite = summing_composite(false, is_given);
        assert_eq!(state_after(&composite, &[&[1], &[0]]), [2.5, 4.5], "given {is_given}");
        let within = summing_composite(true, is_given);
        assert_eq!(state_after(&within, &[&[1], &[0], &[1]]), [2.5, 4.5], "given {is_given}");
    }
}

#[test]
fn first_values_without_end_are_refused() {
    let why = |extents: &[i32], times: usize| {
        let options = ImportOptions { extension: true, ..ImportOptions::default() };
        let file = summing_within(false, false, extents, times).build();
        Imported::from_bytes_with(&file, options).unwrap_err().to_string()
    };
    assert!(why(&[i32::MAX], 1).contains("FILL within it"));
    assert!(why(&[-1], 1).contains("FILL within it"));
    assert!(why(&[1 << 20], 5).contains("its values are too large"));
}

/// A branch that joins a tensor to itself, and one that does not.
#[test]
fn the_shape_of_a_result_is_that_of_the_branch() {
    let mut file = TfliteFile::new();
    let condition = file.input("condition", TensorKind::Bool, &[1]);
    let x = file.input("x", F32, &[2]);
    let (y, z) = (file.tensor("y", F32, &[4]), file.tensor("z", F32, &[4]));
    file.operator_with(
        "IF",
        &[condition, x],
        &[y],
        92,
        vec![(0, Value::I32(1)), (1, Value::I32(2))],
    );
    file.operator("NEG", &[y], &[z]);
    let axes = file.int_constant("axes", &[1], &[0]);
    let sum = file.tensor("sum", F32, &[1]);
    file.operator_with("SUM", &[z, axes], &[sum], 27, vec![(0, Value::I8(1))]);
    file.outputs(&[sum]);
    for is_joined in [true, false] {
        file.next_graph();
        let x = file.input("x", F32, &[2]);
        let y = file.tensor("y", F32, &[if is_joined { 4 } else { 2 }]);
        if is_joined {
            file.operator_with("CONCATENATION", &[x, x], &[y], 10, vec![(0, Value::I32(0))]);
        } else {
            file.operator("ABS", &[x], &[y]);
        }
        file.outputs(&[y]);
    }
    let imported = import(&file, true);
    let plan = plan::compile(&imported).unwrap();
    for (condition, want) in [(1, -6.0), (0, -3.0)] {
        let x = bytes(&[1.0, 2.0]);
        let (outputs, _) = once::run(&mut plan.session(), &imported, &[&[condition], &x], &[]);
        assert_eq!(floats(&outputs[0]), [want]);
    }
}

/// A case of some of the graphs 1 to 4: ABS, NEG, SQUARE and FLOOR.
fn case_of(graphs: &[i32]) -> TfliteFile {
    let mut file = TfliteFile::new();
    let index = file.input("index", TensorKind::Int32, &[]);
    let x = file.input("x", F32, &[2]);
    let y = file.tensor("y", F32, &[2]);
    let fields = vec![(0, Value::ints(graphs))];
    file.operator_with_second("STABLEHLO_CASE", &[index, x], &[y], 23, fields);
    file.outputs(&[y]);
    for name in ["ABS", "NEG", "SQUARE", "FLOOR"] {
        file.next_graph();
        let (x, y) = (file.input("x", F32, &[2]), file.tensor("y", F32, &[2]));
        file.operator(name, &[x], &[y]);
        file.outputs(&[y]);
    }
    file
}

#[test]
fn a_case_has_any_number_of_graphs() {
    let x = bytes(&[1.5, -2.0]);
    for graphs in [&[2][..], &[3, 1, 4], &[4, 3, 2, 1], &[1, 2, 1, 3, 3, 2, 4]] {
        let imported = import(&case_of(graphs), true);
        let plan = plan::compile(&imported).unwrap();
        for index in -1..i32::try_from(graphs.len()).unwrap() + 2 {
            let at = usize::try_from(index).ok().filter(|&at| at < graphs.len());
            let want = match at.map_or(graphs[graphs.len() - 1], |at| graphs[at]) {
                1 => [1.5, 2.0],
                2 => [-1.5, 2.0],
                3 => [2.25, 4.0],
                _ => [1.0, -2.0],
            };
            let (outputs, _) =
                once::run(&mut plan.session(), &imported, &[&index.to_le_bytes(), &x], &[]);
            assert_eq!(floats(&outputs[0]), want, "{graphs:?}, {index}");
        }
    }
}

#[test]
fn a_case_beyond_the_last_is_the_last() {
    let imported = import(&case_of(&[1, 2]), true);
    let plan = plan::compile(&imported).unwrap();
    for (index, want) in [(0i32, [1.0, 2.0]), (1, [-1.0, 2.0]), (7, [-1.0, 2.0]), (-3, [-1.0, 2.0])]
    {
        let (index, x) = (index.to_le_bytes(), bytes(&[1.0, -2.0]));
        let (outputs, _) = once::run(&mut plan.session(), &imported, &[&index, &x], &[]);
        assert_eq!(floats(&outputs[0]), want);
    }
    for graphs in [&[][..], &[1, 9], &[1, 2, 9], &[1, -1], &[0, 0], &[1, 0, 2]] {
        let options = ImportOptions { extension: true, ..ImportOptions::default() };
        assert!(
            Imported::from_bytes_with(&case_of(graphs).build(), options).is_err(),
            "{graphs:?}"
        );
    }
}
