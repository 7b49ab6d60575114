//! The common parts of many operations: labels, type dispatch, layouts, padding.

use nnburst_hal::OperandType;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::rows::Port;
use nnburst_kernels::tensor::{Element, In, OpError, Out, Shape, Tensor};

use crate::lowering::io::map_rows;
use crate::lowering::{Label, Lowered, OpBuilder, Words};

/// A label for plain code.
pub(crate) fn plain(kernel: &'static str, shape: &Shape, operations: u64) -> Label {
    let shape = shape.clone();
    let shape = Words::new(move |f| write!(f, "{shape:?}"));
    Label { kernel, form: Isa::Scalar, shape, operations }
}

/// A label for a loop in plain Rust that is compiled for the instruction set.
pub(crate) fn compiled(isa: Isa, kernel: &'static str, shape: &Shape, operations: u64) -> Label {
    Label { form: isa.of_loops(), ..plain(kernel, shape, operations) }
}

/// The error of a type that the operation doesn't take.
pub(crate) fn bad_kind(index: usize, kind: OperandType) -> OpError {
    OpError::input(index, format!("{kind} is not computed by this operation"))
}

/// Instantiates a generic function for the element type of a real or quantised tensor:
/// `dispatch!(kind, index, real: f::<T>(op), byte: g::<T>(op))`.
macro_rules! dispatch {
    ($kind:expr, $index:expr, real: $real:ident($($r:expr),*), byte: $byte:ident($($b:expr),*)) => {
        match $kind {
            nnburst_hal::OperandType::TensorFloat32 => $real::<f32>($($r),*),
            nnburst_hal::OperandType::TensorFloat16 => $real::<half::f16>($($r),*),
            nnburst_hal::OperandType::TensorQuant8Asymm => $byte::<u8>($($b),*),
            nnburst_hal::OperandType::TensorQuant8AsymmSigned => $byte::<i8>($($b),*),
            kind => Err($crate::ops::support::bad_kind($index, kind).into()),
        }
    };
}
pub(crate) use dispatch;

/// Instantiates a generic function for the element type of a real tensor.
macro_rules! by_real {
    ($kind:expr, $real:ident($($arg:expr),*)) => {
        match $kind {
            nnburst_hal::OperandType::TensorFloat32 => $real::<f32>($($arg),*),
            nnburst_hal::OperandType::TensorFloat16 => $real::<half::f16>($($arg),*),
            kind => Err($crate::ops::support::bad_kind(0, kind).into()),
        }
    };
}
pub(crate) use by_real;

/// Instantiates a generic function for elements of that width: for what moves data.
macro_rules! by_width {
    ($kind:expr, $move:ident($($arg:expr),*)) => {
        match $kind.element_bytes() {
            Some(1) => $move::<u8>($($arg),*),
            Some(2) => $move::<u16>($($arg),*),
            Some(4) => $move::<u32>($($arg),*),
            _ => Err($crate::ops::support::bad_kind(0, $kind).into()),
        }
    };
}
pub(crate) use by_width;

/// A four-dimensional activation in either layout: extents, and elements between neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) batches: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) channels: usize,
    nchw: bool,
}

impl Image {
    pub(crate) fn new([batches, height, width, channels]: [usize; 4], nchw: bool) -> Self {
        Self { batches, height, width, channels, nchw }
    }

    /// Reads a shape in the layout given.
    pub(crate) fn of(index: usize, shape: &Shape, nchw: bool) -> Result<Self, OpError> {
        let &[batches, a, b, c] = &shape[..] else {
            return Err(OpError::input(index, format!("{shape:?} is not of rank 4")));
        };
        let (height, width, channels) = if nchw { (b, c, a) } else { (a, b, c) };
        if height == 0 || width == 0 || channels == 0 {
            return Err(OpError::input(index, format!("{shape:?} is empty beyond its batches")));
        }
        Ok(Self { batches, height, width, channels, nchw })
    }

    pub(crate) fn shape(&self) -> Result<Shape, OpError> {
        let Self { batches, height, width, channels, nchw } = *self;
        Shape::new(if nchw {
            [batches, channels, height, width]
        } else {
            [batches, height, width, channels]
        })
    }

