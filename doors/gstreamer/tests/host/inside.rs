//! Hosts that are this program itself, for what gst-launch doesn't do.

use std::path::Path;
use std::time::Duration;

use gst::prelude::*;
use gst_check::Harness;
use nnburst_hal::testing::stop_process;

/// A host that this program can be.
type Inside = (&'static str, fn(&[String]));

const HOSTS: &[Inside] = &[
    ("stopped-video", stopped_video),
    ("stopped-sound", stopped_sound),
    ("appsrc", appsrc),
    ("wrong-caps", wrong_caps),
    ("exchanged", exchanged),
    ("forked", forked),
    ("unloaded", unloaded),
];

/// Runs the host that the arguments name, if they do.
pub(crate) fn run(args: &[String]) -> bool {
    let Some((name, rest)) = args.split_first() else { return false };
    let Some((_, host)) = HOSTS.iter().find(|(host, _)| host == name) else { return false };
    gst::init().unwrap();
    if *name != "unloaded" {
        gstnnburst::plugin_register_static().unwrap();
    }
    host(rest);
    true
}

fn parse(pipeline: &str) -> gst::Pipeline {
    gst::parse::launch(pipeline).unwrap().downcast().unwrap()
}

fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

/// Without an end to the wait for the driver, this would not come back.
fn stopped_video(args: &[String]) {
    let pipeline = parse(&format!(
        "videotestsrc is-live=true ! nnbinference name=nn model-file={:?} \
         device=spawn/nnburst-cpu drop=none ! fakesink",
        args[0]
    ));
    let element = pipeline.by_name("nn").unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    let count = |name: &str| element.property::<u64>(name);
    while count("inferred") < 5 {
        pause();
    }
    stop_process(element.property("driver-pid")).unwrap();
    let before = count("frames");
    while count("frames") <= before {
        pause();
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(count("frames"), before + 1, "one frame waits for the driver");
    pipeline.set_state(gst::State::Ready).unwrap();
    pipeline.set_state(gst::State::Null).unwrap();
}

/// The same for sound, with a limit that no test waits for; and the sound after a flush.
fn stopped_sound(args: &[String]) {
    let pipeline = parse(&format!(
        "audiotestsrc is-live=true samplesperbuffer=160 ! audio/x-raw,rate=16000,channels=1 ! \
         audioconvert ! nnbdenoise name=nn model-1={:?} model-2={:?} device=spawn/nnburst-cpu \
         max-latency=3600000000000 ! fakesink",
        args[0], args[1]
    ));
    let element = pipeline.by_name("nn").unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    let count = |name: &str| element.property::<u64>(name);
    while count("blocks") < 50 {
        pause();
    }
    let driver: u32 = element.property("driver-pid");
    stop_process(driver).unwrap();
    let mut before = count("blocks");
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = count("blocks");
        if now == before {
            break; // a block waits for the driver
        }
        before = now;
    }
    assert_eq!(count("misses"), 0);
    let sink = element.static_pad("sink").unwrap();
    assert!(sink.send_event(gst::event::FlushStart::new()));
    while count("misses") == 0 {
        pause();
    }
    pipeline.set_state(gst::State::Ready).unwrap();
    pipeline.set_state(gst::State::Null).unwrap();
}

/// Frames of an application, in memory of its own.
fn appsrc(args: &[String]) {
    let pipeline = parse(&format!(
        "appsrc name=app format=time caps=video/x-raw,format=RGB,width=64,height=48,framerate=30/1 \
         ! videoconvert ! videoscale ! nnbinference name=nn model-file={:?} ! fakesink name=sink",
        args[0]
    ));
    let source = pipeline.by_name("app").unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    for number in 0..30u64 {
        let pixels = vec![u8::try_from(number).unwrap(); 64 * 48 * 3];
        let mut buffer = gst::Buffer::from_slice(pixels);
        let frame = buffer.get_mut().unwrap();
        frame.set_pts(gst::ClockTime::from_mseconds(33 * number));
        frame.set_duration(gst::ClockTime::from_mseconds(33));
        let pushed: gst::FlowReturn = source.emit_by_name("push-buffer", &[&buffer]);
        assert_eq!(pushed, gst::FlowReturn::Ok);
    }
    let ended: gst::FlowReturn = source.emit_by_name("end-of-stream", &[]);
    assert_eq!(ended, gst::FlowReturn::Ok);
    let end = end(&pipeline);
    assert_eq!(end.type_(), gst::MessageType::Eos, "{end:?}");
    let element = pipeline.by_name("nn").unwrap();
    assert_eq!(element.property::<u64>("inferred"), 30);
    pipeline.set_state(gst::State::Null).unwrap();
}

/// Caps that the model doesn't take, at a point where no element can convert them any more: the
/// element says what is wrong with them before upstream says that nothing is negotiated.
fn wrong_caps(args: &[String]) {
    let network = Path::new(&args[0]).ancestors().nth(2).unwrap().join("dtln_float_1/model.tflite");
    let second = network.to_str().unwrap().replace("float_1", "float_2");
    for (element, given, parts) in [
        (
            format!("nnbinference model-file={:?}", args[0]),
            "video/x-raw,format=RGB,width=64,height=48,framerate=30/1",
            ["takes video/x-raw", "width=(int)128", "and was given", "width=(int)64"],
        ),
        (
            format!("nnbdenoise model-1={network:?} model-2={second:?}"),
            "audio/x-raw,format=F32LE,rate=44100,channels=1,layout=interleaved",
            ["takes audio/x-raw", "rate=(int)16000", "and was given", "rate=(int)44100"],
        ),
    ] {
        let pipeline = parse(&format!("appsrc name=app format=time ! {element} ! fakesink"));
        let source = pipeline.by_name("app").unwrap();
        pipeline.set_state(gst::State::Playing).unwrap();
        source.set_property("caps", given.parse::<gst::Caps>().unwrap());
        let buffer = gst::Buffer::with_size(64 * 48 * 3).unwrap();
        let _: gst::FlowReturn = source.emit_by_name("push-buffer", &[&buffer]);
        let end = end(&pipeline);
        let gst::MessageView::Error(error) = end.view() else { unreachable!("{end:?}") };
        let text = error.error().message().to_owned();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        pipeline.set_state(gst::State::Null).unwrap();
    }
}

/// A pipeline whose model is exchanged for one that takes larger pictures, and back, in READY.
fn exchanged(args: &[String]) {
    let pipeline = parse(
        "videotestsrc num-buffers=5 ! videoconvert ! videoscale ! nnbinference name=nn ! fakesink",
    );
    let element = pipeline.by_name("nn").unwrap();
    for (model, side) in [(&args[0], 128), (&args[1], 160), (&args[0], 128)] {
        element.set_property("model-file", model);
        pipeline.set_state(gst::State::Playing).unwrap();
        let end = end(&pipeline);
        assert_eq!(end.type_(), gst::MessageType::Eos, "{end:?}");
        let caps = element.static_pad("sink").unwrap().current_caps().unwrap();
        assert_eq!(caps.structure(0).unwrap().get::<i32>("width").unwrap(), side);
        assert_eq!(element.property::<u64>("inferred"), 5);
        pipeline.set_state(gst::State::Ready).unwrap();
    }
    pipeline.set_state(gst::State::Null).unwrap();
}

/// The message that ends a pipeline: the end of its stream, or its first error.
fn end(pipeline: &gst::Pipeline) -> gst::Message {
    let ends = [gst::MessageType::Eos, gst::MessageType::Error];
    pipeline.bus().unwrap().timed_pop_filtered(gst::ClockTime::NONE, &ends).unwrap()
}

/// A host that forks in mid stream: the child's frames go on without results, the parent's with.
fn forked(args: &[String]) {
    let element = gst::ElementFactory::make("nnbinference").build().unwrap();
    element.set_property("model-file", &args[0]);
    element.set_property("device", "spawn/nnburst-cpu");
    let bus = gst::Bus::new();
    element.set_bus(Some(&bus));
    let mut harness = Harness::with_element(&element, Some("sink"), Some("src"));
    harness.set_src_caps_str("video/x-raw,format=RGB,width=128,height=128,framerate=30/1");
    let mut push = || {
        let buffer = gst::Buffer::with_size(128 * 128 * 3).unwrap();
        harness.push_and_pull(buffer).unwrap();
        element.property::<u64>("inferred")
    };
    assert_eq!((push(), push()), (1, 2));
    // SAFETY: the child uses the element, which is made for this, on the one thread that pushes,
    // and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let inferred = push();
        let warnings = std::iter::from_fn(|| bus.pop_filtered(&[gst::MessageType::Warning]));
        let texts: Vec<String> = warnings.filter_map(warning).collect();
        let is_told = texts.iter().any(|text| text.contains("forked"));
        if inferred != 2 || !is_told {
            eprintln!("{inferred} inferred; {texts:?}");
        }
        // SAFETY: ends the process without the destructors of its parent's threads.
        unsafe { libc::_exit(i32::from(inferred != 2 || !is_told)) };
    }
    let mut status = -1;
    // SAFETY: `child` is a child of this process, and `status` an int.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's frame goes on, and it is told");
    assert_eq!((push(), push()), (3, 4), "the parent is unharmed");
}

/// The text of a warning on a bus.
#[expect(clippy::needless_pass_by_value, reason = "it is mapped over messages")]
fn warning(message: gst::Message) -> Option<String> {
    let gst::MessageView::Warning(warning) = message.view() else { return None };
    Some(warning.error().message().to_owned())
}

/// A host that unloads the plugin's library: it stays mapped.
fn unloaded(args: &[String]) {
    for _ in 0..3 {
        // SAFETY: the library's constructors are Rust's own.
        let library = unsafe { libloading::Library::new(&args[0]) }.unwrap();
        // SAFETY: GStreamer's function of a plugin, which returns a pointer to its description.
        let description = unsafe {
            library.get::<extern "C" fn() -> *const u8>(b"gst_plugin_nnburst_get_desc\0").unwrap()
        };
        assert!(!description().is_null());
        library.close().unwrap();
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps.contains("libgstnnburst.so"), "its threads and handlers need it");
}
