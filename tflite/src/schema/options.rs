//! The options of operators: a table whose type depends on the operator.

use crate::flatbuffer::{Field, FormatError, Problem, Table};

/// The options of one operator, of a type that only its lowering knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperatorOptions<'a> {
    kind: u8,
    table: Option<Table<'a>>,
}

/// A type of options: its number in the union, and the name that errors give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionsKind {
    pub(crate) number: u8,
    name: &'static str,
}

impl OptionsKind {
    pub(crate) const fn new(number: u8, name: &'static str) -> Self {
        Self { number, name }
    }
}

impl<'a> OperatorOptions<'a> {
    /// No options: all have their defaults.
    pub(crate) const fn none() -> Self {
        Self { kind: 0, table: None }
    }

    pub(super) fn read(operator: &Table<'a>) -> Result<Self, FormatError> {
        const TYPE: Field = Field::new(3, "Operator.builtin_options_type");
        const OPTIONS: Field = Field::new(4, "Operator.builtin_options");
        Self::of_union(operator, TYPE, OPTIONS)
    }

    /// The options in the second union, which later operators have.
    pub(super) fn read_second(operator: &Table<'a>) -> Result<Self, FormatError> {
        const TYPE: Field = Field::new(11, "Operator.builtin_options_2_type");
        const OPTIONS: Field = Field::new(12, "Operator.builtin_options_2");
        Self::of_union(operator, TYPE, OPTIONS)
    }

    fn of_union(operator: &Table<'a>, kind: Field, options: Field) -> Result<Self, FormatError> {
        let kind = operator.scalar(kind, 0u8)?;
        let table = if kind == 0 { None } else { operator.table(options)? };
        Ok(Self { kind, table })
    }

    /// The fields, given that they are of this type. An operator without options has the defaults.
    pub(crate) fn of(&self, kind: OptionsKind) -> Result<Fields<'a>, FormatError> {
        if self.table.is_some() && self.kind != kind.number {
            return Err(FormatError { field: kind.name, problem: Problem::Mismatch });
        }
        Ok(Fields(self.table))
    }
}

/// The fields of some options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(Option<Table<'a>>);

impl Fields<'_> {
    pub(crate) fn int(&self, field: Field, default: i32) -> Result<i32, FormatError> {
        self.0.map_or(Ok(default), |table| table.scalar(field, default))
    }

    /// An integer of 64 bits whose default is 0.
    pub(crate) fn long(&self, field: Field) -> Result<i64, FormatError> {
        self.0.map_or(Ok(0), |table| table.scalar(field, 0))
    }

    /// An enum of one byte whose default is 0.
    pub(crate) fn byte(&self, field: Field) -> Result<i8, FormatError> {
        self.0.map_or(Ok(0), |table| table.scalar(field, 0))
    }

    pub(crate) fn float(&self, field: Field) -> Result<f32, FormatError> {
        self.0.map_or(Ok(0.0), |table| table.scalar(field, 0.0))
    }

    pub(crate) fn boolean(&self, field: Field, default: bool) -> Result<bool, FormatError> {
        self.0.map_or(Ok(default), |table| table.scalar(field, default))
    }

    /// A string; empty by default.
    pub(crate) fn text(&self, field: Field) -> Result<String, FormatError> {
        let text = self.0.map_or(Ok(None), |table| table.string(field))?;
        Ok(text.unwrap_or_default())
    }

    pub(crate) fn floats(&self, field: Field) -> Result<Vec<f32>, FormatError> {
        self.0.map_or_else(|| Ok(Vec::new()), |table| table.scalars(field))
    }

    pub(crate) fn longs(&self, field: Field) -> Result<Vec<i64>, FormatError> {
        self.0.map_or_else(|| Ok(Vec::new()), |table| table.scalars(field))
    }

    pub(crate) fn ints(&self, field: Field) -> Result<Vec<i32>, FormatError> {
        self.0.map_or_else(|| Ok(Vec::new()), |table| table.scalars(field))
    }
}

macro_rules! options {
    ($($module:ident = $number:literal, $name:literal { $($field:ident = $slot:literal, $text:literal;)* })*) => {$(
        #[doc = concat!("`", $name, "`.")]
        pub(crate) mod $module {
            use super::{Field, OptionsKind};
            pub(crate) const KIND: OptionsKind = OptionsKind::new($number, $name);
            $(pub(crate) const $field: Field = Field::new($slot, concat!($name, ".", $text));)*
        }
    )*};
}

/// `FullyConnectedOptions.keep_num_dims`.
pub(crate) const FULLY_CONNECTED_KEEP_NUM_DIMS: Field =
    Field::new(2, "FullyConnectedOptions.keep_num_dims");
/// `SqueezeOptions.squeeze_dims`.
pub(crate) const SQUEEZE_DIMS: Field = Field::new(0, "SqueezeOptions.squeeze_dims");