    /// The same with other lines and columns.
    pub(crate) fn resized(self, height: usize, width: usize) -> Self {
        Self { height, width, ..self }
    }

    /// Returns whether channels come first.
    pub(crate) fn is_nchw(&self) -> bool {
        self.nchw
    }

    /// Position of an element.
    #[inline(always)]
    pub(crate) fn at(&self, batch: usize, y: usize, x: usize, channel: usize) -> usize {
        if self.nchw {
            ((batch * self.channels + channel) * self.height + y) * self.width + x
        } else {
            ((batch * self.height + y) * self.width + x) * self.channels + channel
        }
    }
}

/// One spatial axis of a window that slides: extents, stride, dilation, padding in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) filter: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) head: usize,
}

impl Axis {
    /// The same windows over what is between `head` and `tail` positions of padding. `None` where
    /// nothing is left of it, or where a window would be over nothing else: kernels take neither.
    pub(crate) fn within(self, head: usize, tail: usize) -> Option<Self> {
        let input = self.input.checked_sub(head + tail).filter(|&input| input > 0)?;
        let reach = (self.filter - 1) * self.dilation + 1;
        let end = self.output.checked_sub(1)? * self.stride + reach;
        let head = self.head + head;
        let past = end.saturating_sub(head + input);
        (head < reach && past < reach).then_some(Self { input, head, ..self })
    }

    /// Input positions that an undilated window at `output` really covers.
    pub(crate) fn covered(self, output: usize) -> std::ops::Range<usize> {
        let start = output * self.stride;
        let end = (start + self.filter).saturating_sub(self.head).min(self.input);
        start.saturating_sub(self.head).min(end)..end
    }

    /// The outputs whose undilated windows are over the input alone.
    pub(crate) fn whole(self) -> std::ops::Range<usize> {
        let windows = (self.head + self.input).checked_sub(self.filter);
        let end = windows.map_or(0, |last| last / self.stride + 1).min(self.output);
        self.head.div_ceil(self.stride).min(end)..end
    }

    /// Input positions `(filter position, input position)` that the window at `output` really
    /// covers.
    #[inline(always)]
    pub(crate) fn taps(self, output: usize) -> impl Iterator<Item = (usize, usize)> {
        let start = output * self.stride;
        self.tap_range(output).map(move |tap| (tap, start + tap * self.dilation - self.head))
    }

    /// Filter positions at which the window at `output` covers the input.
    #[inline(always)]
    pub(crate) fn tap_range(self, output: usize) -> std::ops::Range<usize> {
        let start = output * self.stride;
        // Of the filter those alone, however much of it there is.
        let until = |end: usize| match (end.saturating_sub(start), self.dilation) {
            // A division takes as long as copying a tap.
            (taps, 1) => taps,
            (steps, dilation) => steps.div_ceil(dilation),
        };
        until(self.head)..until(self.head + self.input).min(self.filter)
    }
}

/// The movement of windows, before extents are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// SAME, VALID, or explicit: (left, right, top, bottom).
    pub(crate) padding: Padding,
    pub(crate) stride_w: usize,
    pub(crate) stride_h: usize,
    pub(crate) dilation_w: usize,
    pub(crate) dilation_h: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Padding {
    Same,
    Valid,
    Explicit { left: usize, right: usize, top: usize, bottom: usize },
}

impl Window {
    /// Reads padding and strides from `first` on: four paddings or one code, then two strides.
    /// Gives the position behind them.
    pub(crate) fn read(op: &OpBuilder<'_>, first: usize, explicit: bool) -> Lowered<(Self, usize)> {
        let (padding, next) = if explicit {
            let side = |at: usize| op.extent(first + at, 0);
            let [left, right, top, bottom] = [side(0)?, side(1)?, side(2)?, side(3)?];
            (Padding::Explicit { left, right, top, bottom }, first + 4)
        } else {
            (Padding::read(op, first)?, first + 1)
        };
        let (stride_w, stride_h) = (op.extent(next, 1)?, op.extent(next + 1, 1)?);
        let window = Self { padding, stride_w, stride_h, dilation_w: 1, dilation_h: 1 };
        Ok((window, next + 2))
    }

