//! The calls of an operation while it is lowered: states shapes, and adds steps.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use nnburst_kernels::kernels::chain::Combine;
use nnburst_kernels::kernels::lines::Lines;
use nnburst_kernels::tensor::rows::{Apart, Port};
use nnburst_kernels::tensor::shape::merge;
use nnburst_kernels::tensor::{OpError, Shape};

use super::builder::{DynamicDraft, Reason, Stop};
use super::draft::{DraftPlace, DraftStep};
use super::pieces::Pieces;
use super::state::{Border, Storage};
use crate::lowering::io::share_stride;
use crate::lowering::part::StepPart;
use crate::lowering::recipe::Recipe;
use crate::lowering::step::{DynamicTarget, RunDynamic, Work};
use crate::lowering::{DynamicOutput, Io, Label, Lowered, OpBuilder};

impl OpBuilder<'_> {
    /// States the shape of an output. Every output needs one before steps are emitted.
    ///
    /// # Errors
    /// It contradicts the declared extents, or takes more than 2^32 - 1 bytes.
    pub fn set_output(&mut self, index: usize, shape: Shape) -> Result<(), OpError> {
        let kind = self.output_operand(index)?.kind;
        let element = self.context.types.element_bytes(kind);
        let element =
            element.ok_or_else(|| OpError::output(index, format!("{kind} has no known size")))?;
        self.set_output_sized(index, shape, element)
    }

    /// As [`OpBuilder::set_output`], for types whose element size an extension knows.
    ///
    /// # Errors
    /// As there.
    pub fn set_output_sized(
        &mut self,
        index: usize,
        shape: Shape,
        element_bytes: usize,
    ) -> Result<(), OpError> {
        let id = self.output_value(index)?;
        let value = &mut self.state.values[id];
        if let Some(declared) = value.declared.iter().find(|declared| !merge(declared, &shape)) {
            let what = format!("is of {shape:?}, declared as {declared:?}");
            return Err(OpError::output(index, what));
        }
        let bytes = shape.elements().checked_mul(element_bytes);
        let Some(bytes) = bytes.filter(|&bytes| u32::try_from(bytes).is_ok()) else {
            return Err(OpError::output(index, format!("{shape:?} takes more than 4 GiB")));
        };
        if let Some(output) = value.output {
            self.draft.know_output(output, &shape, bytes);
        }
        if let Storage::Unset = value.storage {
            value.storage = Storage::Local(self.draft.add_local(bytes));
        }
        value.shape = Some(shape);
        Ok(())
    }

    /// Makes an output, whose shape is set, the very bytes of an input: for what changes the shape
    /// alone.
    ///
    /// # Errors
    /// The two differ in size.
    pub fn alias(&mut self, output: usize, input: usize) -> Result<(), OpError> {
        let (from, to) = (self.input_value(input)?, self.output_value(output)?);
        let source = self.place_of(from, self.input_operand(input)?.kind);
        let target = self.place_of(to, self.output_operand(output)?.kind);
        if source.len() != target.len() {
            let what = format!("is of {} bytes, made of {}", target.len(), source.len());
            return Err(OpError::output(output, what));
        }
        match (&self.state.values[to].storage, &self.state.values[from].storage) {
            // A temporary: from now on another name of the source.
            (Storage::Local(_), storage) => self.state.values[to].storage = storage.clone(),
            _ => self.draft.copy(self.index, self.kind().name(), source, target),
        }
        Ok(())
    }

    /// Makes an output, whose shape is set, the bytes of input 0 from byte `start` on, if nothing
    /// speaks against it: the output is a temporary, and the input no constant. Whether it has.
    ///
    /// # Errors
    /// There is no such input or output.
    pub fn view(&mut self, output: usize, start: usize) -> Result<bool, OpError> {
        let (from, to) = (self.input_value(0)?, self.output_value(output)?);
        let source = self.place_of(from, self.input_operand(0)?.kind);
        let len = self.place_of(to, self.output_operand(output)?.kind).len();
        let fits = start.checked_add(len).is_some_and(|end| len > 0 && end <= source.len());
        let &Storage::Local(local) = &self.state.values[to].storage else { return Ok(false) };
        if !fits || self.context.apart {
            return Ok(false);
        }
        match source.part(start, len, None) {
            Some(DraftPlace::Slot { slot, offset, .. }) => {
                self.state.values[to].storage = Storage::Arena { slot, offset };
            }
            Some(home) => self.draft.settle(local, home),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Notes that output 0 is input 0 between borders of zeros: so many at each end of each axis.
    pub(crate) fn set_border(&mut self, sides: &[(usize, usize)]) {
        if self.context.apart {
            return;
        }
        if let (Ok(from), Ok(to)) = (self.input_value(0), self.output_value(0)) {
            self.state.values[to].border = Some(Border { from, sides: sides.into() });
        }
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(StepPart::Border);
        }
    }

    /// The borders that input 0 has around it, none where it isn't known to have some.
    pub(crate) fn border(&self) -> Option<&[(usize, usize)]> {
        let value = &self.state.values[self.input_value(0).ok()?];
        let is_constant = matches!(value.storage, Storage::Constant(_));
        value.border.as_ref().filter(|_| !is_constant).map(|border| &*border.sides)
    }

    /// Has the operation's steps read what is within the borders of input 0 in its stead.
    pub(crate) fn read_within_border(&mut self) {
        let Ok(value) = self.input_value(0) else { return };
        if let Some(border) = &self.state.values[value].border {
            self.instead.push((0, border.from));
        }
    }

    /// Says that a constant input is wholly in what was packed: no step reads it (it looks left out
    /// there), nothing but packing has looked at its bytes, and a compilation cache can do without
    /// it.
    pub fn absorb(&mut self, input: usize) {
        if let (Some(_), Ok(_)) = (self.constant(input), self.input_value(input)) {
            self.absorbed.push(input);
        }
    }

    /// Adds a step that sees all of the operation's inputs and outputs, but for what was absorbed.
    pub fn emit(
        &mut self,
        label: Label,
        run: impl Fn(Io<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.emit_with_scratch(label, 0, run);
    }

    /// As [`OpBuilder::emit`], with scratch memory of the step's own.
    pub fn emit_with_scratch(
        &mut self,
        label: Label,
        scratch_bytes: usize,
        run: impl Fn(Io<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.push(label, scratch_bytes, Work::whole(run));
    }

    /// What emitting is the same for all steps.
    #[inline(never)]
    fn push(&mut self, label: Label, scratch_bytes: usize, work: Work) {
        let sharers = match work {
            Work::Bands { shared: true, .. } => self.threads(),
            _ => 1,
        };
        let step = self.step(label, scratch_bytes, sharers, work);
        self.draft.steps.push(step);
    }

    /// Adds a step whose work falls into `count` bands that may be computed in any order, also at
    /// the same time: rows of an image, blocks of a product. Between bands a run may be stopped,
    /// and [`OpBuilder::threads`] threads share them where that pays. `run` computes the bands it
    /// is given; each thread has `scratch_bytes` of its own. A result must not depend on how bands
    /// are grouped.
    pub fn emit_bands(
        &mut self,
        label: Label,
        scratch_bytes: usize,
        count: usize,
        run: impl Fn(Io<'_>, Range<usize>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let pieces = Pieces::of(&label, count, self.threads());
        self.push(label, scratch_bytes, pieces.work(count, run));
    }

    /// As [`OpBuilder::emit_bands`], for bands of which neighbours share work that is done again
    /// where a group of them ends: there are as few groups as can be.
    pub(crate) fn emit_overlapping_bands(
        &mut self,
        label: Label,
        scratch_bytes: usize,
        count: usize,
        run: impl Fn(Io<'_>, Range<usize>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let pieces = Pieces::overlapping(&label, count, self.threads());
        self.push(label, scratch_bytes, pieces.work(count, run));
    }

    /// Says that the step just added is a convolution of input 0: it may be joined with its
    /// neighbours. Rows of its images are their pixels.
    pub(crate) fn join_lines(&mut self, lines: Arc<dyn Lines>) {
        let row = |channels: usize| Some(channels * lines.element_bytes());
        let (read, written) = (row(lines.patches().channels), row(lines.channels()));
        self.rows(&[(Port::Input(0), read), (Port::Output, written)]);
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(StepPart::Lines(lines));
        }
    }

    /// Says that each element of the step just added is computed of those of inputs 0 and 1 at its
    /// place, as of a sum: it may be joined with what computes one of them. `combine` computes any
    /// span of it, in place too.
    pub(crate) fn join_sum(&mut self, combine: Combine) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(StepPart::Sum(combine));
        }
    }

    /// Says what the step just added computes of floats.
    pub(crate) fn recipe(&mut self, recipe: Recipe) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.recipe = Some(recipe);
        }
    }

    /// Says that the step just added looks up each byte of input 0 in a table: it may be joined
    /// with what reads it.
    pub(crate) fn join_table(&mut self, table: [u8; 256]) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(StepPart::Table(Box::new(table)));
        }
    }

    /// Says what the step just added plays in patterns of several, where nothing else says it.
    pub(crate) fn part(&mut self, part: StepPart) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(part);
        }
    }

    /// Says that the step just added is one of a cell: others of the same weights may be computed
    /// with it.
    pub(crate) fn join_cell(&mut self, cell: Arc<dyn Any + Send + Sync>) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(StepPart::Cell(cell));
        }
    }

    /// Says that the step just added makes each of `rows` rows of output 0 of a row of each of its
    /// first inputs, at an offset in bytes, and leaves out those that look left out: what computes
    /// them may put them there by itself.
    pub(crate) fn join_parts(&mut self, offsets: Vec<usize>, rows: usize) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(StepPart::Join { offsets, rows });
        }
    }

    /// Says that the step just added makes this output alone, and that it is nothing but rows that
    /// lie in input 0, from byte `start` on. Whoever takes such rows may read them there.
    pub(crate) fn take_rows(&mut self, output: usize, start: usize, apart: Apart) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(StepPart::Take { output, start, apart });
            let others = step.outputs.iter_mut().enumerate().filter(|(at, _)| *at != output);
            others.for_each(|(_, other)| *other = DraftPlace::Omitted);
        }
    }

    /// Says that rows of these operands of the step just added may lie apart, and how many bytes a
    /// row must then have; `None`: as many as it likes. The step asks for them by `Io::input_rows`
    /// and `Io::output_rows`.
    pub(crate) fn rows(&mut self, operands: &[(Port, Option<usize>)]) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.rows.extend(operands);
        }
    }

    /// Says that the step just added reads each element of these inputs, if they are of the
    /// output's size, before it writes the one of output 0 that lies at the same place: it may be
    /// written over them.
    pub fn in_place(&mut self, inputs: &'static [usize]) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.in_place = inputs;
        }
    }

    /// Ends the operation with a computation that tells the outputs' shapes only when it has run.
    /// It gets the inputs and returns every output.
    ///
    /// # Errors
    /// Always [`Stop`]: return it.
    pub fn dynamic<T>(
        &mut self,
        label: Label,
        run: impl Fn(Io<'_>) -> Result<Vec<DynamicOutput>, String> + Send + Sync + 'static,
    ) -> Lowered<T> {
        let draft = self.dynamic_draft(label, Box::new(run))?;
        Err(Stop(Reason::Dynamic(Box::new(draft))))
    }

    #[inline(never)]
    fn dynamic_draft(
        &mut self,
        label: Label,
        run: Box<dyn RunDynamic>,
    ) -> Result<DynamicDraft, OpError> {
        let mut step = self.step(label, 0, 1, Work::whole(|_| Ok(())));
        step.outputs.clear();
        let targets = (0..self.output_count())
            .map(|index| {
                let value = self.output_value(index)?;
                let info = &self.state.values[value];
                Ok(DynamicTarget { value, output: info.output, declared: info.declared.clone() })
            })
            .collect::<Result<Vec<_>, OpError>>()?;
        Ok(DynamicDraft { step, run, outputs: targets })
    }

    fn step(
        &mut self,
        label: Label,
        scratch_bytes: usize,
        sharers: usize,
        work: Work,
    ) -> DraftStep {
        let graph = &self.context.graphs[self.graph];
        let places = |operands: &[u32]| {
            let place = |&operand: &u32| {
                let operand = operand as usize;
                self.place_of(self.map[operand], graph.operands[operand].kind)
            };
            operands.iter().map(place).collect::<Vec<_>>()
        };
        let (mut inputs, outputs) =
            (places(&self.operation.inputs), places(&self.operation.outputs));
        for &absorbed in &self.absorbed {
            if let Some(place) = inputs.get_mut(absorbed) {
                *place = DraftPlace::Omitted;
            }
        }
        for &(input, value) in &self.instead {
            if let (Some(place), Ok(operand)) = (inputs.get_mut(input), self.input_operand(input)) {
                *place = self.place_of(value, operand.kind);
            }
        }
        let scratch_share = scratch_bytes;
        let scratch = match share_stride(scratch_share) * (sharers - 1) + scratch_share {
            0 => DraftPlace::Omitted,
            len => DraftPlace::local(self.draft.add_local(len), len),
        };
        let name = self.kind().name();
        DraftStep {
            index: self.index,
            name,
            label,
            inputs,
            outputs,
            scratch,
            scratch_share,
            work,
            part: None,
            recipe: None,
            in_place: &[],
            rows: Vec::new(),
        }
    }
}
