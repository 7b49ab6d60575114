//! The plugin in hosts: gst-launch, gst-inspect, tracers, a driver that is killed.
//!
//! The driver is this program again (`serve --driver NAME --fd 0`), hence a `main` of its own.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test that can't go on stops")]

mod host;

use std::time::Duration;

use gst::prelude::*;
use host::{CLI, Host};
use nnburst_conformance::shared_dir;
use nnburst_hal::testing::stop_process;

/// A test and what it shows.
type Test = (&'static str, fn(&Host));

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, _, driver, _, fd, ..] = &args[..]
        && serve == "serve"
    {
        nnburst::serve_inherited(driver, fd.parse().unwrap(), &Default::default()).unwrap();
        return;
    }
    if let [inside, model] = &args[..]
        && inside == INSIDE
    {
        return change_state_while_stopped(model);
    }
    let filter = args.iter().find(|arg| !arg.starts_with('-'));
    let (Some(models), Some(more)) = (shared_dir("models"), shared_dir("mlts")) else { return };
    let host = Host::new(models, more);
    let tests: &[Test] = &[
        ("every property has a blurb", properties),
        ("labels of photos are those of nnburst run", photos),
        ("boxes of photos are those of the goldens", boxes),
        ("masks of photos are those of the goldens", masks),
        ("a killed driver is restarted and the stream goes on", killed),
        ("a stopped driver holds up no change of state", stopped),
        ("two elements, tees, a JPEG camera, tensors", pipelines),
        ("speech is denoised as the reference is", speech),
        ("nothing leaks", leaks),
        ("the latency tracer sees the element", latency),
        ("descriptors and memory stay constant", constant),
    ];
    for (name, test) in tests {
        if filter.is_none_or(|filter| name.contains(filter.as_str())) {
            println!("test {name} ...");
            test(&host);
        }
    }
}

fn properties(host: &Host) {
    for (element, own) in [("nnbinference", 24), ("nnbdenoise", 10)] {
        let text = host.run("gst-inspect-1.0", &[element]).stdout;
        let listed = text.split("Element Properties:").nth(1).unwrap();
        let names: Vec<&str> = listed
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_once(':'))
            .inspect(|(name, blurb)| assert!(blurb.trim().len() > 8, "{name}: {blurb}"))
            .map(|(name, _)| name.trim())
            .collect();
        // GStreamer's own: name, parent, qos.
        assert_eq!(names.len(), own + 3, "{names:?}");
    }
}

/// Photos through jpegdec and videoscale. The pixels that the model saw come out again, so the
/// command is given the same ones: decoders differ from each other, and videoscale from Pillow.
fn photos(host: &Host) {
    let model = host.models.join("mobilenet_v1_0.5_160_quant/model.tflite");
    let labels = host.models.join("imagenet_labels_1001.txt");
    let pixels = host.dir.path().join("pixels.rgb");
    let (mut same, mut all) = (0, 0);
    for number in [0, 1, 2, 5, 7, 11, 13, 19] {
        let photo = host.models.join(format!("photos/image-{number}.jpeg"));
        let element = format!("nnbinference model-file={model:?} labels={labels:?} top-k=5");
        let results = host.launch(&format!(
            "filesrc location={photo:?} ! jpegdec ! videoconvert ! videoscale ! {element} ! \
             filesink location={pixels:?}"
        ));
        assert_eq!(results.len(), 1, "{photo:?}");
        let Some(cli) = host.cli() else { continue };
        let run = |input: &[&str]| -> Vec<String> {
            let path = [model.to_str().unwrap(), "--labels", labels.to_str().unwrap()];
            let device = ["--device", "embedded:nnburst-cpu", "--top", "5"];
            let args: Vec<&str> = ["run"].into_iter().chain(path).chain(device).collect();
            let text = host.run(cli, &[args, input.to_vec()].concat()).stdout;
            let top = text.lines().take(5).map(|line| line.trim().to_owned());
            top.map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ")).collect()
        };
        let from_pixels = run(&["--input", &format!("0={}", pixels.display())]);
        assert_eq!(results[0].texts("labels"), from_pixels, "{photo:?}, the same pixels");
        // The command's own decoder, crop and filter: the same picture, other pixels.
        let from_photo = run(&["--image", photo.to_str().unwrap()]);
        all += 1;
        same += usize::from(from_pixels.iter().any(|label| *label == from_photo[0]));
    }
    // The crop is another one as well (7/8 there, all here), so a few of the best may differ.
    assert!(same * 4 >= all * 3, "{same} of {all} photos have the command's best label among five");
    println!("  {CLI}: {same} of {all} agree across decoders");
}

