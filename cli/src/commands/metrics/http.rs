//! As much of HTTP as a scraper needs: one GET per connection. Whoever connects may say anything
//! or nothing; it gets a few seconds and a few kilobytes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Look;
use super::exposition::MEDIA_TYPE;
use crate::failure::{Failure, warn};

/// The time that one may take for its request, and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a request.
const LONGEST: usize = 8 << 10;

/// Connections at a time; more are closed.
const MOST: usize = 16;

/// A server of metrics.
#[derive(Debug)]
pub(super) struct Server {
    listener: TcpListener,
    look: Look,
    busy: Arc<AtomicUsize>,
}

impl Server {
    pub(super) fn bind(address: SocketAddr, look: Look) -> Result<Self, Failure> {
        let listener = TcpListener::bind(address).map_err(|error| {
            Failure::usage(format!(
                "--listen {address}: {error}; choose an address of this machine and a free port"
            ))
        })?;
        Ok(Self { listener, look, busy: Arc::default() })
    }

    /// The address that it listens on: with the port that the system chose for port 0.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until the process ends.
    pub(super) fn serve(self) {
        for stream in self.listener.incoming() {
            match stream {
                Ok(stream) => self.accept(stream),
                Err(error) => {
                    warn(&format!("metrics: {error}"));
                    // Out of descriptors, mostly: they come back.
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    /// Answers on a thread of its own, so that who is slow holds up nobody.
    fn accept(&self, stream: TcpStream) {
        let place = Place(Arc::clone(&self.busy));
        // Relaxed: a count, which hands nothing over.
        if self.busy.fetch_add(1, Ordering::Relaxed) >= MOST {
            return;
        }
        let look = self.look.clone();
        let thread = std::thread::Builder::new().name("metrics-scrape".into());
        let _ = thread.spawn(move || {
            let _place = place;
            // Who hung up needs no answer.
            let _ = answer(stream, &look);
        });
    }
}

/// A connection's place among those at a time; given back when dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(mut stream: TcpStream, look: &Look) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let Response { status, media, body, has_body } = match read(&mut stream)? {
        Some(request) => respond(&request, look),
        None => Response::said("400 Bad Request", "This is no request of HTTP.\n"),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if has_body {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}

/// Method and path.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    method: String,
    path: String,
}

/// Reads a request's head; `None` for what is none.
fn read(stream: &mut TcpStream) -> io::Result<Option<Request>> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    while bytes.len() < LONGEST {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        let length = stream.read(&mut piece)?;
        bytes.extend_from_slice(piece.get(..length).unwrap_or_default());
        match parse(&bytes) {
            Ok(Some(request)) => return Ok(Some(request)),
            Ok(None) if length > 0 && Instant::now() < until => {}
            _ => break,
        }
    }
    Ok(None)
}

/// Parses a request's head; nothing where it goes on.
fn parse(bytes: &[u8]) -> Result<Option<Request>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    if request.parse(bytes)?.is_partial() {
        return Ok(None);
    }
    let [method, path] = [request.method, request.path].map(|it| it.unwrap_or("").to_owned());
    Ok(Some(Request { method, path }))
}

struct Response {
    status: &'static str,
    media: &'static str,
    body: String,
    has_body: bool,
}

impl Response {
    fn said(status: &'static str, text: &str) -> Self {
        Self { status, media: "text/plain; charset=utf-8", body: text.to_owned(), has_body: true }
    }
}

fn respond(request: &Request, look: &Look) -> Response {
    let path = request.path.split('?').next().unwrap_or("");
    let response = match (request.method.as_str(), path) {
        ("GET" | "HEAD", "/metrics") => match look.text() {
            Ok(body) => Response { status: "200 OK", media: MEDIA_TYPE, body, has_body: true },
            Err(failure) => {
                Response::said("503 Service Unavailable", &format!("{}\n", failure.message))
            }
        },
        ("GET" | "HEAD", _) => Response::said("404 Not Found", "Metrics are at /metrics.\n"),
        _ => Response::said("405 Method Not Allowed", "Metrics are read with GET.\n"),
    };
    Response { has_body: request.method != "HEAD", ..response }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_parsed_as_they_arrive() {
        let head = b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for length in 0..head.len() {
            assert_eq!(parse(&head[..length]).unwrap(), None, "{length}");
        }
        let request = parse(head).unwrap().unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/metrics?x=1"));
        assert!(parse(b"\x16\x03\x01 TLS").is_err());
        assert!(parse(b"NNBURST\x00").is_err());
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        let look = Look { service: Some("none".into()), without_clients: false };
        let status = |method: &str, path: &str| {
            respond(&Request { method: method.into(), path: path.into() }, &look).status
        };
        assert_eq!(status("GET", "/"), "404 Not Found");
        assert_eq!(status("POST", "/metrics"), "405 Method Not Allowed");
    }
}
