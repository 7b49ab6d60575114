//! Errors of validation: the rule that is broken, and its place.

use std::fmt;

use crate::error::HalError;
use crate::memory::MemoryKind;
use crate::signatures::{Condition, Ranks};
use crate::types::{ErrorStatus, OperandLifeTime, OperandType, OperationType, Version};

/// A broken rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place}: {rule}")]
pub struct ValidationError {
    /// The place at which it is broken.
    pub place: Place,
    /// The rule, with the figures.
    pub rule: Rule,
}

impl From<ValidationError> for HalError {
    fn from(error: ValidationError) -> Self {
        match error.rule {
            Rule::NoMemory { .. } => {
                Self::new(ErrorStatus::ResourceExhaustedTransient, error.to_string())
            }
            _ => Self::invalid(error.to_string()),
        }
    }
}

/// A graph of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphId {
    /// The one that is executed.
    Main,
    /// One that IF and WHILE refer to, by its index.
    Referenced(usize),
}

/// The part of a model or request that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The model as a whole.
    Model,
    /// A graph as a whole.
    Graph(GraphId),
    /// An operand.
    Operand {
        /// Its graph.
        graph: GraphId,
        /// Its index.
        index: usize,
        /// Its type.
        kind: OperandType,
    },
    /// An operation.
    Operation {
        /// Its graph.
        graph: GraphId,
        /// Its index.
        index: usize,
        /// The operation's type.
        kind: OperationType,
    },
    /// A memory of a model or request.
    Pool(usize),
    /// The request as a whole.
    Request,
    /// An argument of a request.
    Argument(Direction, usize),
    /// The descriptor of a driver-managed buffer as a whole.
    MemoryDesc,
    /// A role of a driver-managed buffer.
    Role(Direction, usize),
    /// An extension in a list, or in a model's table of names.
    Extension(usize),
    /// An argument of a call by itself.
    Call,
}

/// On which side of a model or operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Direction {
    Input,
    Output,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

impl fmt::Display for GraphId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Main => f.write_str("the main graph"),
            Self::Referenced(index) => write!(f, "referenced graph {index}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model => f.write_str("model"),
            Self::Graph(graph) => write!(f, "{graph}"),
            Self::Operand { graph, index, kind } => {
                write!(f, "operand {index} ({kind}) of {graph}")
            }
            Self::Operation { graph, index, kind } => {
                write!(f, "operation {index} ({kind}) of {graph}")
            }
            Self::Pool(index) => write!(f, "pool {index}"),
            Self::Request => f.write_str("request"),
            Self::Argument(direction, index) => write!(f, "{direction} {index} of the request"),
            Self::MemoryDesc => f.write_str("memory descriptor"),
            Self::Role(direction, index) => write!(f, "{direction} role {index}"),
            Self::Extension(index) => write!(f, "extension {index}"),
            Self::Call => f.write_str("call"),
        }
    }
}

