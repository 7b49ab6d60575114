//! Layers of transformers.

use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::Value;

use super::{LayerTensor, Network, SCALE, count};

impl Network {
    /// Numbers of words, `count` of them, as an input.
    pub(crate) fn words(&mut self, count: i32) -> LayerTensor {
        let id = self.file.input("words", TensorKind::Int32, &[count]);
        LayerTensor { id, shape: vec![count], scale: 0.0, zero_point: 0 }
    }

    /// A constant of random numbers about `middle`, at most `most` from it.
    #[expect(clippy::cast_possible_truncation, reason = "rounded to a byte")]
    pub(crate) fn constant(&mut self, shape: &[i32], middle: f32, most: f32) -> LayerTensor {
        let mut values = self.floats(count(shape), most);
        values.iter_mut().for_each(|value| *value += middle);
        if self.is_real() {
            let id = self.file.float_constant("constant", shape, &values);
            return LayerTensor { id, shape: shape.to_vec(), scale: 0.0, zero_point: 0 };
        }
        let (scale, zero_point) =
            ((middle.abs() + most) / 127.0, i64::from(self.least() == 0) * 128);
        let stored = |value: f32| (value / scale).round() as i64 + zero_point;
        let bytes = values.into_iter().map(|value| stored(value).to_le_bytes()[0]);
        let bytes: Vec<u8> = bytes.collect();
        let id = self.file.constant("constant", self.kind(), shape, &bytes);
        self.quantised(id, shape, scale, zero_point)
    }

    /// GATHER of rows of a table.
    pub(crate) fn gather(&mut self, table: &LayerTensor, rows: &LayerTensor) -> LayerTensor {
        let y = self.result_like(&[rows.shape[0], table.shape[1]], table);
        self.file.operator_with("GATHER", &[table.id, rows.id], &[y.id], 0, Vec::new());
        y
    }

    /// TRANSPOSE.
    pub(crate) fn transpose(&mut self, x: &LayerTensor, order: &[usize]) -> LayerTensor {
        let axes: Vec<i32> = order.iter().map(|&axis| i32::try_from(axis).unwrap_or(0)).collect();
        let rank = i32::try_from(axes.len()).unwrap_or(0);
        let axes = self.file.int_constant("order", &[rank], &axes);
        let shape: Vec<i32> = order.iter().map(|&axis| x.shape[axis]).collect();
        let y = self.result_like(&shape, x);
        self.file.operator_with("TRANSPOSE", &[x.id, axes], &[y.id], 0, Vec::new());
        y
    }

    /// BATCH_MATMUL of matrices `[heads, rows, depth]`, the right ones `[heads, columns, depth]`
    /// where they are `transposed`, else `[heads, depth, columns]`.
    pub(crate) fn matmul(
        &mut self,
        a: &LayerTensor,
        b: &LayerTensor,
        transposed: bool,
    ) -> LayerTensor {
        let columns = b.shape[if transposed { 1 } else { 2 }];
        let y = self.result(&[a.shape[0], a.shape[1], columns]);
        let fields = vec![(0, Value::U8(0)), (1, Value::U8(u8::from(transposed)))];
        self.file.operator_with("BATCH_MATMUL", &[a.id, b.id], &[y.id], 101, fields);
        y
    }

    /// GELU, by the error function.
    pub(crate) fn gelu(&mut self, x: &LayerTensor) -> LayerTensor {
        let y = self.result(&x.shape);
        self.unary("GELU", x, y, (0, Vec::new()))
    }

    /// MEAN over axis `axis` of a matrix.
    pub(crate) fn mean_along(&mut self, x: &LayerTensor, axis: usize, keep: bool) -> LayerTensor {
        let axes = self.file.int_constant("axes", &[1], &[i32::try_from(axis).unwrap_or(0)]);
        let mut shape = x.shape.clone();
        shape[axis] = 1;
        if !keep {
            shape.remove(axis);
        }
        let y = self.result_like(&shape, x);
        let fields = vec![(0, Value::U8(u8::from(keep)))];
        self.file.operator_with("MEAN", &[x.id, axes], &[y.id], 27, fields);
        y
    }

    /// A layer norm over the columns of a matrix, in the operators that converters make of it.
    pub(crate) fn layer_norm(&mut self, x: &LayerTensor) -> LayerTensor {
        let columns = x.shape[1];
        let mean = self.mean_along(x, 1, true);
        let squares = self.result(&x.shape);
        let ids = [x.id, mean.id];
        self.file.operator_with("SQUARED_DIFFERENCE", &ids, &[squares.id], 0, Vec::new());
        let variance = self.mean_along(&squares, 1, true);
        let little = self.constant(&[1], 0.1, 0.0);
        let variance = self.binary("ADD", &variance, &little);
        let inverse = self.result_at(&variance.shape, SCALE, self.least());
        let inverse = self.unary("RSQRT", &variance, inverse, (0, Vec::new()));
        let gamma = self.constant(&[columns], 1.0, 0.5);
        let factor = self.binary("MUL", &inverse, &gamma);
        let scaled = self.binary("MUL", x, &factor);
        let shift = self.binary("MUL", &mean, &factor);
        let beta = self.constant(&[columns], 0.0, 0.5);
        let shift = self.binary("SUB", &beta, &shift);
        self.binary("ADD", &scaled, &shift)
    }

    /// Attention of rows to each other: `heads` heads of `width` columns each, with biases and
    /// products as converters write them.
    pub(crate) fn attention(&mut self, x: &LayerTensor, heads: i32, width: i32) -> LayerTensor {
        let rows = x.shape[0];
        let by_head = |net: &mut Self| {
            let all = net.dense(x, heads * width, super::Fused::None);
            let all = net.reshape(&all, &[rows, heads, width]);
            net.transpose(&all, &[1, 0, 2])
        };
        let (queries, keys, values) = (by_head(self), by_head(self), by_head(self));
        let scores = self.matmul(&queries, &keys, true);
        let scale = self.constant(&[1], 0.125, 0.0);
        let scores = self.binary("MUL", &scores, &scale);
        let weights = self.softmax(&scores);
        let mixed = self.matmul(&weights, &values, false);
        let mixed = self.transpose(&mixed, &[1, 0, 2]);
        let mixed = self.reshape(&mixed, &[rows, heads * width]);
        self.dense(&mixed, x.shape[1], super::Fused::None)
    }
}
