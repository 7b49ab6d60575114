//! Loops whose variable changes its shape, branches of different shapes, and tensors without
//! elements.

use nnburst_tflite::TensorKind::{self, Bool, Float32, Int8, Int32, Int64};
use nnburst_tflite::testing::Value;

use super::at;
use crate::net::{Net, byte, int};

/// A graph in the making: what it is made of, and the quantisation of its values.
struct Body<'n> {
    net: &'n mut Net,
    kind: TensorKind,
    scale: f32,
}

impl Body<'_> {
    /// A value whose rows may change in number, as converters write it: the shape is that of an
    /// example. Some files say which extents may change.
    fn value(&mut self, shape: &[i32], is_input: bool) -> i32 {
        let file = &mut self.net.file;
        let tensor = match is_input {
            true => file.input("x", self.kind, shape),
            false => file.tensor("value", self.kind, shape),
        };
        if self.kind == Int8 {
            file.quantize(tensor, &[self.scale], &[3], 0);
        }
        if self.net.random.flag() {
            let open = vec![-1; shape.len()];
            self.net.file.tensor_fields(tensor, vec![(7, Value::ints(&open))]);
        }
        tensor
    }

    fn rows(&mut self, rows: i32, columns: i32) -> i32 {
        let bytes = self.net.bytes(self.kind, &[rows, columns]);
        let tensor = self.net.file.constant("rows", self.kind, &[rows, columns], &bytes);
        if self.kind == Int8 {
            self.net.file.quantize(tensor, &[self.scale], &[3], 0);
        }
        tensor
    }

    /// What one iteration makes of `x`.
    fn next(&mut self, x: i32, shape: &[i32], most: i32) -> i32 {
        let columns = at(shape, 1);
        let y = self.value(shape, false);
        let axis = vec![int(0, 0)];
        match self.net.random.below(most) {
            0 => {
                let rows = self.net.random.within(1, 2);
                let rows = self.rows(rows, columns);
                self.net.file.operator_with("CONCATENATION", &[x, rows], &[y], 10, axis);
            }
            1 => {
                let sizes = self.net.file.int_constant("pads", &[2, 2], &[0, 1, 0, 0]);
                self.net.file.operator_with("PAD", &[x, sizes], &[y], 22, Vec::new());
            }
            2 => self.net.file.operator_with("CONCATENATION", &[x, x], &[y], 10, axis),
            3 => {
                let times = self.net.ints(&[2, 1]);
                self.net.file.operator_with("TILE", &[x, times], &[y], 0, Vec::new());
            }
            4 => {
                let (begin, size) = (self.net.ints(&[1, 0]), self.net.ints(&[-1, -1]));
                self.net.file.operator_with("SLICE", &[x, begin, size], &[y], 0, Vec::new());
            }
            5 => {
                let order = self.net.ints(&[1, 0]);
                self.net.file.operator_with("TRANSPOSE", &[x, order], &[y], 26, Vec::new());
            }
            _ => {
                let (wide, whole) =
                    (self.value(&[1, 1, 1], false), self.net.ints(&[1, -1, columns]));
                self.net.file.operator_with("RESHAPE", &[x, whole], &[wide], 17, Vec::new());
                let joined = self.value(&[1, 1, 1], false);
                let axis = vec![int(0, 1)];
                self.net.file.operator_with("CONCATENATION", &[wide, wide], &[joined], 10, axis);
                let flat = self.net.ints(&[-1, columns]);
                self.net.file.operator_with("RESHAPE", &[joined, flat], &[y], 17, Vec::new());
            }
        }
        y
    }
}

