//! Services for Prometheus: over HTTP, in a file, and scraped by the real one.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod common;
mod services;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use common::{ended, fail, path, text, until};
use nnburst_hal::testing::is_there;
use services::{DRIVER, Services};

/// `nnburst metrics --listen` on a port that the system chose.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(services: &Services) -> Self {
        let mut process = services.run(&["metrics", "--listen", "127.0.0.1:0"]).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let address = said.strip_prefix("metrics on http://").unwrap();
        let address = address.trim_end().strip_suffix("/metrics").unwrap().to_owned();
        Self { process, address }
    }

    /// All that it answers to some bytes.
    fn answer(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The value of the first sample that begins so.
fn sample(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn metrics_are_read_over_http_and_from_a_file() {
    let mut services = Services::start();
    let pid = services.client("burst");
    until("the burst", || services.works(pid).iter().any(|work| work["executions"] != 0));
    let server = Server::start(&services);
    // Who says nothing holds up nobody, and who talks nonsense is told.
    let _silent = TcpStream::connect(&server.address).unwrap();
    assert!(server.answer(b"\x16\x03\x01\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(server.answer(b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(server.answer(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    let head = server.answer(b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    let answer = server.answer(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    let service = format!("{{service=\"{DRIVER}\"");
    assert_eq!(sample(body, &format!("nnburst_up{service}")), Some(1.0));
    assert!(sample(body, &format!("nnburst_execution_seconds_count{service}")) > Some(0.0));
    assert!(body.contains("client=\"nnburst\",kind=\"burst\""), "{body}");
    assert!(body.contains("priority=\"MEDIUM\""), "{body}");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nnburst.prom");
    let arguments = ["metrics", DRIVER, "--without-clients", "--file", path(&file)];
    services.said(&[&arguments[..], &["--interval", "1", "--rounds", "3"]].concat());
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(sample(&written, &format!("nnburst_execution_seconds_count{service}")) > Some(0.0));
    assert!(!written.contains("nnburst_work"), "{written}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o644, "for the collector's user");

    // The format as Prometheus' own tool reads it.
    if let Ok(mut tool) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        tool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        let said = tool.wait_with_output().unwrap();
        assert!(said.status.success(), "{}{}", text(&said.stdout), text(&said.stderr));
    } else {
        assert!(!is_there("prometheus", false));
    }

    let missing = dir.path().join("no/such/nnburst.prom");
    let said = fail(2, &["metrics", "--file", path(&missing), "--rounds", "1"]);
    assert!(said.contains("no/such/nnburst.prom") && said.contains("make "), "{said}");
    let said = fail(2, &["metrics", "--listen", &server.address]);
    assert!(said.contains(&server.address) && said.contains("free port"), "{said}");
    // A service that died is told as one that is down.
    services.service.kill().unwrap();
    ended(&mut services.service);
    let answer = server.answer(b"GET /metrics HTTP/1.1\r\n\r\n");
    assert_eq!(sample(&answer, &format!("nnburst_up{service}")), Some(0.0), "{answer}");
}

#[test]
fn prometheus_scrapes_a_service() {
    let mut services = Services::start();
    services.client("burst");
    services.client("sync");
    let server = Server::start(&services);
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("prometheus.yml");
    let address = &server.address;
    let scrape = format!(
        "scrape_configs:\n- job_name: nnburst\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  \
         static_configs:\n  - targets: ['{address}']\n"
    );
    std::fs::write(&settings, scrape).unwrap();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", path(&settings)))
        .arg(format!("--storage.tsdb.path={}", path(&dir.path().join("data"))))
        .arg(format!("--web.listen-address={listen}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(process) = prometheus else {
        assert!(!is_there("prometheus", false));
        return;
    };
    let prometheus = Server { process, address: listen };
    let query = |query: &str| -> Option<f64> {
        let mut stream = TcpStream::connect(&prometheus.address).ok()?;
        let request = format!("GET /api/v1/query?query={query} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        // It answers in words while it starts.
        let answer: serde_json::Value = serde_json::from_str(body).ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    until("the scrapes", || query("up") == Some(1.0));
    // What the dashboard asks: rates and percentiles of a window, and every client's executions.
    until("a rate", || query("rate(nnburst_execution_seconds_count[30s])") > Some(0.0));
    let share = "histogram_quantile(0.99,rate(nnburst_execution_seconds_bucket[30s]))";
    until("a percentile", || query(share).is_some_and(|seconds| seconds > 0.0 && seconds < 10.0));
    until("both kinds of clients", || {
        query("count(count(nnburst_work_seconds_count>0)by(kind))") == Some(2.0)
    });
    until("two clients, without the one that looks", || query("nnburst_clients") == Some(2.0));
}