    /// The same window, dilated as the inputs from `index` on say, if they are there.
    pub(crate) fn dilated(mut self, op: &OpBuilder<'_>, index: usize) -> Lowered<Self> {
        if index < op.input_count() {
            self.dilation_w = op.extent(index, 1)?;
            self.dilation_h = op.extent(index + 1, 1)?;
        }
        Ok(self)
    }

    /// The two axes: (vertical, horizontal).
    pub(crate) fn axes(
        &self,
        input: &Image,
        filter_h: usize,
        filter_w: usize,
    ) -> Result<(Axis, Axis), OpError> {
        let (vertical, horizontal) = match self.padding {
            Padding::Explicit { left, right, top, bottom } => {
                (Some((top, bottom)), Some((left, right)))
            }
            _ => (None, None),
        };
        Ok((
            self.padding.between(
                vertical,
                input.height,
                filter_h,
                self.stride_h,
                self.dilation_h,
            )?,
            self.padding.between(
                horizontal,
                input.width,
                filter_w,
                self.stride_w,
                self.dilation_w,
            )?,
        ))
    }
}

impl Padding {
    /// The windows along one axis of padding that isn't explicit.
    pub(crate) fn axis(
        self,
        input: usize,
        filter: usize,
        stride: usize,
        dilation: usize,
    ) -> Result<Axis, OpError> {
        self.between(None, input, filter, stride, dilation)
    }

    /// The windows along one axis; `explicit` is the padding at its two ends.
    fn between(
        self,
        explicit: Option<(usize, usize)>,
        input: usize,
        filter: usize,
        stride: usize,
        dilation: usize,
    ) -> Result<Axis, OpError> {
        let reach = filter.checked_sub(1).and_then(|gaps| gaps.checked_mul(dilation));
        let reach = reach.filter(|&reach| reach < 1 << 31);
        let reach =
            reach.ok_or_else(|| OpError::rule(format!("a filter of {filter} by {dilation}")))? + 1;
        let (head, tail) = match (self, explicit) {
            (Self::Same, _) => {
                let total = ((input.div_ceil(stride).saturating_sub(1)) * stride + reach)
                    .saturating_sub(input);
                (total / 2, total - total / 2)
            }
            (_, Some((head, tail))) => (head, tail),
            _ => (0, 0),
        };
        if head >= reach || tail >= reach {
            let what = format!("padding {head} and {tail} for a filter that reaches over {reach}");
            return Err(OpError::rule(what));
        }
        let Some(room) = (input + head + tail).checked_sub(reach) else {
            let what =
                format!("a filter that reaches over {reach} on {input}, padded {head} and {tail}");
            return Err(OpError::rule(what));
        };
        Ok(Axis { input, output: room / stride + 1, filter, stride, dilation, head })
    }

    fn read(op: &OpBuilder<'_>, index: usize) -> Lowered<Self> {
        match op.i32(index)? {
            1 => Ok(Self::Same),
            2 => Ok(Self::Valid),
            code => Err(OpError::input(index, format!("{code} is no padding code")).into()),
        }
    }
}

/// Adds a step that computes each element of output 0 from the one of input 0 at its place; `each`
/// does so for any span, in place too.
pub(crate) fn emit_each<T: Element, U: Element>(
    op: &mut OpBuilder<'_>,
    label: Label,
    each: impl Fn(In<'_, T>, Out<'_, U>) -> Result<(), String> + Send + Sync + 'static,
) {
    op.emit(label, move |io| map_rows(&io, &each));
    op.in_place(&[0]);
    op.rows(&EACH);
}

/// Operands of what computes each element of those at its place: rows of inputs and output may lie
/// apart.
pub(crate) const EACH: [(Port, Option<usize>); 3] =
    [(Port::Input(0), None), (Port::Input(1), None), (Port::Output, None)];

/// Checks that an output has the input's quantisation, as most operations that move data demand.
pub(crate) fn same_quantisation(input: &Tensor, output: &Tensor) -> Result<(), OpError> {
    if input.kind != output.kind
        || input.scale.to_bits() != output.scale.to_bits()
        || input.zero_point != output.zero_point
    {
        let what = format!(
            "{} of scale {} and zero point {} differs from the input's {}, {}, {}",
            output.kind, output.scale, output.zero_point, input.kind, input.scale, input.zero_point
        );
        return Err(OpError::output(0, what));
    }
    Ok(())
}
