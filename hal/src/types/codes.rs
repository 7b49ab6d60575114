//! The numbered enums of the interface: code, name and first version of each value, in one table
//! each.

use serde::{Deserialize, Serialize};

/// Versions of the HAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the versions")]
pub enum Version {
    V1_0,
    V1_1,
    V1_2,
    V1_3,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Self; 4] = [Self::V1_0, Self::V1_1, Self::V1_2, Self::V1_3];
}

/// A code that names no value of its enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} is no {kind}")]
pub struct UnknownCode {
    /// The enum.
    pub kind: &'static str,
    /// The number that was given.
    pub code: i64,
}

/// An enum of the interface that is closed: its values and no others.
macro_rules! closed_codes {
    ($(#[$doc:meta])* $kind:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal, $name:literal, $since:ident;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "i32", try_from = "i32")]
        pub enum $kind { $($(#[$vdoc])* $variant,)* }

        impl $kind {
            /// Every value, in the order of the interface.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The number of the interface.
            pub const fn code(self) -> i32 { match self { $(Self::$variant => $code,)* } }
            /// The name of the interface.
            pub const fn name(self) -> &'static str { match self { $(Self::$variant => $name,)* } }
            /// The first version of the HAL that knows the value.
            pub const fn since(self) -> Version { match self { $(Self::$variant => Version::$since,)* } }
        }

        impl From<$kind> for i32 { fn from(value: $kind) -> Self { value.code() } }

        impl TryFrom<i32> for $kind {
            type Error = UnknownCode;
            fn try_from(code: i32) -> Result<Self, UnknownCode> {
                match code {
                    $($code => Ok(Self::$variant),)*
                    _ => Err(UnknownCode { kind: stringify!($kind), code: i64::from(code) }),
                }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.name()) }
        }
    };
}

/// An enum of the interface that extensions add to: codes above 0xFFFF are theirs.
macro_rules! open_codes {
    ($(#[$doc:meta])* $kind:ident { $($variant:ident = $code:literal, $name:literal, $since:ident;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "u32", try_from = "u32")]
        pub enum $kind {
            $(#[doc = concat!("`", $name, "`, code ", stringify!($code), ".")] $variant,)*
            /// A type of an extension: its prefix in the model and its number in the extension.
            Extension(ExtensionCode),
        }

        impl $kind {
            /// Every value of the base interface, in the order of the interface.
            pub const BASE: &'static [Self] = &[$(Self::$variant,)*];
            /// The number of the interface.
            pub const fn code(self) -> u32 {
                match self { $(Self::$variant => $code,)* Self::Extension(code) => code.code() }
            }
            /// The name of the interface; `EXTENSION` for a type of an extension.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Extension(_) => "EXTENSION" }
            }
            /// The first version of the HAL that knows the value.
            pub const fn since(self) -> Version {
                match self { $(Self::$variant => Version::$since,)* Self::Extension(_) => Version::V1_2 }
            }
            /// The value of this name of the base interface.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::BASE.iter().copied().find(|value| value.name() == name)
            }
        }

        impl From<$kind> for u32 { fn from(value: $kind) -> Self { value.code() } }

        impl TryFrom<u32> for $kind {
            type Error = UnknownCode;
            fn try_from(code: u32) -> Result<Self, UnknownCode> {
                match code {
                    $($code => Ok(Self::$variant),)*
                    _ => ExtensionCode::from_code(code)
                        .map(Self::Extension)
                        .ok_or(UnknownCode { kind: stringify!($kind), code: i64::from(code) }),
                }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    Self::Extension(code) => write!(f, "EXTENSION({}, {})", code.prefix, code.number),
                    _ => f.write_str(self.name()),
                }
            }
        }
    };
}

/// The code of an extension's operand type or operation: prefix in the high 16 bits, number in the
/// low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtensionCode {
    /// The prefix that the model's table of names gives to the extension; not 0.
    pub prefix: u16,
    /// The type's number within the extension.
    pub number: u16,
}

impl ExtensionCode {
    /// Splits a code; `None` for a code of the base interface.
    #[expect(clippy::cast_possible_truncation, reason = "takes the two halves of the code apart")]
    pub const fn from_code(code: u32) -> Option<Self> {
        let prefix = (code >> 16) as u16;
        if prefix == 0 { None } else { Some(Self { prefix, number: code as u16 }) }
    }

    /// Prefix and number in one.
    pub const fn code(self) -> u32 {
        (self.prefix as u32) << 16 | self.number as u32
    }
}

open_codes! {
    /// The type of an operand: a scalar or a tensor, and of what elements.
    OperandType {
        Float32 = 0, "FLOAT32", V1_0;
        Int32 = 1, "INT32", V1_0;
        Uint32 = 2, "UINT32", V1_0;
        TensorFloat32 = 3, "TENSOR_FLOAT32", V1_0;
        TensorInt32 = 4, "TENSOR_INT32", V1_0;
        TensorQuant8Asymm = 5, "TENSOR_QUANT8_ASYMM", V1_0;
        Bool = 6, "BOOL", V1_2;
        TensorQuant16Symm = 7, "TENSOR_QUANT16_SYMM", V1_2;
        TensorFloat16 = 8, "TENSOR_FLOAT16", V1_2;
        TensorBool8 = 9, "TENSOR_BOOL8", V1_2;
        Float16 = 10, "FLOAT16", V1_2;
        TensorQuant8SymmPerChannel = 11, "TENSOR_QUANT8_SYMM_PER_CHANNEL", V1_2;
        TensorQuant16Asymm = 12, "TENSOR_QUANT16_ASYMM", V1_2;
        TensorQuant8Symm = 13, "TENSOR_QUANT8_SYMM", V1_2;
        TensorQuant8AsymmSigned = 14, "TENSOR_QUANT8_ASYMM_SIGNED", V1_3;
        Subgraph = 15, "SUBGRAPH", V1_3;
        Oem = 10000, "OEM", V1_0;
        TensorOemByte = 10001, "TENSOR_OEM_BYTE", V1_0;
    }
}

open_codes! {
    /// The type of an operation.
    OperationType {
        Add = 0, "ADD", V1_0;
        AveragePool2d = 1, "AVERAGE_POOL_2D", V1_0;
        Concatenation = 2, "CONCATENATION", V1_0;
        Conv2d = 3, "CONV_2D", V1_0;
        DepthwiseConv2d = 4, "DEPTHWISE_CONV_2D", V1_0;
        DepthToSpace = 5, "DEPTH_TO_SPACE", V1_0;
        Dequantize = 6, "DEQUANTIZE", V1_0;
        EmbeddingLookup = 7, "EMBEDDING_LOOKUP", V1_0;
        Floor = 8, "FLOOR", V1_0;
        FullyConnected = 9, "FULLY_CONNECTED", V1_0;
        HashtableLookup = 10, "HASHTABLE_LOOKUP", V1_0;
        L2Normalization = 11, "L2_NORMALIZATION", V1_0;
        L2Pool2d = 12, "L2_POOL_2D", V1_0;
        LocalResponseNormalization = 13, "LOCAL_RESPONSE_NORMALIZATION", V1_0;
        Logistic = 14, "LOGISTIC", V1_0;
        LshProjection = 15, "LSH_PROJECTION", V1_0;
        Lstm = 16, "LSTM", V1_0;
        MaxPool2d = 17, "MAX_POOL_2D", V1_0;
        Mul = 18, "MUL", V1_0;
        Relu = 19, "RELU", V1_0;
        Relu1 = 20, "RELU1", V1_0;
        Relu6 = 21, "RELU6", V1_0;
        Reshape = 22, "RESHAPE", V1_0;
        ResizeBilinear = 23, "RESIZE_BILINEAR", V1_0;
        Rnn = 24, "RNN", V1_0;
        Softmax = 25, "SOFTMAX", V1_0;
        SpaceToDepth = 26, "SPACE_TO_DEPTH", V1_0;
        Svdf = 27, "SVDF", V1_0;
        Tanh = 28, "TANH", V1_0;
        BatchToSpaceNd = 29, "BATCH_TO_SPACE_ND", V1_1;
        Div = 30, "DIV", V1_1;
        Mean = 31, "MEAN", V1_1;
        Pad = 32, "PAD", V1_1;
        SpaceToBatchNd = 33, "SPACE_TO_BATCH_ND", V1_1;
        Squeeze = 34, "SQUEEZE", V1_1;
        StridedSlice = 35, "STRIDED_SLICE", V1_1;
        Sub = 36, "SUB", V1_1;
        Transpose = 37, "TRANSPOSE", V1_1;
        Abs = 38, "ABS", V1_2;
        Argmax = 39, "ARGMAX", V1_2;
        Argmin = 40, "ARGMIN", V1_2;
        AxisAlignedBboxTransform = 41, "AXIS_ALIGNED_BBOX_TRANSFORM", V1_2;
        BidirectionalSequenceLstm = 42, "BIDIRECTIONAL_SEQUENCE_LSTM", V1_2;
        BidirectionalSequenceRnn = 43, "BIDIRECTIONAL_SEQUENCE_RNN", V1_2;
        BoxWithNmsLimit = 44, "BOX_WITH_NMS_LIMIT", V1_2;
        Cast = 45, "CAST", V1_2;
        ChannelShuffle = 46, "CHANNEL_SHUFFLE", V1_2;
        DetectionPostprocessing = 47, "DETECTION_POSTPROCESSING", V1_2;
        Equal = 48, "EQUAL", V1_2;
        Exp = 49, "EXP", V1_2;
        ExpandDims = 50, "EXPAND_DIMS", V1_2;
        Gather = 51, "GATHER", V1_2;
        GenerateProposals = 52, "GENERATE_PROPOSALS", V1_2;
        Greater = 53, "GREATER", V1_2;
        GreaterEqual = 54, "GREATER_EQUAL", V1_2;
        GroupedConv2d = 55, "GROUPED_CONV_2D", V1_2;
        HeatmapMaxKeypoint = 56, "HEATMAP_MAX_KEYPOINT", V1_2;
        InstanceNormalization = 57, "INSTANCE_NORMALIZATION", V1_2;
        Less = 58, "LESS", V1_2;
        LessEqual = 59, "LESS_EQUAL", V1_2;
        Log = 60, "LOG", V1_2;
        LogicalAnd = 61, "LOGICAL_AND", V1_2;
        LogicalNot = 62, "LOGICAL_NOT", V1_2;
        LogicalOr = 63, "LOGICAL_OR", V1_2;
        LogSoftmax = 64, "LOG_SOFTMAX", V1_2;
        Maximum = 65, "MAXIMUM", V1_2;
        Minimum = 66, "MINIMUM", V1_2;
        Neg = 67, "NEG", V1_2;
        NotEqual = 68, "NOT_EQUAL", V1_2;
        PadV2 = 69, "PAD_V2", V1_2;
        Pow = 70, "POW", V1_2;
        Prelu = 71, "PRELU", V1_2;
        Quantize = 72, "QUANTIZE", V1_2;
        Quantized16bitLstm = 73, "QUANTIZED_16BIT_LSTM", V1_2;
        RandomMultinomial = 74, "RANDOM_MULTINOMIAL", V1_2;
        ReduceAll = 75, "REDUCE_ALL", V1_2;
        ReduceAny = 76, "REDUCE_ANY", V1_2;
        ReduceMax = 77, "REDUCE_MAX", V1_2;
        ReduceMin = 78, "REDUCE_MIN", V1_2;
        ReduceProd = 79, "REDUCE_PROD", V1_2;
        ReduceSum = 80, "REDUCE_SUM", V1_2;
        RoiAlign = 81, "ROI_ALIGN", V1_2;
        RoiPooling = 82, "ROI_POOLING", V1_2;
        Rsqrt = 83, "RSQRT", V1_2;
        Select = 84, "SELECT", V1_2;
        Sin = 85, "SIN", V1_2;
        Slice = 86, "SLICE", V1_2;
        Split = 87, "SPLIT", V1_2;
        Sqrt = 88, "SQRT", V1_2;
        Tile = 89, "TILE", V1_2;
        TopkV2 = 90, "TOPK_V2", V1_2;
        TransposeConv2d = 91, "TRANSPOSE_CONV_2D", V1_2;
        UnidirectionalSequenceLstm = 92, "UNIDIRECTIONAL_SEQUENCE_LSTM", V1_2;
        UnidirectionalSequenceRnn = 93, "UNIDIRECTIONAL_SEQUENCE_RNN", V1_2;
        ResizeNearestNeighbor = 94, "RESIZE_NEAREST_NEIGHBOR", V1_2;
        QuantizedLstm = 95, "QUANTIZED_LSTM", V1_3;
        If = 96, "IF", V1_3;
        While = 97, "WHILE", V1_3;
        Elu = 98, "ELU", V1_3;
        HardSwish = 99, "HARD_SWISH", V1_3;
        Fill = 100, "FILL", V1_3;
        Rank = 101, "RANK", V1_3;
        OemOperation = 10000, "OEM_OPERATION", V1_0;
    }
}

closed_codes! {
    /// The activation fused behind an operation; value of an INT32 scalar.
    FusedActivation {
        /// As it is.
        None = 0, "NONE", V1_0;
        /// max(x, 0).
        Relu = 1, "RELU", V1_0;
        /// min(max(x, -1), 1).
        Relu1 = 2, "RELU1", V1_0;
        /// min(max(x, 0), 6).
        Relu6 = 3, "RELU6", V1_0;
    }
}

closed_codes! {
    /// The place of an operand's value.
    OperandLifeTime {
        /// Between operations of one execution.
        TemporaryVariable = 0, "TEMPORARY_VARIABLE", V1_0;
        /// Given with the request, or by the operation that refers to the subgraph.
        SubgraphInput = 1, "SUBGRAPH_INPUT", V1_0;
        /// Returned with the request, or to the operation that refers to the subgraph.
        SubgraphOutput = 2, "SUBGRAPH_OUTPUT", V1_0;
        /// In `Model::operand_values`.
        ConstantCopy = 3, "CONSTANT_COPY", V1_0;
        /// In a pool of the model.
        ConstantReference = 4, "CONSTANT_REFERENCE", V1_0;
        /// An optional operand left out.
        NoValue = 5, "NO_VALUE", V1_0;
        /// A reference to a subgraph of the model.
        Subgraph = 6, "SUBGRAPH", V1_3;
    }
}

closed_codes! {
    /// True if a driver can be used now.
    DeviceStatus {
        /// Ready.
        Available = 0, "AVAILABLE", V1_0;
        /// Ready soon.
        Busy = 1, "BUSY", V1_0;
        /// Not reachable.
        Offline = 2, "OFFLINE", V1_0;
        /// Not known.
        Unknown = 3, "UNKNOWN", V1_0;
    }
}

closed_codes! {
    /// The status of a call.
    ErrorStatus {
        /// Success.
        None = 0, "NONE", V1_0;
        /// The driver is offline or gone.
        DeviceUnavailable = 1, "DEVICE_UNAVAILABLE", V1_0;
        /// Anything not said by the others.
        GeneralFailure = 2, "GENERAL_FAILURE", V1_0;
        /// At least one output buffer is too small.
        OutputInsufficientSize = 3, "OUTPUT_INSUFFICIENT_SIZE", V1_0;
        /// An argument breaks a rule.
        InvalidArgument = 4, "INVALID_ARGUMENT", V1_0;
        /// The deadline was or can't be met; another try may.
        MissedDeadlineTransient = 5, "MISSED_DEADLINE_TRANSIENT", V1_3;
        /// The deadline was or can't be met; another try will not.
        MissedDeadlinePersistent = 6, "MISSED_DEADLINE_PERSISTENT", V1_3;
        /// Resources are short; another try may succeed.
        ResourceExhaustedTransient = 7, "RESOURCE_EXHAUSTED_TRANSIENT", V1_3;
        /// Resources are short, and will be.
        ResourceExhaustedPersistent = 8, "RESOURCE_EXHAUSTED_PERSISTENT", V1_3;
    }
}

impl ErrorStatus {
    /// Returns whether the driver had no room for the work, now or ever.
    #[must_use]
    pub fn is_resource_exhausted(self) -> bool {
        matches!(self, Self::ResourceExhaustedTransient | Self::ResourceExhaustedPersistent)
    }

    /// The status as a channel of a version before 1.3 may carry it.
    #[must_use]
    pub fn before_v1_3(self) -> Self {
        if self.since() >= Version::V1_3 { Self::GeneralFailure } else { self }
    }
}

closed_codes! {
    /// The preference of a model's user; a hint.
    ExecutionPreference {
        /// Little energy.
        LowPower = 0, "LOW_POWER", V1_1;
        /// One answer as soon as possible.
        FastSingleAnswer = 1, "FAST_SINGLE_ANSWER", V1_1;
        /// A lasting rate, such as a camera's frames.
        SustainedSpeed = 2, "SUSTAINED_SPEED", V1_1;
    }
}

closed_codes! {
    /// Returns the kind of device that computes.
    DeviceType {
        /// Anything else, or several kinds.
        Other = 1, "OTHER", V1_2;
        /// The processor.
        Cpu = 2, "CPU", V1_2;
        /// A graphics processor.
        Gpu = 3, "GPU", V1_2;
        /// A dedicated accelerator.
        Accelerator = 4, "ACCELERATOR", V1_2;
    }
}

closed_codes! {
    /// True if an execution is timed.
    MeasureTiming {
        /// No.
        No = 0, "NO", V1_2;
        /// Yes.
        Yes = 1, "YES", V1_2;
    }
}

closed_codes! {
    /// Priority among the models of one client.
    Priority {
        /// After the others.
        Low = 0, "LOW", V1_3;
        /// The usual.
        Medium = 1, "MEDIUM", V1_3;
        /// Before the others.
        High = 2, "HIGH", V1_3;
    }
}

/// Bytes of a compilation cache token (`Constant::BYTE_SIZE_OF_CACHE_TOKEN`).
pub const CACHE_TOKEN_BYTES: usize = 32;
/// Most cache files of each kind (`Constant::MAX_NUMBER_OF_CACHE_FILES`).
pub const MAX_CACHE_FILES: u32 = 32;
/// The time that a WHILE may run by default (`LoopTimeoutDurationNs::DEFAULT`).
pub const DEFAULT_LOOP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
/// The longest a WHILE may be allowed to run (`LoopTimeoutDurationNs::MAXIMUM`).
pub const MAX_LOOP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back() {
        for &operation in OperationType::BASE {
            assert_eq!(OperationType::try_from(operation.code()), Ok(operation));
            assert_eq!(OperationType::from_name(operation.name()), Some(operation));
        }
        for &operand in OperandType::BASE {
            assert_eq!(OperandType::try_from(operand.code()), Ok(operand));
        }
        for &status in ErrorStatus::ALL {
            assert_eq!(ErrorStatus::try_from(status.code()), Ok(status));
        }
        assert_eq!((OperationType::BASE.len(), OperandType::BASE.len()), (103, 18));
    }

    #[test]
    fn codes_between_base_and_extensions_are_refused() {
        for code in [102, 9_999, 10_001, 0xFFFF] {
            let error = OperationType::try_from(code).unwrap_err();
            assert_eq!(error, UnknownCode { kind: "OperationType", code: i64::from(code) });
        }
        let extension = OperationType::try_from(0x0001_0002).unwrap();
        assert_eq!(extension, OperationType::Extension(ExtensionCode { prefix: 1, number: 2 }));
        assert_eq!(extension.code(), 0x0001_0002);
    }

    #[test]
    fn old_channels_fold_the_statuses_of_1_3() {
        assert_eq!(ErrorStatus::MissedDeadlineTransient.before_v1_3(), ErrorStatus::GeneralFailure);
        assert_eq!(ErrorStatus::InvalidArgument.before_v1_3(), ErrorStatus::InvalidArgument);
    }
}
