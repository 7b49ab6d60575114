//! Runs that nobody waits for: they bring code, branches and tables of pages back to where a run
//! finds them at once.

use std::time::Duration;

use nnburst_hal::TimePoint;
use nnburst_kernels::tensor::poll;

use crate::lowering::step::{Step, Work};
use crate::lowering::{Control, Io};

/// A step that takes longer in one piece, in nanoseconds, is left out: a request that comes in the
/// meantime waits for it.
const LONG: u64 = 20_000;

/// That a run is a warm-up run, and when it is to end.
pub(super) struct WarmUp<'a> {
    /// Asked between steps: whether somebody waits now.
    pub(super) is_over: &'a mut dyn FnMut() -> bool,
}

impl std::fmt::Debug for WarmUp<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WarmUp").finish_non_exhaustive()
    }
}

/// What a step takes longer than was estimated ends here, at the next poll inside it.
const MOST: Duration = Duration::from_micros(200);

/// Takes a step, or the first of its bands, unless it takes too long in one piece.
///
/// # Errors
/// Those of the step.
pub(super) fn warm_up(step: &Step, io: Io<'_>) -> Result<(), String> {
    let control = Control { deadline: Some(TimePoint::after(MOST)), ..Control::default() };
    poll::under(&control, || {
        let ran = match &step.work {
            Work::Whole(_) if step.estimate() > LONG => Ok(()),
            Work::Whole(run) => run.run(io),
            Work::Bands { count, run, .. } => run.run(io, 0..1.min(*count)),
        };
        // Ended early it is no worse a warm-up run.
        if poll::halted().is_ok() { ran } else { Ok(()) }
    })
}

#[cfg(test)]
mod tests {
    use nnburst_hal::{
        Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph, View,
        ViewMut,
    };

    use crate::{CompileOptions, Control, Input, Output, Plan};

    fn relu(dimensions: &[u32]) -> Model {
        let tensor = |lifetime, number_of_consumers| Operand {
            number_of_consumers,
            ..Operand::tensor(OperandType::TensorFloat32, dimensions.to_vec())
                .with_lifetime(lifetime)
        };
        let operands = vec![
            tensor(OperandLifeTime::SubgraphInput, 1),
            tensor(OperandLifeTime::SubgraphOutput, 0),
        ];
        let operations =
            vec![Operation { kind: OperationType::Relu, inputs: vec![0], outputs: vec![1] }];
        let (input_indexes, output_indexes) = (vec![0], vec![1]);
        let main = Subgraph { operands, operations, input_indexes, output_indexes };
        Model { main, ..Model::default() }
    }

    #[test]
    fn a_warm_up_runs_takes_the_steps_until_it_is_over_and_compiles_nothing() {
        let plan = Plan::compile(&relu(&[1, 4]), &CompileOptions::default()).unwrap();
        let mut session = plan.session();
        let given: Vec<u8> = [-1f32, 2.0, -3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let warm_up = |session: &mut crate::Session, is_over, dimensions: &[u32]| {
            let mut made = [7; 16];
            let inputs = [Input::Value { bytes: View::of(&given), dimensions }];
            let outputs = [Output::new(ViewMut::of(&mut made))];
            let mut asked = 0;
            session.warm_up(&inputs, &outputs, &mut || {
                asked += 1;
                is_over
            });
            (asked, made)
        };
        assert_eq!(warm_up(&mut session, true, &[]), (1, [7; 16]), "over before it began");
        let (asked, made) = warm_up(&mut session, false, &[]);
        assert_eq!((asked, &made[..8]), (1, &[0, 0, 0, 0, 0, 0, 0, 64][..]));

        // Shapes that nobody ran are left alone, and a session still runs and warms up.
        let free = Plan::compile(&relu(&[1, 0]), &CompileOptions::default()).unwrap();
        let mut session = free.session();
        assert_eq!(warm_up(&mut session, false, &[1, 4]), (0, [7; 16]));
        let mut made = [7; 16];
        let inputs = [Input::Value { bytes: View::of(&given), dimensions: &[1, 4] }];
        let outputs = [Output::new(ViewMut::of(&mut made))];
        session.run(&inputs, &outputs, &Control::default()).unwrap();
        assert_eq!(warm_up(&mut session, false, &[1, 4]), (1, made));
    }
}