fn boxes(host: &Host) {
    let folder = host.more.join("ssd_mobilenet_v1_coco_quant");
    let model = folder.join("model.tflite");
    let labels = host.more.join("labels/coco_labels.txt");
    // The golden's own pixels, as a file of one frame.
    for case in ["cats_and_dogs", "cat_720p"] {
        let input = folder.join(format!("{case}.in0"));
        let [classes, scores] =
            [1, 2].map(|at| host::floats(&folder.join(format!("{case}.out{at}"))));
        let caps = "video/x-raw,format=RGB,width=300,height=300,framerate=1/1";
        let results = host.launch(&format!(
            "filesrc location={input:?} blocksize=270000 ! {caps} ! nnbinference \
             model-file={model:?} labels={labels:?} threshold=0.5 ! fakesink"
        ));
        let strong = scores.iter().filter(|score| **score >= 0.5).count();
        let names = std::fs::read_to_string(&labels).unwrap();
        let names: Vec<&str> = names.lines().collect();
        let golden: Vec<&str> =
            classes.iter().take(strong).map(|class| names[index(*class)]).collect();
        assert!(!golden.is_empty());
        assert_eq!(results[0].texts("labels"), golden, "{case}");
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a class's number")]
fn index(class: f32) -> usize {
    class as usize
}

fn masks(host: &Host) {
    let model = host.more.join("deeplabv3_257_float/model.tflite");
    let photo = host.more.join("pictures/segmentation_input.jpg");
    let labels = host.more.join("labels/pascal_voc_segmentation_labels.txt");
    let file = host.dir.path().join("mask.gray");
    let results = host.launch(&format!(
        "filesrc location={photo:?} ! jpegdec ! videoconvert ! videoscale ! nnbinference name=nn \
         model-file={model:?} labels={labels:?} ! fakesink \
         nn.mask ! queue ! filesink location={file:?}"
    ));
    let found = results[0].texts("labels");
    assert!(
        found.contains(&"person".to_owned()) && found.contains(&"horse".to_owned()),
        "{found:?}"
    );
    let mask = std::fs::read(&file).unwrap();
    assert_eq!(mask.len(), 260 * 257);
    let classes: std::collections::BTreeSet<u8> =
        mask.chunks(260).flat_map(|row| &row[..257]).copied().collect();
    assert!(classes.contains(&15) && classes.contains(&13), "person and horse: {classes:?}");
}

fn killed(host: &Host) {
    let model = host.models.join("mobilenet_v1_0.25_128_quant/model.tflite");
    let launched = host.start(&format!(
        "videotestsrc is-live=true num-buffers=150 ! video/x-raw,framerate=60/1 ! \
         nnbinference model-file={model:?} device=spawn/nnburst-cpu drop=none ! fakesink sync=true"
    ));
    let driver = launched.driver();
    std::thread::sleep(Duration::from_millis(700)); // in mid stream
    host.run("kill", &["-9", &driver.to_string()]);
    let output = launched.finish();
    assert!(output.contains("died (signal 9); restarted"), "{output}");
    let frames = host::results(&output);
    let last = frames.last().unwrap().number("frame");
    assert_eq!(last, 149, "the stream goes on to its end");
    assert!(frames.len() < 150, "some frames had no driver");
    assert!(output.contains("EOS"), "{output}");
}

/// The argument with which this program is the host itself.
const INSIDE: &str = "change-state-while-stopped";

fn stopped(host: &Host) {
    let model = host.models.join("mobilenet_v1_0.25_128_quant/model.tflite");
    let this = std::env::current_exe().unwrap();
    host.run("timeout", &["60", this.to_str().unwrap(), INSIDE, model.to_str().unwrap()]);
}

/// Without an end to the wait for the driver, this would not come back.
fn change_state_while_stopped(model: &str) {
    gst::init().unwrap();
    gstnnburst::plugin_register_static().unwrap();
    let pipeline = gst::parse::launch(&format!(
        "videotestsrc is-live=true ! nnbinference name=nn model-file={model:?} \
         device=spawn/nnburst-cpu drop=none ! fakesink"
    ));
    let pipeline = pipeline.unwrap().downcast::<gst::Pipeline>().unwrap();
    let element = pipeline.by_name("nn").unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    let count = |name: &str| element.property::<u64>(name);
    while count("inferred") < 5 {
        std::thread::sleep(Duration::from_millis(10));
    }
    stop_process(element.property("driver-pid")).unwrap();
    let before = count("frames");
    while count("frames") <= before {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(count("frames"), before + 1, "one frame waits for the driver");
    pipeline.set_state(gst::State::Ready).unwrap();
    pipeline.set_state(gst::State::Null).unwrap();
}

fn pipelines(host: &Host) {
    let model =
        |name: &str| format!("model-file={:?}", host.models.join(name).join("model.tflite"));
    let (small, other) =
        (model("mobilenet_v1_0.25_128_quant"), model("mobilenet_v1_0.5_160_quant"));
    let float = model("mobilenet_v1_0.25_128");
    let scale = "videoconvert ! videoscale";
    for (what, pipeline, count) in [
        (
            "two elements in a row",
            format!(
                "videotestsrc num-buffers=5 ! {scale} ! nnbinference {small} ! {scale} ! nnbinference {other} ! fakesink"
            ),
            10,
        ),
        (
            "a tee",
            format!(
                "videotestsrc num-buffers=5 ! tee name=t t. ! queue ! {scale} ! nnbinference {small} ! fakesink t. ! queue ! {scale} ! nnbinference {float} ! fakesink"
            ),
            10,
        ),
        (
            "a tee before both",
            format!(
                "videotestsrc num-buffers=5 ! video/x-raw,format=RGB,width=128,height=128 ! tee name=t t. ! queue ! nnbinference {small} ! fakesink t. ! queue ! nnbinference {small} device=spawn/nnburst-cpu ! fakesink"
            ),
            10,
        ),
        (
            "a JPEG camera",
            format!(
                "videotestsrc num-buffers=5 ! video/x-raw,width=640,height=480 ! jpegenc ! jpegdec ! {scale} ! nnbinference {small} ! {scale} ! video/x-raw,format=I420 ! fakesink"
            ),
            5,
        ),
        (
            "tensors",
            format!(
                "videotestsrc num-buffers=5 ! nnbinference name=nn {small} ! fakesink nn.tensor_0 ! queue ! fakesink"
            ),
            5,
        ),
        (
            "an interval",
            format!("videotestsrc num-buffers=10 ! nnbinference {small} interval=4 ! fakesink"),
            2,
        ),
        (
            "grey pictures are refused by a model of colour, and converted",
            format!(
                "videotestsrc num-buffers=2 ! video/x-raw,format=GRAY8 ! {scale} ! nnbinference {small} ! fakesink"
            ),
            2,
        ),
    ] {
        assert_eq!(host.launch(&pipeline).len(), count, "{what}");
    }
    let wrong = format!(
        "videotestsrc num-buffers=1 ! video/x-raw,format=I420 ! nnbinference {small} ! fakesink"
    );
    let output = host.run_launch(&wrong, &[]);
    assert!(!output.status.success(), "other caps are refused");
}

fn speech(host: &Host) {
    let noisy = host.models.join("dtln_pipeline/speech_noisy.wav");
    let [first, second] =
        [1, 2].map(|at| host.models.join(format!("dtln_float_{at}/model.tflite")));
    let clean = host.dir.path().join("clean.f32");
    let golden = host::floats(&host.models.join("dtln_pipeline/denoised_float.f32"));
    for size in [4096, 62] {
        host.run_launch(
            &format!(
                "filesrc location={noisy:?} blocksize={size} ! wavparse ! audioconvert ! \
                 audioresample ! nnbdenoise model-1={first:?} model-2={second:?} ! \
                 filesink location={clean:?}"
            ),
            &[],
        );
        let clean = host::floats(&clean);
        let samples = (std::fs::metadata(&noisy).unwrap().len() - 44) / 2;
        assert_eq!(clean.len() as u64, samples, "as long as the recording");
        // The reference ends with its last whole window, and begins with the delay.
        let (behind, end) = (384, 497 * 128);
        let apart = clean.iter().zip(&golden[behind..end]).map(|(a, b)| (a - b).abs());
        let apart = apart.fold(0.0, f32::max);
        assert!(apart <= 1e-4, "{apart} apart");
    }
}

fn leaks(host: &Host) {
    let model = host.models.join("mobilenet_v1_0.25_128_quant/model.tflite");
    let env = [("GST_TRACERS", "leaks"), ("GST_DEBUG", "GST_TRACER:7")];
    let pipeline = format!(
        "videotestsrc num-buffers=50 ! nnbinference name=nn model-file={model:?} interval=1 ! \
         fakesink nn.tensor_0 ! queue ! fakesink"
    );
    let output = host.run_launch(&pipeline, &env);
    assert!(output.status.success(), "{}", output.stderr);
    let alive: Vec<&str> = output
        .stderr
        .lines()
        .filter(|line| line.contains("object-alive, type-name=(string)"))
        .collect();
    assert!(alive.iter().all(|line| line.contains("new format string")), "{alive:#?}");
}

fn latency(host: &Host) {
    let model = host.models.join("mobilenet_v1_0.25_128_quant/model.tflite");
    let env = [("GST_TRACERS", "latency(flags=element+pipeline)"), ("GST_DEBUG", "GST_TRACER:7")];
    let pipeline = format!(
        "videotestsrc num-buffers=50 ! nnbinference name=nn model-file={model:?} ! fakesink"
    );
    let output = host.run_launch(&pipeline, &env);
    let of_element = output.stderr.lines().filter(|line| line.contains("element-latency,"));
    let count = of_element.filter(|line| line.contains("element=(string)nn,")).count();
    assert!(count >= 49, "{count} figures of 50 frames");
}

/// Two lengths of stream leave the same: what a frame needs is freed with it.
fn constant(host: &Host) {
    let model = host.models.join("mobilenet_v1_0.25_128_quant/model.tflite");
    let used = |frames: u32| {
        let pipeline = format!(
            "videotestsrc num-buffers={frames} ! nnbinference model-file={model:?} ! fakesink"
        );
        host.start(&pipeline).most_used()
    };
    let (short, long) = (used(300), used(3000));
    println!("  300 frames: {short:?}; 3000 frames: {long:?}");
    assert!(long.descriptors <= short.descriptors + 2);
    assert!(long.kib <= short.kib + 4096);
}
