//! Models with one thing wrong, in the spirit of the conformance suites' `ValidateModel`.
//!
//! Each is to be refused with `INVALID_ARGUMENT` by whoever takes models. Codes outside the enums
//! can't be said with these types; whoever decodes them tests those.

use crate::types::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Version,
};
use crate::validate::operation_since;

/// A model with one thing wrong.
#[derive(Clone, Debug)]
pub struct ModelMutation {
    /// What is wrong, and where.
    pub what: String,
    /// The model.
    pub model: Model,
}

type Mutations<'a> = Box<dyn Iterator<Item = ModelMutation> + 'a>;

/// Every way to break a valid model's main graph with one change, for a version of the HAL. Lazily:
/// a large model has many, each with the model's bytes.
pub fn model_mutations(model: &Model, version: Version) -> impl Iterator<Item = ModelMutation> {
    let kinds: [Mutations<'_>; 17] = [
        Box::new(execution_order(model)),
        Box::new(ranks(model, version)),
        Box::new(scales(model)),
        Box::new(zero_points(model)),
        Box::new(lifetimes(model)),
        Box::new(unlisted_lifetimes(model)),
        Box::new(consumers(model)),
        Box::new(second_writers(model)),
        Box::new(operand_types(model, version)),
        Box::new(operation_types(model, version)),
        Box::new(operand_indexes(model)),
        Box::new(removed_writes(model)),
        Box::new(removed_operands(model, version)),
        Box::new(removed_operations(model)),
        Box::new(removed_arguments(model, version)),
        Box::new(added_arguments(model, version)),
        Box::new(locations_and_lists(model)),
    ];
    kinds.into_iter().flatten()
}

fn changed(model: &Model, what: String, change: impl FnOnce(&mut Model)) -> ModelMutation {
    let mut model = model.clone();
    change(&mut model);
    ModelMutation { what, model }
}

fn operand_mut(model: &mut Model, index: usize) -> &mut Operand {
    &mut model.main.operands[index]
}

