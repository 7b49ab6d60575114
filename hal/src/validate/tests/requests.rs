//! Requests.

use super::*;
use crate::memory::Memory;
use crate::testing::{relu_model, relu_request};
use crate::types::{Request, RequestArgument, RequestPool, Version};
use crate::validate::{AllowUnspecifiedOutput as Allow, validate_request};

fn refusal(
    model: &Model,
    version: Version,
    allow: Allow,
    change: impl FnOnce(&mut Request),
) -> String {
    let (mut request, _memory) = relu_request(&[1.0, 2.0]).unwrap();
    change(&mut request);
    let checked = validate_request(&request, model, version, allow);
    checked.map_err(|error| error.to_string()).err().unwrap_or_default()
}

#[test]
fn rules() {
    struct Case {
        what: &'static str,
        change: fn(&mut Request),
        refusal: &'static str,
    }
    let cases = [
        Case { what: "valid", change: |_| {}, refusal: "" },
        Case {
            what: "no input",
            change: |r| r.inputs.clear(),
            refusal: "request: 0 inputs for a model with 1",
        },
        Case {
            what: "two outputs",
            change: |r| r.outputs.push(RequestArgument::default()),
            refusal: "request: 2 outputs for a model with 1",
        },
        Case {
            what: "left out",
            change: |r| {
                r.inputs[0] = RequestArgument { has_no_value: true, ..Default::default() };
            },
            refusal: "",
        },
        Case {
            what: "left out, with a place",
            change: |r| r.inputs[0].has_no_value = true,
            refusal: "input 0 of the request: an argument left out has neither location nor dimensions",
        },
        Case {
            what: "no pool",
            change: |r| r.outputs[0].location.pool_index = 1,
            refusal: "output 0 of the request: there is no pool 1 of 1",
        },
        Case {
            what: "past the end, and past 32 bits",
            change: |r| r.outputs[0].location.offset = u32::MAX,
            refusal: "output 0 of the request: bytes 4294967295..4294967295+8 are not within 16 bytes",
        },
        Case {
            what: "the model's shape said again",
            change: |r| r.inputs[0].dimensions = vec![2],
            refusal: "",
        },
        Case {
            what: "another shape",
            change: |r| r.inputs[0].dimensions = vec![1],
            refusal: "input 0 of the request: dimension 0 is 1 for a model with 2",
        },
        Case {
            what: "another rank",
            change: |r| r.outputs[0].dimensions = vec![2, 1],
            refusal: "output 0 of the request: 2 dimensions for a model with 1",
        },
        Case {
            what: "an input too short",
            change: |r| r.inputs[0].location.length = 7,
            refusal: "input 0 of the request: 7 bytes are too short for 8",
        },
        Case {
            what: "an output too short is found while executing",
            change: |r| r.outputs[0].location.length = 7,
            refusal: "",
        },
        Case {
            what: "offset 0 and length 0 are the whole pool",
            change: |r| r.inputs[0].location.length = 0,
            refusal: "",
        },
        Case {
            what: "no buffer",
            change: |r| r.pools.push(RequestPool::Token(0)),
            refusal: "pool 1: token 0 is no buffer",
        },
        Case {
            what: "a buffer, whole",
            change: |r| {
                r.pools.push(RequestPool::Token(3));
                r.inputs[0].location = DataLocation { pool_index: 1, offset: 0, length: 0 };
            },
            refusal: "",
        },
        Case {
            what: "part of a buffer",
            change: |r| {
                r.pools.push(RequestPool::Token(3));
                r.inputs[0].location.pool_index = 1;
            },
            refusal: "input 0 of the request: bytes 0..0+8 are not within 0 bytes",
        },
    ];
    for Case { what, change, refusal: expected } in cases {
        let got = refusal(&relu_model(&[2]), Version::V1_3, Allow::Yes, change);
        assert_eq!(got, expected, "{what}");
    }
}

#[test]
fn unknown_shapes() {
    let extent = relu_model(&[0]);
    let rank = relu_model(&[]);
    let give = |dimensions: &'static [u32]| {
        move |request: &mut Request| request.inputs[0].dimensions = dimensions.to_vec()
    };
    let unknown_extent = "input 0 of the request: dimension 0 is unknown";
    assert_eq!(refusal(&extent, Version::V1_3, Allow::Yes, |_| {}), unknown_extent);
    assert_eq!(refusal(&extent, Version::V1_3, Allow::Yes, give(&[0])), unknown_extent);
    assert_eq!(refusal(&extent, Version::V1_3, Allow::Yes, give(&[2])), "");
    assert_eq!(
        refusal(&extent, Version::V1_3, Allow::Yes, give(&[3])),
        "input 0 of the request: 8 bytes are too short for 12"
    );
    assert_eq!(
        refusal(&rank, Version::V1_3, Allow::Yes, |_| {}),
        "input 0 of the request: the rank is unknown; the request gives no dimensions"
    );
    assert_eq!(refusal(&rank, Version::V1_3, Allow::Yes, give(&[1, 2])), "");
    let fenced = "output 0 of the request: dimension 0 is unknown";
    assert_eq!(refusal(&extent, Version::V1_3, Allow::No, give(&[2])), fenced);
    assert_eq!(refusal(&extent, Version::V1_1, Allow::Yes, give(&[2])), fenced);
    let both = |request: &mut Request| {
        request.inputs[0].dimensions = vec![2];
        request.outputs[0].dimensions = vec![2];
    };
    assert_eq!(refusal(&extent, Version::V1_1, Allow::Yes, both), "");
    let huge = |request: &mut Request| request.inputs[0].dimensions = vec![u32::MAX; 9];
    assert_eq!(
        refusal(&rank, Version::V1_3, Allow::Yes, huge),
        "input 0 of the request: the tensor has more than 2^32 - 1 bytes"
    );
}

#[test]
fn a_hardware_buffer_with_a_format_is_used_whole() {
    let with_image = |location: DataLocation| {
        move |request: &mut Request| {
            let fd = Memory::ashmem(8).unwrap().fd().try_clone_to_owned().unwrap();
            let image = Memory::from_handle("hardware_buffer", vec![fd], vec![], 0).unwrap();
            request.pools.push(RequestPool::Memory(image));
            request.inputs[0].location = location;
        }
    };
    let whole = DataLocation { pool_index: 1, offset: 0, length: 0 };
    assert_eq!(refusal(&relu_model(&[2]), Version::V1_3, Allow::Yes, with_image(whole)), "");
    let part = DataLocation { length: 8, ..whole };
    assert_eq!(
        refusal(&relu_model(&[2]), Version::V1_3, Allow::Yes, with_image(part)),
        "input 0 of the request: bytes 0..0+8 are not within 0 bytes"
    );
}

#[test]
fn buffers_need_the_newest_version() {
    let got = refusal(&relu_model(&[2]), Version::V1_2, Allow::Yes, |request| {
        request.pools.push(RequestPool::Token(3));
    });
    assert_eq!(got, "pool 1: driver-managed buffers need HAL V1_3, this is V1_2");
}

#[test]
fn scalars_have_no_dimensions() {
    let mut model = relu_model(&[2]);
    model.main.operands[0] = operand(T::Int32, &[], L::SubgraphInput, 1);
    assert_eq!(refusal(&model, Version::V1_3, Allow::Yes, |_| {}), "");
    let got = refusal(&model, Version::V1_3, Allow::Yes, |r| r.inputs[0].dimensions = vec![1]);
    assert_eq!(got, "input 0 of the request: 1 dimensions for a model with 0");
}
