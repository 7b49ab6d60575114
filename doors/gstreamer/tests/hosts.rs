//! The plugin in hosts: gst-launch, gst-inspect, tracers, a driver that is killed.
//!
//! The driver is this program again (`serve --driver NAME --fd 0`), hence a `main` of its own.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that can't go on stops"
)]

mod host;

use std::time::Duration;

use host::{CLI, Host};
use nnburst_conformance::shared_dir;

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
    if host::inside::run(&args) {
        return;
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
        ("applications push, exchange models, fork and unload", applications),
        ("two elements, tees, a JPEG camera, tensors", pipelines),
        ("speech is denoised as the reference is", speech),
        ("nothing leaks", leaks),
        ("the latency tracer sees the element", latency),
        ("descriptors and memory stay constant over two minutes", constant),
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
        // Top, left, bottom, right there; left, top, right, bottom here, within the picture.
        let corners = host::floats(&folder.join(format!("{case}.out0")));
        let boxes = results[0].boxes();
        for (ours, &[top, left, bottom, right]) in boxes.iter().zip(corners.as_chunks::<4>().0) {
            let golden = [left, top, right, bottom].map(|corner| f64::from(corner.clamp(0.0, 1.0)));
            let apart = ours.iter().zip(golden).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-6, "{case}: {ours:?}, golden {golden:?}");
        }
        assert_eq!(boxes.len(), strong);
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a class's number")]
fn index(class: f32) -> usize {
    class as usize
}

fn masks(host: &Host) {
    let folder = host.more.join("deeplabv3_257_float");
    let model = folder.join("model.tflite");
    let labels = host.more.join("labels/pascal_voc_segmentation_labels.txt");
    let (pixels, file) = (host.dir.path().join("pixels.rgb"), host.dir.path().join("mask.gray"));
    for (case, seen) in [("segmentation_input", &["person", "horse"][..]), ("bird", &["bird"])] {
        // The golden's own pixels, whose rows GStreamer pads to four bytes.
        let input = host::floats(&folder.join(format!("{case}.in0")));
        let rows = input.chunks(257 * 3).flat_map(|row| row.iter().map(pixel).chain([0]));
        std::fs::write(&pixels, rows.collect::<Vec<u8>>()).unwrap();
        let caps = "video/x-raw,format=RGB,width=257,height=257,framerate=1/1";
        let results = host.launch(&format!(
            "filesrc location={pixels:?} blocksize={} ! {caps} ! nnbinference name=nn \
             model-file={model:?} labels={labels:?} ! fakesink \
             nn.mask ! queue ! filesink location={file:?}",
            772 * 257
        ));
        let found = results[0].texts("labels");
        assert!(seen.iter().all(|label| found.iter().any(|it| it == label)), "{found:?}");
        let mask = std::fs::read(&file).unwrap();
        assert_eq!(mask.len(), 260 * 257);
        let mask: Vec<u8> = mask.chunks(260).flat_map(|row| &row[..257]).copied().collect();
        let golden = std::fs::read(folder.join(format!("{case}.out0"))).unwrap();
        let others = mask.iter().zip(&golden).filter(|(ours, golden)| ours != golden).count();
        assert!(others <= 257 * 257 / 1000, "{case}: {others} pixels are of another class");
    }
}

/// The pixel that stands for a value from -1 to 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, 0 to 255")]
fn pixel(value: &f32) -> u8 {
    ((value + 1.0) * 127.5).round() as u8
}

fn killed(host: &Host) {
    let model = host.models.join("mobilenet_v1_0.25_128_quant/model.tflite");
    let launched = host.start(&format!(
        "videotestsrc is-live=true num-buffers=600 ! video/x-raw,framerate=60/1 ! \
         nnbinference model-file={model:?} device=spawn/nnburst-cpu drop=none ! fakesink sync=true"
    ));
    let driver = launched.driver();
    std::thread::sleep(Duration::from_millis(700)); // in mid stream
    host.run("kill", &["-9", &driver.to_string()]);
    let output = launched.finish();
    assert!(output.contains("died (signal 9, SIGKILL); restarted"), "{output}");
    let frames = host::results(&output);
    let last = frames.last().unwrap().number("frame");
    assert_eq!(last, 599, "the stream goes on to its end");
    assert!(frames.len() < 600, "some frames had no driver");
    assert!(output.contains("EOS"), "{output}");

    let [first, second] = host.networks();
    let launched = host.start(&format!(
        "audiotestsrc is-live=true samplesperbuffer=160 num-buffers=400 ! \
         audio/x-raw,rate=16000,channels=1 ! audioconvert ! \
         nnbdenoise model-1={first:?} model-2={second:?} device=spawn/nnburst-cpu ! fakesink"
    ));
    let driver = launched.driver();
    std::thread::sleep(Duration::from_millis(700));
    host.run("kill", &["-9", &driver.to_string()]);
    let output = launched.finish();
    assert!(output.contains("died (signal 9, SIGKILL); restarted"), "{output}");
    assert!(output.contains("EOS"), "{output}");
}

fn stopped(host: &Host) {
    let model = host.models.join("mobilenet_v1_0.25_128_quant/model.tflite");
    host.inside(&["stopped-video", model.to_str().unwrap()]);
    let [first, second] = host.networks();
    host.inside(&["stopped-sound", first.to_str().unwrap(), second.to_str().unwrap()]);
}

fn applications(host: &Host) {
    let model = host.models.join("mobilenet_v1_0.25_128_quant/model.tflite");
    host.inside(&["appsrc", model.to_str().unwrap()]);
    host.inside(&["wrong-caps", model.to_str().unwrap()]);
    let other = host.models.join("mobilenet_v1_0.5_160_quant/model.tflite");
    host.inside(&["exchanged", model.to_str().unwrap(), other.to_str().unwrap()]);
    host.inside(&["forked", model.to_str().unwrap()]);
    host.inside(&["unloaded", host.plugin().to_str().unwrap()]);
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
    for part in ["nnburstinference0 can't handle caps", "I420"] {
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
    }
}

fn speech(host: &Host) {
    let noisy = host.models.join("dtln_pipeline/speech_noisy.wav");
    let [first, second] = host.networks();
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
    assert!(!alive.is_empty(), "there is no tracer: {}", output.stderr);
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

/// Two lengths of stream leave the same: what a frame or a block needs is freed with it.
fn constant(host: &Host) {
    let model = host.models.join("mobilenet_v1_0.25_128_quant/model.tflite");
    let [first, second] = host.networks();
    let video = |seconds: u32| {
        format!(
            "videotestsrc num-buffers={} ! video/x-raw,framerate=30/1 ! \
             nnbinference model-file={model:?} ! fakesink",
            30 * seconds
        )
    };
    let sound = |seconds: u32| {
        format!(
            "audiotestsrc wave=pink-noise samplesperbuffer=1600 num-buffers={} ! \
             audio/x-raw,rate=16000,channels=1 ! audioconvert ! \
             nnbdenoise model-1={first:?} model-2={second:?} ! fakesink",
            10 * seconds
        )
    };
    let pipelines: [(&str, &dyn Fn(u32) -> String); 2] = [("video", &video), ("sound", &sound)];
    for (what, pipeline) in pipelines {
        let [short, long] = [10, 120].map(|seconds| host.start(&pipeline(seconds)).most_used());
        println!("  ten seconds of {what}: {short:?}; two minutes: {long:?}");
        assert!(long.descriptors <= short.descriptors + 2);
        assert!(long.kib <= short.kib + 4096);
    }
}
