//! Memories with roles: a device's own or shared, their state, and copies between them.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use nnburst::hal::{Access, DataLocation, Direction, Request, RequestArgument, RequestPool};
use nnburst::{
    Compilation, CompileOptions, Device, Memory, MemoryDescriptor, ResultCode, builtin, compile,
    compile_for,
};

/// On a device whose memory is its own.
fn explicit() -> Compilation {
    let device = Device::embedded("nnapi-sample_all").unwrap();
    compile_for(&builtin::model("add1").unwrap(), &[device], &CompileOptions::default()).unwrap()
}

fn described(roles: &[(&Compilation, Direction, usize)]) -> MemoryDescriptor {
    let mut descriptor = MemoryDescriptor::new();
    for &(compilation, direction, index) in roles {
        descriptor.add_role(compilation, direction, index, 1.0).unwrap();
    }
    descriptor.finish().unwrap();
    descriptor
}

fn shared(value: f32) -> Memory {
    let memory = Memory::new(4).unwrap();
    let mapping = memory.shared().unwrap().map(Access::ReadWrite).unwrap();
    mapping.view_mut(0..4).unwrap().copy_from_slice(&value.to_le_bytes());
    memory
}

fn value(memory: &Memory) -> f32 {
    let mut bytes = [0; 4];
    memory.shared().unwrap().read_at(0, &mut bytes).unwrap();
    f32::from_le_bytes(bytes)
}

/// `a + b` into `out`, all of each.
fn add(compilation: &Compilation, a: &Memory, b: &Memory, out: &Memory) -> nnburst::Result<()> {
    let argument = |memory: &Memory, pool_index| RequestArgument {
        has_no_value: false,
        location: DataLocation {
            pool_index,
            offset: 0,
            length: if memory.has_roles() { 0 } else { 4 },
        },
        dimensions: Vec::new(),
    };
    let request = Request {
        inputs: vec![argument(a, 0), argument(b, 1)],
        outputs: vec![argument(out, 2)],
        pools: vec![a.pool(), b.pool(), out.pool()],
    };
    a.check_input(&[])?;
    b.check_input(&[])?;
    let result = compilation.execution().compute_request(&request);
    match &result {
        Ok(outcome) => out.written(Some(&outcome.output_shapes[0].dimensions)),
        Err(_) => out.written(None),
    }
    result.map(drop)
}

#[test]
fn one_device_with_all_the_roles_gives_memory_of_its_own() {
    let compilation = explicit();
    let [input, output] = [Direction::Input, Direction::Output];
    let own = described(&[(&compilation, output, 0), (&compilation, input, 0)]);
    let (first, second) = (own.create_memory().unwrap(), own.create_memory().unwrap());
    assert!(matches!(first.pool(), RequestPool::Token(token) if token != 0));
    assert!(first.shared().is_none());
    let never = add(&compilation, &first, &shared(1.0), &second).unwrap_err();
    assert_eq!(never.code(), ResultCode::OpFailed, "never written: {never}");
    add(&compilation, &shared(1.0), &shared(2.0), &first).unwrap();
    add(&compilation, &first, &shared(10.0), &second).unwrap();
    let read = shared(0.0);
    Memory::copy(&second, &read).unwrap();
    assert!((value(&read) - 13.0).abs() < f32::EPSILON);
    Memory::copy(&first, &second).unwrap();
    Memory::copy(&second, &read).unwrap();
    assert!((value(&read) - 3.0).abs() < f32::EPSILON, "from one device memory to the other");
    Memory::copy(&shared(5.0), &first).unwrap();
    Memory::copy(&first, &read).unwrap();
    assert!((value(&read) - 5.0).abs() < f32::EPSILON);
    Memory::copy(&first, &first).unwrap();
}

#[test]
fn roles_and_ranges_are_checked() {
    let compilation = explicit();
    let memory = described(&[(&compilation, Direction::Input, 0)]).create_memory().unwrap();
    let place = |direction, index, length| memory.place(&compilation, direction, index, 0, length);
    assert!(place(Direction::Input, 0, 0).is_ok());
    assert_eq!(place(Direction::Input, 1, 0).unwrap_err().code(), ResultCode::BadData);
    assert!(place(Direction::Output, 0, 0).is_err());
    assert!(place(Direction::Input, 0, 4).is_err(), "it is used whole");
    assert!(memory.place(&explicit(), Direction::Input, 0, 0, 0).is_err(), "another compilation");
    assert!(memory.place_constant(0, 4).is_err());
    let plain = shared(1.0);
    assert!(plain.place(&compilation, Direction::Input, 0, 0, 4).is_ok());
    assert!(plain.place(&compilation, Direction::Input, 0, 2, 4).is_err());
    assert!(Memory::copy(&memory, &plain).is_err(), "never written");
    let long = Memory::new(8).unwrap();
    assert!(Memory::copy(&plain, &long).is_err(), "of another size");
    assert!(Memory::copy(&long, &memory).is_err(), "of another size");
}

#[test]
fn without_a_named_device_shared_memory_will_do() {
    let model = builtin::model("add1").unwrap();
    let compilation = compile(&model, &CompileOptions::default()).unwrap();
    let memory = described(&[(&compilation, Direction::Output, 0)]).create_memory().unwrap();
    let blob = memory.shared().unwrap();
    assert_eq!((blob.size(), blob.kind().name()), (4, "hardware_buffer_blob"));
    add(&compilation, &shared(2.0), &shared(3.0), &memory).unwrap();
    assert!((value(&memory) - 5.0).abs() < f32::EPSILON);

    // Two devices that were named, neither of which has all the roles.
    let (one, other) = (explicit(), explicit());
    let spread = described(&[(&one, Direction::Output, 0), (&other, Direction::Input, 0)]);
    assert_eq!(spread.create_memory().unwrap_err().code(), ResultCode::OpFailed);
}

#[test]
fn descriptors_say_what_is_wrong() {
    let compilation = explicit();
    let mut descriptor = MemoryDescriptor::new();
    assert_eq!(descriptor.create_memory().unwrap_err().code(), ResultCode::BadState);
    assert_eq!(descriptor.finish().unwrap_err().code(), ResultCode::BadData, "no role");
    let mut bad = |index, frequency| {
        descriptor.add_role(&compilation, Direction::Input, index, frequency).unwrap_err().code()
    };
    for (index, frequency) in [(2, 1.0), (0, 0.0), (0, -1.0), (0, 1.5), (0, f32::NAN)] {
        assert_eq!(bad(index, frequency), ResultCode::BadData, "{index} {frequency}");
    }
    descriptor.add_role(&compilation, Direction::Input, 0, 0.5).unwrap();
    assert!(descriptor.add_role(&compilation, Direction::Input, 0, 0.5).is_err(), "twice");
    assert!(descriptor.set_dimensions(&[7, 7]).is_err(), "the role says otherwise");
    let sine = builtin::model("mobilenet_v1_0.25_128").unwrap();
    let other = compile(&sine, &CompileOptions::default()).unwrap();
    assert!(descriptor.add_role(&other, Direction::Input, 0, 1.0).is_err(), "of another shape");
    descriptor.finish().unwrap();
    assert_eq!(descriptor.finish().unwrap_err().code(), ResultCode::BadState);
    assert_eq!(descriptor.set_dimensions(&[]).unwrap_err().code(), ResultCode::BadState);
}