options! {
    conv_2d = 1, "Conv2DOptions" {
        PADDING = 0, "padding"; STRIDE_W = 1, "stride_w"; STRIDE_H = 2, "stride_h";
        ACTIVATION = 3, "fused_activation_function";
        DILATION_W = 4, "dilation_w_factor"; DILATION_H = 5, "dilation_h_factor";
        BIAS_TYPE = 6, "quantized_bias_type";
    }
    depthwise_conv_2d = 2, "DepthwiseConv2DOptions" {
        PADDING = 0, "padding"; STRIDE_W = 1, "stride_w"; STRIDE_H = 2, "stride_h";
        DEPTH_MULTIPLIER = 3, "depth_multiplier"; ACTIVATION = 4, "fused_activation_function";
        DILATION_W = 5, "dilation_w_factor"; DILATION_H = 6, "dilation_h_factor";
    }
    pool_2d = 5, "Pool2DOptions" {
        PADDING = 0, "padding"; STRIDE_W = 1, "stride_w"; STRIDE_H = 2, "stride_h";
        FILTER_WIDTH = 3, "filter_width"; FILTER_HEIGHT = 4, "filter_height";
        ACTIVATION = 5, "fused_activation_function";
    }
    svdf = 6, "SVDFOptions" { RANK = 0, "rank"; ACTIVATION = 1, "fused_activation_function"; }
    rnn = 7, "RNNOptions" { ACTIVATION = 0, "fused_activation_function"; }
    fully_connected = 8, "FullyConnectedOptions" {
        ACTIVATION = 0, "fused_activation_function"; WEIGHTS_FORMAT = 1, "weights_format";
        BIAS_TYPE = 4, "quantized_bias_type";
    }
    softmax = 9, "SoftmaxOptions" { BETA = 0, "beta"; }
    concatenation = 10, "ConcatenationOptions" {
        AXIS = 0, "axis"; ACTIVATION = 1, "fused_activation_function";
    }
    add = 11, "AddOptions" { ACTIVATION = 0, "fused_activation_function"; }
    l2_norm = 12, "L2NormOptions" { ACTIVATION = 0, "fused_activation_function"; }
    local_response = 13, "LocalResponseNormalizationOptions" {
        RADIUS = 0, "radius"; BIAS = 1, "bias"; ALPHA = 2, "alpha"; BETA = 3, "beta";
    }
    lstm = 14, "LSTMOptions" {
        ACTIVATION = 0, "fused_activation_function"; CELL_CLIP = 1, "cell_clip";
        PROJ_CLIP = 2, "proj_clip"; KERNEL_TYPE = 3, "kernel_type";
    }
    resize_bilinear = 15, "ResizeBilinearOptions" {
        ALIGN_CORNERS = 2, "align_corners"; HALF_PIXEL_CENTERS = 3, "half_pixel_centers";
    }
    reshape = 17, "ReshapeOptions" { NEW_SHAPE = 0, "new_shape"; }
    space_to_depth = 19, "SpaceToDepthOptions" { BLOCK_SIZE = 0, "block_size"; }
    mul = 21, "MulOptions" { ACTIVATION = 0, "fused_activation_function"; }
    gather = 23, "GatherOptions" { AXIS = 0, "axis"; BATCH_DIMS = 1, "batch_dims"; }
    reducer = 27, "ReducerOptions" { KEEP_DIMS = 0, "keep_dims"; }
    sub = 28, "SubOptions" { ACTIVATION = 0, "fused_activation_function"; }
    div = 29, "DivOptions" { ACTIVATION = 0, "fused_activation_function"; }
    sequence_rnn = 31, "SequenceRNNOptions" {
        TIME_MAJOR = 0, "time_major"; ACTIVATION = 1, "fused_activation_function";
    }
    strided_slice = 32, "StridedSliceOptions" {
        BEGIN_MASK = 0, "begin_mask"; END_MASK = 1, "end_mask"; ELLIPSIS_MASK = 2, "ellipsis_mask";
        NEW_AXIS_MASK = 3, "new_axis_mask"; SHRINK_AXIS_MASK = 4, "shrink_axis_mask";
    }
    pack = 59, "PackOptions" { AXIS = 1, "axis"; }
    unpack = 64, "UnpackOptions" { AXIS = 1, "axis"; }
    bidirectional_lstm = 69, "BidirectionalSequenceLSTMOptions" {
        ACTIVATION = 0, "fused_activation_function"; CELL_CLIP = 1, "cell_clip";
        PROJ_CLIP = 2, "proj_clip"; MERGE_OUTPUTS = 3, "merge_outputs"; TIME_MAJOR = 4, "time_major";
        ASYMMETRIC = 5, "asymmetric_quantize_inputs";
    }
    bidirectional_rnn = 70, "BidirectionalSequenceRNNOptions" {
        TIME_MAJOR = 0, "time_major"; ACTIVATION = 1, "fused_activation_function";
        MERGE_OUTPUTS = 2, "merge_outputs"; ASYMMETRIC = 3, "asymmetric_quantize_inputs";
    }
    sequence_lstm = 71, "UnidirectionalSequenceLSTMOptions" {
        ACTIVATION = 0, "fused_activation_function"; CELL_CLIP = 1, "cell_clip";
        PROJ_CLIP = 2, "proj_clip"; TIME_MAJOR = 3, "time_major";
        DIAGONAL_RECURRENT = 5, "diagonal_recurrent_tensors";
    }
    resize_nearest = 74, "ResizeNearestNeighborOptions" {
        ALIGN_CORNERS = 0, "align_corners"; HALF_PIXEL_CENTERS = 1, "half_pixel_centers";
    }
    leaky_relu = 75, "LeakyReluOptions" { ALPHA = 0, "alpha"; }
    mirror_pad = 77, "MirrorPadOptions" { MODE = 0, "mode"; }
    depth_to_space = 94, "DepthToSpaceOptions" { BLOCK_SIZE = 0, "block_size"; }
    batch_matmul = 101, "BatchMatMulOptions" { ADJ_X = 0, "adj_x"; ADJ_Y = 1, "adj_y"; }
    call_once = 103, "CallOnceOptions" { GRAPH = 0, "init_subgraph_index"; }
    transpose_conv = 49, "TransposeConvOptions" {
        PADDING = 0, "padding"; STRIDE_W = 1, "stride_w"; STRIDE_H = 2, "stride_h";
        ACTIVATION = 3, "fused_activation_function"; BIAS_TYPE = 4, "quantized_bias_type";
    }
}
