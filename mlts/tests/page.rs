//! The page in a real browser: it asks nobody for anything, fits the window, and is light, dark and
//! on paper what it should be.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nnburst_hal::testing::is_there;
use nnburst_mlts::photo::Picture;
use nnburst_mlts::{
    Accuracy, CaseReport, CompileTimes, CrashReport, EvaluatorReport, Latency, ModelReport,
    ModelResult, OpSupport, PeerLatency, Percentiles, Report, Support, TargetReport, WrongAnswer,
    html,
};

/// The longest time that the browser may take; it is ended then.
const HANG: Duration = Duration::from_secs(60);
/// Pixels of the window.
const WIDTH: u32 = 1200;

/// A run with something of everything, and with words that are hostile.
fn report() -> Report {
    let us = Percentiles { min: 900.0, p50: 1234.5, p99: Some(2345.6), ..Percentiles::default() };
    let latency =
        Latency { n: 4000, us, driver_us: Some(us), overhead_us: Some(us), ..Latency::default() };
    let op = |op: &str, taken: bool| OpSupport {
        op: op.into(),
        types: vec!["TENSOR_QUANT8_ASYMM".into(), "TENSOR_INT32".into()],
        taken,
        why: if taken { String::new() } else { "refused".into() },
        ..OpSupport::default()
    };
    let wrong = WrongAnswer {
        name: "image-1.jpeg".into(),
        credit: "somebody, CC-BY 2.0".into(),
        ..WrongAnswer::default()
    };
    let accuracy = Accuracy {
        tier: "task".into(),
        cases: vec![CaseReport {
            name: "cup".into(),
            tier: "task".into(),
            ..CaseReport::default()
        }],
        evaluators: vec![EvaluatorReport {
            name: "TopK".into(),
            values: BTreeMap::from([("top_1".into(), 0.5)]),
            wrong: vec![wrong],
            ..EvaluatorReport::default()
        }],
        ..Accuracy::default()
    };
    let result = |outcome: &str| ModelResult {
        outcome: outcome.into(),
        reason: "<img src=http://trap.invalid/a.png> is not markup".into(),
        support: Some(Support {
            taken: 1,
            of: 2,
            partitions: 2,
            ops: vec![op("DEPTHWISE_CONV_2D", true), op("CONV_2D", false)],
        }),
        compile_ms: Some(CompileTimes::default()),
        accuracy: Some(accuracy.clone()),
        latency: BTreeMap::from([
            ("burst".into(), latency.clone()),
            ("sync".into(), latency.clone()),
        ]),
        reference_latency: Some(latency.clone()),
        ..ModelResult::default()
    };
    let model = |id: &str, outcome: &str| ModelReport {
        id: id.into(),
        per_target: BTreeMap::from([("t0".into(), result(outcome))]),
        peers: vec![PeerLatency {
            engine: "tflite-<b>xnnpack".into(),
            threads: 1,
            p50_us: 2000.0,
            p99_us: Some(2500.0),
        }],
        ..ModelReport::default()
    };
    let crash = |id: &str, outcome: &str| CrashReport {
        id: id.into(),
        name: "many-processes".into(),
        target: "t0".into(),
        outcome: outcome.into(),
        process: Some("driver".into()),
        stderr_tail: "<script src=http://trap.invalid/b.js></script>".into(),
        ..CrashReport::default()
    };
    Report {
        verdict: "FAIL".into(),
        reasons: vec!["c01: CRASH driver (SIGSEGV)".into()],
        targets: vec![TargetReport {
            id: "t0".into(),
            name: "vendor-npu".into(),
            ..TargetReport::default()
        }],
        reference: "nnapi-reference".into(),
        models: vec![
            model("mobilenet_v3-large-minimalistic_224_1.0_uint8", "SUCCESS"),
            model("mlperf_tiny_kws_int8", "FAILURE"),
        ],
        crash: vec![crash("c01", "CRASH"), crash("c08", "SUCCESS")],
        ..Report::default()
    }
}

/// Everything that the browser asks of the network comes here instead, and gets no answer.
struct Trap {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Trap {
    fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut bytes = [0; 512];
                let read = stream.read(&mut bytes).unwrap_or(0);
                let text = String::from_utf8_lossy(&bytes[..read]);
                let first = text.lines().next().unwrap_or_default().to_owned();
                seen.lock().unwrap().push(first);
                // Whether it arrives makes no difference.
                let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            }
        });
        Self { address, requests }
    }

    /// Requests for what pages of this test name.
    fn caught(&self) -> Vec<String> {
        let all = self.requests.lock().unwrap();
        all.iter().filter(|line| line.contains(".invalid")).cloned().collect()
    }
}