/// A WHILE over a counter and a matrix that each iteration makes another matrix of.
pub(super) fn growing(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Int32]);
    let (rows, columns) = (net.random.below(4), net.random.within(1, 4));
    let turns = net.random.below(4);
    let scale = net.random.real(0.01, 0.1);
    // Rows that are cut off have to be there.
    let most = if rows == 0 {
        2
    } else if rows > turns {
        7
    } else {
        4
    };
    let shape = [rows, columns];
    let count = net.plain_input(Int32, &[]);
    net.inputs[0] = 0i32.to_le_bytes().to_vec();
    let bytes = net.bytes(kind, &shape);
    let mut body = Body { net, kind, scale };
    let x = match rows == 0 || body.net.random.flag() {
        true => body.rows(rows, columns),
        false => {
            let x = body.net.file.input("x", kind, &shape);
            body.net.inputs.push(bytes);
            x
        }
    };
    if kind == Int8 {
        body.net.file.quantize(x, &[scale], &[3], 0);
    }
    let (last, y) = (body.net.file.tensor("last", Int32, &[]), body.value(&shape, false));
    let graphs = vec![int(0, 1), int(1, 2)];
    body.net.file.operator_with(name, &[count, x], &[last, y], 93, graphs);
    if kind != Int8 && body.net.random.flag() {
        // Sums over a number of rows that nobody knows before.
        let (sum, axis) = (body.net.file.tensor("sum", kind, &[columns]), body.net.ints(&[0]));
        body.net.file.operator_with("SUM", &[y, axis], &[sum], 27, Vec::new());
        body.net.file.tensor_fields(sum, vec![(7, Value::ints(&[-1]))]);
        body.net.file.outputs(&[last, sum]);
    } else {
        body.net.file.outputs(&[last, y]);
    }

    body.net.file.next_graph();
    let count = body.net.file.input("i", Int32, &[]);
    body.value(&shape, true);
    let limit = body.net.file.int_constant("limit", &[], &[turns]);
    let goes_on = body.net.file.tensor("goes on", Bool, &[]);
    body.net.file.operator("LESS", &[count, limit], &[goes_on]);
    body.net.file.outputs(&[goes_on]);

    body.net.file.next_graph();
    let count = body.net.file.input("i", Int32, &[]);
    let x = body.value(&shape, true);
    let (one, next) =
        (body.net.file.int_constant("one", &[], &[1]), body.net.file.tensor("next", Int32, &[]));
    body.net.file.operator("ADD", &[count, one], &[next]);
    let y = body.next(x, &shape, most);
    body.net.file.outputs(&[next, y]);
}

/// An IF whose branches give matrices of different shapes.
pub(super) fn branches(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Int32]);
    let (rows, columns) = (net.random.within(1, 4), net.random.within(1, 4));
    let scale = net.random.real(0.01, 0.1);
    let shape = [rows, columns];
    let condition = net.plain_input(Bool, &[]);
    let x = net.plain_input(kind, &shape);
    let mut body = Body { net, kind, scale };
    if kind == Int8 {
        body.net.file.quantize(x, &[scale], &[3], 0);
    }
    let y = body.value(&shape, false);
    let graphs = vec![int(0, 1), int(1, 2)];
    body.net.file.operator_with(name, &[condition, x], &[y], 92, graphs);
    body.net.file.outputs(&[y]);
    for _ in 0..2 {
        body.net.file.next_graph();
        let x = body.value(&shape, true);
        let y = body.next(x, &shape, if rows > 1 { 7 } else { 4 });
        body.net.file.outputs(&[y]);
    }
}

/// Operators on tensors of which one has no elements.
pub(super) fn empty(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32, Int64, Int8]);
    net.label.push_str(" empty");
    let columns = net.random.within(1, 4);
    let rows = net.random.below(3);
    let none = net.file.tensor("none", kind, &[0, columns]);
    let x = match rows {
        0 => none,
        rows => net.plain_input(kind, &[rows, columns]),
    };
    if kind == Int8 {
        net.file.quantize(none, &[0.1], &[1], 0);
        net.file.quantize(x, &[0.1], &[1], 0);
    }
    match name {
        "CONCATENATION" => {
            let y = net.moved_like(kind, &[rows, columns]);
            let inputs = if net.random.flag() { [none, x] } else { [x, none] };
            net.operator(name, &inputs, &[y], 10, vec![int(0, 0)]);
        }
        "SHAPE" => {
            let y = net.file.tensor("out", Int32, &[2]);
            net.operator(name, &[none], &[y], 55, vec![byte(0, 2)]);
        }
        "RESHAPE" => {
            let y = net.moved_like(kind, &[columns, 0]);
            let shape = net.ints(&[columns, 0]);
            net.operator(name, &[none, shape], &[y], 0, Vec::new());
        }
        "PAD" => {
            let y = net.moved_like(kind, &[2, columns]);
            let sizes = net.file.int_constant("pads", &[2, 2], &[1, 1, 0, 0]);
            net.operator(name, &[none, sizes], &[y], 22, Vec::new());
        }
        "SUM" => {
            let y = net.file.tensor("out", kind, &[columns]);
            let axis = net.ints(&[0]);
            net.operator(name, &[none, axis], &[y], 27, Vec::new());
        }
        _ => {
            let y = net.moved_like(kind, &[0, columns]);
            net.operator(name, &[none, none], &[y], 0, Vec::new());
        }
    }
}

impl Net {
    /// A result with the quantisation of the inputs of [`empty`].
    fn moved_like(&mut self, kind: TensorKind, shape: &[i32]) -> i32 {
        let tensor = self.file.tensor("out", kind, shape);
        if kind == Int8 {
            self.file.quantize(tensor, &[0.1], &[1], 0);
        }
        tensor
    }
}