/// The rules. Names follow the order in which they are checked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the figures of the message beside them")]
pub enum Rule {
    // No rule of the model's.
    #[error("there is no memory for {count} marks of it")]
    NoMemory { count: usize },
    #[error("its validation was ended")]
    Ended,
    // Operands.
    #[error("the type needs HAL {since:?}, this is {version:?}")]
    TypeTooNew { since: Version, version: Version },
    #[error("a scalar has {rank} dimensions")]
    ScalarWithDimensions { rank: usize },
    #[error("the rank is unknown; {why}")]
    UnknownRank { why: &'static str },
    #[error("the scale is {scale}; it has to be 0")]
    ScaleNotZero { scale: f32 },
    #[error("the scale is {scale}; it has to be 0 or more")]
    ScaleNegative { scale: f32 },
    #[error("the scale is {scale}; it has to be greater than 0 and finite")]
    ScaleNotPositive { scale: f32 },
    #[error("the zero point is {zero_point}; it has to be from {low} to {high}")]
    ZeroPoint { zero_point: i32, low: i32, high: i32 },
    #[error("the extra parameters are not those of the type")]
    ExtraParams,
    #[error("the channels are dimension {channel_dim} of {rank}")]
    ChannelDim { channel_dim: u32, rank: usize },
    #[error("{scales} scales for {extent} channels")]
    ChannelScales { scales: usize, extent: u32 },
    #[error("channel {channel} has scale {scale}; it has to be greater than 0 and finite")]
    ChannelScale { channel: usize, scale: f32 },
    #[error("the tensor has more than 2^32 - 1 bytes")]
    TooLarge,
    #[error("type SUBGRAPH and lifetime SUBGRAPH go together; the lifetime is {lifetime}")]
    SubgraphPairing { lifetime: OperandLifeTime },
    #[error("the lifetime {lifetime} has no location, yet it is not all zero")]
    LocationNotEmpty { lifetime: OperandLifeTime },
    #[error("the pool index is {pool}; it has to be 0")]
    PoolIndexNotZero { pool: u32 },
    #[error("there is no pool {pool} of {pools}")]
    NoSuchPool { pool: u32, pools: usize },
    #[error("bytes {offset}..{offset}+{length} are not within {size} bytes")]
    OutOfRange { offset: u32, length: u32, size: u64 },
    #[error("{length} bytes for a value of {size}")]
    ConstantLength { length: u32, size: u64 },
    #[error("there is no referenced graph {index} of {graphs}")]
    NoSuchSubgraph { index: u32, graphs: usize },
    #[error("the model gives no extension the prefix {prefix}")]
    UnknownPrefix { prefix: u16 },

    // Operations.
    #[error("{direction} {position} is operand {operand} of {operands}")]
    NoSuchOperand { direction: Direction, position: usize, operand: u32, operands: usize },
    #[error("the operation needs HAL {since:?}, this is {version:?}")]
    OperationTooNew { since: Version, version: Version },
    #[error("{given} {direction}s, where the operation has {}", counts(*least, *most))]
    ArgumentCount { direction: Direction, given: usize, least: usize, most: usize },
    #[error("{direction} {position} is a {given}, where {expected} would fit")]
    ArgumentType {
        direction: Direction,
        position: usize,
        given: OperandType,
        expected: OperandType,
    },
    #[error("no signature of the operation has these operand types")]
    NoSignature,
    #[error("with these operand types it needs HAL {since:?}, this is {version:?}")]
    SignatureTooNew { since: Version, version: Version },
    #[error("the condition {condition:?} is not met")]
    Condition { condition: Condition },
    #[error("the condition {ranks:?} on ranks is not met")]
    Ranks { ranks: Ranks },
    #[error("the filter's channels are dimension {given}, not {expected}")]
    FilterChannelDim { given: u32, expected: u32 },
    #[error("output {position} is operand {operand} of lifetime {lifetime}")]
    OutputLifetime { position: usize, operand: u32, lifetime: OperandLifeTime },

    // Control flow.
    #[error("input {position} is no reference to a graph")]
    NotASubgraph { position: usize },
    #[error("the condition has to be TENSOR_BOOL8 of shape [1]")]
    ConditionShape,
    #[error("referenced graph {graph} has {given} {direction}s, where {least} to {most} fit")]
    SubgraphArguments {
        graph: usize,
        direction: Direction,
        given: usize,
        least: usize,
        most: usize,
    },
    #[error("{outer} and {inner} differ in type, shape or quantisation")]
    Incompatible { outer: LoopOperand, inner: LoopOperand },
    #[error("the size of {operand} is unknown")]
    UnknownSize { operand: LoopOperand },

    // Graphs.
    #[error("there are no {what}")]
    Empty { what: &'static str },
    #[error("{direction} {position} of the graph is operand {operand} of {operands}")]
    NoSuchListed { direction: Direction, position: usize, operand: u32, operands: usize },
    #[error("{direction} {position} of the graph is operand {operand} of lifetime {lifetime}")]
    ListedLifetime {
        direction: Direction,
        position: usize,
        operand: u32,
        lifetime: OperandLifeTime,
    },
    #[error("the graph lists it twice")]
    ListedTwice,
    #[error("it has lifetime {lifetime}, and the graph does not list it")]
    NotListed { lifetime: OperandLifeTime },
    #[error("input {position} is operand {operand}, which nothing has written yet")]
    ReadBeforeWritten { position: usize, operand: u32 },
    #[error("output {position} is operand {operand}, which has a value already")]
    WrittenTwice { position: usize, operand: u32 },
    #[error("nothing writes it")]
    NeverWritten,
    #[error("it has {declared} consumers, and {actual} inputs read it")]
    Consumers { declared: u32, actual: u32 },

    // Models.
    #[error("it reaches itself")]
    Cycle,
    #[error("graphs are nested more than {limit} deep")]
    TooDeep { limit: usize },
    #[error("{what} need HAL {since:?}, this is {version:?}")]
    NotInVersion { what: &'static str, since: Version, version: Version },
    #[error("HAL {version:?} knows no memory {}", kind.name())]
    MemoryKind { kind: MemoryKind, version: Version },
    #[error("prefix {prefix} is taken or 0")]
    ExtensionPrefix { prefix: u16 },
    #[error("the name {name:?} is {why}")]
    ExtensionName { name: String, why: &'static str },
    #[error("operand type {number} is listed twice")]
    ExtensionType { number: u16 },

    // Requests.
    #[error("{given} {direction}s for a model with {expected}")]
    RequestCount { direction: Direction, given: usize, expected: usize },
    #[error("an argument left out has neither location nor dimensions")]
    NoValueNotEmpty,
    #[error("token 0 is no buffer")]
    TokenZero,
    #[error("{given} dimensions for a model with {expected}")]
    RequestRank { given: usize, expected: usize },
    #[error("dimension {dimension} is {given} for a model with {expected}")]
    RequestExtent { dimension: usize, given: u32, expected: u32 },
    #[error("dimension {dimension} is unknown")]
    UnknownExtent { dimension: usize },
    #[error("{length} bytes are too short for {needed}")]
    TooShort { length: u64, needed: u64 },

    // Memory descriptors.
    #[error("there is no {what}")]
    NoRoles { what: &'static str },
    #[error("there is no prepared model {index} of {models}")]
    NoSuchModel { index: u32, models: usize },
    #[error("there is no {direction} {index} of {count}")]
    NoSuchArgument { direction: Direction, index: u32, count: usize },
    #[error("the frequency is {frequency}; it has to be greater than 0 and at most 1")]
    Frequency { frequency: f32 },
    #[error("the role is given twice")]
    RoleTwice,
    #[error("the operand differs from the other roles' in {what}")]
    RoleConflict { what: &'static str },
    #[error("shapes {given:?} and {combined:?} don't go together")]
    RoleShape { given: Vec<u32>, combined: Vec<u32> },
    #[error("a scalar can't have the shape {combined:?}")]
    ScalarShape { combined: Vec<u32> },

    // Calls.
    #[error("{0}")]
    UnknownCode(#[from] crate::types::UnknownCode),
}

/// An operand that control flow hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopOperand {
    /// Of the operation.
    Outer(Direction, usize),
    /// Of a referenced graph.
    Inner(usize, Direction, usize),
}

impl fmt::Display for LoopOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outer(direction, position) => write!(f, "{direction} {position}"),
            Self::Inner(graph, direction, position) => {
                write!(f, "{direction} {position} of referenced graph {graph}")
            }
        }
    }
}

/// The numbers of arguments that an operation may have.
fn counts(least: usize, most: usize) -> String {
    match most {
        usize::MAX => format!("{least} or more"),
        _ if most == least => least.to_string(),
        _ => format!("{least} to {most}"),
    }
}
