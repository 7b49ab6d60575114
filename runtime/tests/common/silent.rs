//! A service that greets, and then is silent.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// The service's name.
pub const SILENT: &str = "silent";

/// A directory of services with a silent one in it.
pub struct Silent(tempfile::TempDir);

impl Silent {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(format!("{SILENT}.sock"))).unwrap();
        std::thread::spawn(move || {
            let mut greeted = Vec::new();
            for mut stream in listener.incoming().map_while(Result::ok) {
                // A client's greeting is also a service's that welcomes it.
                let mut greeting = [0; 16];
                if stream
                    .read_exact(&mut greeting)
                    .and_then(|()| stream.write_all(&greeting))
                    .is_ok()
                {
                    greeted.push(stream);
                }
            }
        });
        Self(dir)
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }
}