fn at(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

fn operands(model: &Model) -> impl Iterator<Item = (usize, &Operand)> {
    model.main.operands.iter().enumerate()
}

fn operations(model: &Model) -> impl Iterator<Item = (usize, &Operation)> {
    model.main.operations.iter().enumerate()
}

/// Every output of every operation: operation, position, operand.
fn writes(model: &Model) -> impl Iterator<Item = (usize, usize, u32)> {
    operations(model).flat_map(|(operation, found)| {
        found.outputs.iter().enumerate().map(move |(slot, &operand)| (operation, slot, operand))
    })
}

fn execution_order(model: &Model) -> impl Iterator<Item = ModelMutation> {
    let pairs = operations(model).flat_map(move |(writer, written)| {
        operations(model).filter_map(move |(reader, read)| {
            let depends = read.inputs.iter().any(|input| written.outputs.contains(input));
            depends.then_some((writer, reader))
        })
    });
    pairs.flat_map(move |(writer, reader)| {
        let moves =
            [("reader before writer", reader, writer), ("writer after reader", writer, reader)];
        moves.into_iter().map(move |(what, from, to)| {
            changed(model, format!("{what}: operation {from} to {to}"), |model| {
                let operation = model.main.operations.remove(from);
                model.main.operations.insert(to, operation);
            })
        })
    })
}

fn ranks(model: &Model, version: Version) -> impl Iterator<Item = ModelMutation> {
    operands(model).filter_map(move |(index, operand)| {
        let dimensions = match operand.kind {
            OperandType::Extension(_) => return None,
            kind if kind.is_scalar() => vec![1],
            _ if version < Version::V1_2 || operand.is_constant() => Vec::new(),
            _ => return None,
        };
        let what = format!("operand {index} with dimensions {dimensions:?}");
        Some(changed(model, what, |model| operand_mut(model, index).dimensions = dimensions))
    })
}

fn scales(model: &Model) -> impl Iterator<Item = ModelMutation> {
    use OperandType as T;
    operands(model).flat_map(move |(index, operand)| {
        let bad: &[f32] = match operand.kind {
            T::Oem | T::TensorOemByte => &[],
            T::TensorInt32 => &[-1.0, f32::NAN],
            T::TensorQuant8Asymm
            | T::TensorQuant8AsymmSigned
            | T::TensorQuant8Symm
            | T::TensorQuant16Asymm
            | T::TensorQuant16Symm => &[0.0, -1.0, f32::NAN, f32::INFINITY],
            _ => &[1.0, -1.0, f32::NAN],
        };
        bad.iter().map(move |&scale| {
            changed(model, format!("operand {index} with scale {scale}"), |model| {
                operand_mut(model, index).scale = scale;
            })
        })
    })
}

fn zero_points(model: &Model) -> impl Iterator<Item = ModelMutation> {
    use OperandType as T;
    operands(model).flat_map(move |(index, operand)| {
        let bad: &[i32] = match operand.kind {
            T::Oem | T::TensorOemByte => &[],
            T::TensorQuant8Asymm => &[-1, 256, i32::MAX],
            T::TensorQuant8AsymmSigned => &[-129, 128],
            T::TensorQuant16Asymm => &[-1, 65536],
            T::TensorQuant8Symm => &[-129, -1, 1, 128],
            T::TensorQuant16Symm => &[-32769, -1, 1, 32768],
            _ => &[1, -1],
        };
        bad.iter().map(move |&zero_point| {
            changed(model, format!("operand {index} with zero point {zero_point}"), |model| {
                operand_mut(model, index).zero_point = zero_point;
            })
        })
    })
}

/// What is written becomes an input or a constant, what is not becomes a temporary or an output;
/// the lists are adjusted.
fn lifetimes(model: &Model) -> impl Iterator<Item = ModelMutation> {
    use OperandLifeTime as L;
    operands(model).flat_map(move |(index, operand)| {
        let wrong: &[L] = match operand.lifetime {
            L::TemporaryVariable | L::SubgraphOutput => &[L::SubgraphInput, L::ConstantCopy],
            L::ConstantCopy | L::ConstantReference | L::SubgraphInput => {
                &[L::TemporaryVariable, L::SubgraphOutput]
            }
            L::NoValue | L::Subgraph => &[],
        };
        wrong.iter().map(move |&lifetime| {
            changed(model, format!("operand {index} as {lifetime}, listed so"), |model| {
                set_lifetime(model, index, lifetime);
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                let main = &mut model.main;
                main.input_indexes.retain(|&listed| listed != index);
                main.output_indexes.retain(|&listed| listed != index);
                match lifetime {
                    L::SubgraphInput => main.input_indexes.push(index),
                    L::SubgraphOutput => main.output_indexes.push(index),
                    _ => {}
                }
            })
        })
    })
}

fn unlisted_lifetimes(model: &Model) -> impl Iterator<Item = ModelMutation> {
    use OperandLifeTime as L;
    operands(model).filter_map(move |(index, operand)| {
        let lifetime = match operand.lifetime {
            L::SubgraphInput => L::ConstantCopy,
            L::ConstantCopy | L::ConstantReference => L::SubgraphInput,
            L::TemporaryVariable => L::SubgraphOutput,
            L::SubgraphOutput => L::TemporaryVariable,
            L::NoValue | L::Subgraph => return None,
        };
        let what = format!("operand {index} as {lifetime}, the lists as they were");
        Some(changed(model, what, |model| set_lifetime(model, index, lifetime)))
    })
}

/// The location fits the lifetime, so that the lifetime alone is wrong.
fn set_lifetime(model: &mut Model, index: usize, lifetime: OperandLifeTime) {
    let offset = u32::try_from(model.operand_values.len()).unwrap_or(u32::MAX);
    let operand = operand_mut(model, index);
    operand.lifetime = lifetime;
    operand.location = DataLocation::default();
    if lifetime == OperandLifeTime::ConstantCopy {
        let size = operand.data_size().unwrap_or(0);
        operand.location.offset = offset;
        operand.location.length = u32::try_from(size).unwrap_or(u32::MAX);
        model.operand_values.resize(model.operand_values.len().saturating_add(size), 0);
    }
}

fn consumers(model: &Model) -> impl Iterator<Item = ModelMutation> {
    operands(model).flat_map(move |(index, operand)| {
        let count = operand.number_of_consumers;
        [count.checked_add(1), count.checked_sub(1)].into_iter().flatten().map(move |count| {
            changed(model, format!("operand {index} with {count} consumers"), |model| {
                operand_mut(model, index).number_of_consumers = count;
            })
        })
    })
}

fn second_writers(model: &Model) -> impl Iterator<Item = ModelMutation> {
    writes(model).flat_map(move |(operation, slot, written)| {
        let others = operands(model).filter(move |&(index, operand)| {
            index != at(written) && operand.kind == model.main.operands[at(written)].kind
        });
        others.map(move |(index, _)| {
            let what = format!("operation {operation} writing operand {index} as well");
            changed(model, what, |model| {
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                model.main.operations[operation].outputs[slot] = index;
            })
        })
    })
}

/// Whether every operation that uses an operand, and there is one, has a signature for it as it is
/// now: then a changed argument is another valid use, not a mutation.
fn is_accepted(model: &Model, version: Version, uses: impl Fn(&Operation) -> bool) -> bool {
    let mut users = model.main.operations.iter().filter(|operation| uses(operation));
    users.all(|operation| {
        operation_since(operation, &model.main).is_ok_and(|since| since <= version)
    })
}

fn operand_types(model: &Model, version: Version) -> impl Iterator<Item = ModelMutation> {
    operands(model).flat_map(move |(index, operand)| {
        let others = OperandType::BASE.iter().filter(move |&&kind| kind != operand.kind);
        others.filter_map(move |&kind| {
            let mutation = changed(model, format!("operand {index} as {kind}"), |model| {
                retype(operand_mut(model, index), kind);
            });
            let uses = |operation: &Operation| {
                let mut arguments = operation.inputs.iter().chain(&operation.outputs);
                arguments.any(|&argument| at(argument) == index)
            };
            (!is_accepted(&mutation.model, version, uses)).then_some(mutation)
        })
    })
}

/// Another type with attributes that suit it.
fn retype(operand: &mut Operand, kind: OperandType) {
    use OperandType as T;
    operand.kind = kind;
    operand.extra_params = crate::ExtraParams::None;
    operand.zero_point = 0;
    operand.scale = match kind {
        T::TensorQuant8Asymm
        | T::TensorQuant8AsymmSigned
        | T::TensorQuant8Symm
        | T::TensorQuant16Asymm
        | T::TensorQuant16Symm => 1.0,
        _ => 0.0,
    };
    if kind.is_scalar() {
        operand.dimensions.clear();
    } else if operand.dimensions.is_empty() {
        operand.dimensions.push(1);
    }
}

fn operation_types(model: &Model, version: Version) -> impl Iterator<Item = ModelMutation> {
    operations(model).flat_map(move |(index, operation)| {
        let others = OperationType::BASE
            .iter()
            .filter(move |&&kind| kind != operation.kind && kind != OperationType::OemOperation);
        others.filter_map(move |&kind| {
            let mutation = changed(model, format!("operation {index} as {kind}"), |model| {
                model.main.operations[index].kind = kind;
            });
            let control_flow = matches!(kind, OperationType::If | OperationType::While);
            let changed = &mutation.model.main.operations[index];
            let takes_it =
                operation_since(changed, &mutation.model.main).is_ok_and(|since| since <= version);
            (control_flow || !takes_it).then_some(mutation)
        })
    })
}

fn operand_indexes(model: &Model) -> impl Iterator<Item = ModelMutation> {
    let count = u32::try_from(model.main.operands.len()).unwrap_or(u32::MAX);
    operations(model).flat_map(move |(index, operation)| {
        [count, u32::MAX].into_iter().flat_map(move |bad| {
            let inputs = (0..operation.inputs.len()).map(move |slot| {
                changed(model, format!("input {slot} of operation {index} is {bad}"), |model| {
                    model.main.operations[index].inputs[slot] = bad;
                })
            });
            let outputs = (0..operation.outputs.len()).map(move |slot| {
                changed(model, format!("output {slot} of operation {index} is {bad}"), |model| {
                    model.main.operations[index].outputs[slot] = bad;
                })
            });
            inputs.chain(outputs)
        })
    })
}

/// An output goes to a new temporary; what it was is never written.
fn removed_writes(model: &Model) -> impl Iterator<Item = ModelMutation> {
    writes(model).map(move |(operation, slot, operand)| {
        changed(model, format!("operand {operand} is not written"), |model| {
            let fresh = add_temporary(model, at(operand));
            model.main.operations[operation].outputs[slot] = fresh;
        })
    })
}

fn add_temporary(model: &mut Model, like: usize) -> u32 {
    let mut operand = model.main.operands[like].clone();
    operand.lifetime = OperandLifeTime::TemporaryVariable;
    operand.number_of_consumers = 0;
    operand.location = DataLocation::default();
    model.main.operands.push(operand);
    u32::try_from(model.main.operands.len().saturating_sub(1)).unwrap_or(u32::MAX)
}

/// What used an operand goes without it; the indexes of those behind it move up.
fn removed_operands(model: &Model, version: Version) -> impl Iterator<Item = ModelMutation> {
    operands(model).filter_map(move |(index, _)| {
        let mutation = changed(model, format!("operand {index} removed"), |model| {
            let main = &mut model.main;
            main.operands.remove(index);
            let used = main.operations.iter_mut().flat_map(|it| [&mut it.inputs, &mut it.outputs]);
            for list in used.chain([&mut main.input_indexes, &mut main.output_indexes]) {
                list.retain(|&operand| at(operand) != index);
                list.iter_mut().filter(|operand| at(**operand) > index).for_each(|it| *it -= 1);
            }
        });
        let broken =
            operations(&mutation.model).any(|(at, _)| !takes(&mutation.model, at, version));
        broken.then_some(mutation)
    })
}

fn removed_operations(model: &Model) -> impl Iterator<Item = ModelMutation> {
    operations(model).filter(|(_, operation)| !operation.outputs.is_empty()).map(|(index, _)| {
        changed(model, format!("operation {index} removed"), |model| {
            let removed = model.main.operations.remove(index);
            for input in removed.inputs {
                let operand = operand_mut(model, at(input));
                operand.number_of_consumers = operand.number_of_consumers.saturating_sub(1);
            }
        })
    })
}

fn removed_arguments(model: &Model, version: Version) -> impl Iterator<Item = ModelMutation> {
    operations(model).flat_map(move |(index, operation)| {
        let inputs = (0..operation.inputs.len()).filter_map(move |slot| {
            let what = format!("input {slot} of operation {index} removed");
            let mutation = changed(model, what, |model| {
                let input = model.main.operations[index].inputs.remove(slot);
                let operand = operand_mut(model, at(input));
                operand.number_of_consumers = operand.number_of_consumers.saturating_sub(1);
            });
            (!takes(&mutation.model, index, version)).then_some(mutation)
        });
        let outputs = (0..operation.outputs.len()).map(move |slot| {
            changed(model, format!("output {slot} of operation {index} removed"), |model| {
                model.main.operations[index].outputs.remove(slot);
            })
        });
        inputs.chain(outputs)
    })
}

fn added_arguments(model: &Model, version: Version) -> impl Iterator<Item = ModelMutation> {
    operations(model).flat_map(move |(index, operation)| {
        let input = operation.inputs.first().copied().map(|first| {
            changed(model, format!("one more input for operation {index}"), |model| {
                model.main.operations[index].inputs.push(first);
                operand_mut(model, at(first)).number_of_consumers += 1;
            })
        });
        let output = operation.outputs.first().copied().map(|first| {
            changed(model, format!("one more output for operation {index}"), |model| {
                let fresh = add_temporary(model, at(first));
                model.main.operations[index].outputs.push(fresh);
            })
        });
        [input, output]
            .into_iter()
            .flatten()
            .filter(move |mutation| !takes(&mutation.model, index, version))
    })
}

/// Whether an operation may be what it is now; of control flow the signatures say nothing.
fn takes(model: &Model, index: usize, version: Version) -> bool {
    let operation = &model.main.operations[index];
    operation_since(operation, &model.main).is_ok_and(|since| since <= version)
}

/// What is wrong, and the change that makes it so.
type Change<T> = (&'static str, fn(&mut T));

fn locations_and_lists(model: &Model) -> impl Iterator<Item = ModelMutation> {
    let constants = operands(model).filter(|(_, operand)| {
        let unchecked = [OperandType::Oem, OperandType::TensorOemByte];
        operand.is_constant() && !unchecked.contains(&operand.kind)
    });
    let constants = constants.flat_map(move |(index, _)| {
        let changes: [Change<DataLocation>; 5] = [
            ("one byte longer", |l| l.length = l.length.wrapping_add(1)),
            ("one byte shorter", |l| l.length = l.length.wrapping_sub(1)),
            ("past the end", |l| l.offset = u32::MAX),
            ("longer than everything", |l| l.length = u32::MAX),
            ("in another pool", |l| l.pool_index = u32::MAX),
        ];
        changes.into_iter().map(move |(what, change)| {
            changed(model, format!("constant {index} {what}"), |model| {
                change(&mut operand_mut(model, index).location);
            })
        })
    });
    let lists: [Change<Model>; 5] = [
        ("an input listed twice", |model| double(&mut model.main.input_indexes)),
        ("an output listed twice", |model| double(&mut model.main.output_indexes)),
        ("an input of no operand", |model| model.main.input_indexes.push(u32::MAX)),
        ("no operations", |model| model.main.operations.clear()),
        ("no operands", |model| model.main.operands.clear()),
    ];
    let lists =
        lists.into_iter().map(move |(what, change)| changed(model, what.to_owned(), change));
    constants.chain(lists)
}

/// A list that is empty gets an index that isn't listed right either.
fn double(list: &mut Vec<u32>) {
    list.push(list.first().copied().unwrap_or(u32::MAX));
}