/// Runs the browser without a window, and returns what it writes; `None` if it takes for ever.
fn browse(trap: &Trap, args: &[&str], page: &Path) -> Option<String> {
    let profile = tempfile::tempdir().unwrap();
    let mut child = Command::new("chromium")
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--disable-background-networking", "--disable-sync", "--no-first-run"])
        .args(["--disable-component-update", "--disable-dev-shm-usage"])
        .arg("--allow-file-access-from-files")
        .arg(format!("--proxy-server=http://{}", trap.address))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={WIDTH},2400"))
        .args(args)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > HANG {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(reader.join().unwrap().unwrap())
}

/// The colour of a screenshot's corner.
fn corner(file: &Path) -> [u8; 3] {
    let picture = Picture::decode(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(u32::try_from(picture.width), Ok(WIDTH), "{}", file.display());
    picture.pixels.as_chunks().0[2 * picture.width + 2]
}

#[test]
fn the_page_fetches_nothing_and_is_light_dark_and_on_paper() {
    let there = Command::new("chromium").arg("--version").output();
    if !is_there("chromium", there.is_ok_and(|version| version.status.success())) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let trap = Trap::set();
    // The trap catches what a page asks for.
    let bait = at("bait.html");
    std::fs::write(&bait, "<img src=\"http://bait.invalid/a.png\">").unwrap();
    browse(&trap, &["--dump-dom"], &bait).unwrap();
    assert!(trap.caught().iter().any(|line| line.contains("bait.invalid")), "{:?}", trap.caught());
    trap.requests.lock().unwrap().clear();

    let page = at("run.html");
    std::fs::write(&page, html(&[report()], None)).unwrap();
    for (scheme, number, want) in [("light", 1, [255, 255, 255]), ("dark", 0, [0x16, 0x18, 0x1b])] {
        let file = at(&format!("{scheme}.png"));
        let shot = format!("--screenshot={}", file.display());
        let colours = format!("--blink-settings=preferredColorScheme={number}");
        browse(&trap, &[&shot, &colours], &page).unwrap();
        assert_eq!(corner(&file), want, "{scheme}");
    }
    let paper = at("run.pdf");
    browse(&trap, &[&format!("--print-to-pdf={}", paper.display())], &page).unwrap();
    let paper = std::fs::read(paper).unwrap();
    assert!(paper.starts_with(b"%PDF") && paper.len() > 10_000, "{} bytes", paper.len());

    // The page's width, and its text as the browser shows it, by a frame of the same window.
    let frame = at("frame.html");
    let script = "const d = document.querySelector('iframe').contentDocument; const w = d.querySelector('table.wide');\
        document.title = [d.documentElement.scrollWidth, w.scrollWidth, w.parentElement.clientWidth,\
        d.images.length, d.scripts.length, d.body.innerText.includes('CRASH driver')].join(' ')";
    let text = format!(
        "<body style=\"margin:0\"><iframe src=\"run.html\" width=\"{WIDTH}\" height=\"900\" style=\"border:0\" onload=\"{script}\"></iframe>"
    );
    std::fs::write(&frame, text).unwrap();
    let dom = browse(&trap, &["--dump-dom"], &frame).unwrap();
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap();
    let [page_width, table, room, images, scripts, text] =
        title.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let number = |text: &str| text.parse::<u32>().unwrap();
    assert!(number(page_width) <= WIDTH, "{title}");
    assert!(number(table) <= number(room), "the table of models fits: {title}");
    assert_eq!((images, scripts, text), ("0", "0", "true"), "{title}");
    assert!(trap.caught().is_empty(), "{:?}", trap.caught());
}

/// JSON and page of a made-up run as they were when people last looked at them;
/// `NNBURST_WRITE_DOCS=1` writes them anew.
#[test]
fn json_and_page_are_those_of_the_golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let report = report();
    let json = serde_json::to_string_pretty(&report).unwrap() + "\n";
    let again: Report = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string_pretty(&again).unwrap() + "\n", json, "nothing is lost");
    for (name, text) in [("run.json", json), ("run.html", html(&[report], None))] {
        let path = folder.join(name);
        if std::env::var_os("NNBURST_WRITE_DOCS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap();
        assert!(golden == text, "{name} is another; NNBURST_WRITE_DOCS=1 writes it anew");
    }
}
